// What the READMEs of lessons 4 and 5 quote from the sources stands there.
#include "tests/support/catch.hpp"
#include "tests/support/run_command.hpp"

#include <cstddef>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

using namespace dist::test;

namespace {

// The lines of all blocks ```language of a README.
std::vector<std::string> quoted(const std::string& readme, const std::string& language) {
  std::vector<std::string> lines;
  bool inside = false;
  std::istringstream text(content_of(readme));
  for (std::string line; std::getline(text, line);) {
    if (line == "```" + language || (inside && line == "```")) {
      inside = !inside;
    } else if (inside && !line.empty()) {
      lines.push_back(line);
    }
  }
  return lines;
}

std::string trimmed(const std::string& line) {
  const std::size_t begin = line.find_first_not_of(' ');
  return begin == std::string::npos ? "" : line.substr(begin);
}

const std::string kLesson5 = SOURCE_DIR "/05_ddp_training/";

}  // namespace

TEST_CASE("lesson 5's README quotes the diff from one process to many", "[lesson05]") {
  const std::string one = content_of(kLesson5 + "single_process.cpp");
  const std::string many = content_of(kLesson5 + "main.cpp");
  const std::vector<std::string> diff = quoted(kLesson5 + "README.md", "diff");
  CHECK(diff.size() > 10);
  for (const std::string& line : diff) {
    INFO(line);
    const std::string code = trimmed(line.substr(1));
    REQUIRE((line[0] == '-' || line[0] == '+'));
    CHECK((one.find(code) != std::string::npos) == (line[0] == '-'));
    CHECK((many.find(code) != std::string::npos) == (line[0] == '+'));
  }
}

TEST_CASE("what lessons 4 and 5 quote in C++ stands in the file that they name",
          "[lesson04][lesson05]") {
  std::vector<std::string> lines = quoted(kLesson5 + "README.md", "cpp");
  const std::vector<std::string> of_lesson4 =
      quoted(SOURCE_DIR "/04_distributed_sampler/README.md", "cpp");
  CHECK(lines.size() > 15);
  CHECK(of_lesson4.size() > 5);
  lines.insert(lines.end(), of_lesson4.begin(), of_lesson4.end());
  std::string source;
  for (const std::string& line : lines) {
    INFO(line);
    const std::string code = trimmed(line);
    if (code.starts_with("// ")) {  // "// FILE: why" or "// FILE, where ..."
      const std::string name = code.substr(3, code.find_first_of(":,", 3) - 3);
      const std::string path =
          name.starts_with("process_group/") ? kLesson5 + name : SOURCE_DIR "/" + name;
      REQUIRE(std::filesystem::exists(path));
      source = content_of(path);
      continue;
    }
    CHECK(source.find(code) != std::string::npos);
  }
}
