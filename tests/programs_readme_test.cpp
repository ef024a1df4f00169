// What the lessons' READMEs quote: reports of hangs are what a hanging program says today, code
// stands in the source like that, and links lead somewhere.
#include "tests/support/catch.hpp"
#include "tests/support/run_command.hpp"

#include <cstddef>
#include <filesystem>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

using namespace dist::test;

namespace {

const std::vector<std::string> kLessons{"01_send_recv", "02_broadcast", "03_all_reduce",
                                        "04_distributed_sampler", "05_ddp_training"};

std::string readme_of(const std::string& lesson) {
  return content_of(SOURCE_DIR "/" + lesson + "/README.md");
}

// A fenced block: the language behind its fence, and its lines without their indentation.
struct Block {
  std::string language;
  std::vector<std::string> lines;
};

std::vector<Block> blocks_of(const std::string& readme) {
  std::vector<Block> blocks;
  std::istringstream text(readme);
  bool inside = false;
  std::size_t indent = 0;
  for (std::string line; std::getline(text, line);) {
    const std::size_t fence = line.find("```");
    if (fence != std::string::npos && line.find_first_not_of(' ') == fence) {
      inside = !inside;
      indent = fence;
      if (inside) blocks.push_back({line.substr(fence + 3), {}});
    } else if (inside) {
      blocks.back().lines.push_back(line.size() < indent ? "" : line.substr(indent));
    }
  }
  return blocks;
}

// All source files of the lessons, one behind the other.
std::string all_source() {
  std::string source;
  for (const std::string& lesson : kLessons) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(SOURCE_DIR "/" + lesson)) {
      const std::string suffix = entry.path().extension().string();
      if (suffix == ".cpp" || suffix == ".hpp") source += content_of(entry.path().string());
    }
  }
  return source;
}

}  // namespace

TEST_CASE("the hang reports in the READMEs are those of the programs", "[readme]") {
  // mpirun -np RANKS build/FOLDER/PROGRAM FLAGS, whose report stands in the next block.
  const std::regex command(R"(mpirun -np (\d+) build/(bin|tests)/(\w+) (.*--timeout \d.*))");
  for (std::size_t lesson = 0; lesson < 3; ++lesson) {
    const std::vector<Block> blocks = blocks_of(readme_of(kLessons[lesson]));
    int reports = 0;
    for (std::size_t i = 0; i + 1 < blocks.size(); ++i) {
      std::smatch part;
      if (blocks[i].lines.size() != 1) continue;
      if (!std::regex_match(blocks[i].lines[0], part, command)) continue;
      ++reports;
      const CommandResult result =
          mpirun(std::stoi(part[1]), "../" + part[2].str() + "/" + part[3].str(), part[4]);
      INFO(blocks[i].lines[0] << "\n" << result.out << result.err);
      CHECK(result.status == 86);
      for (const std::string& line : blocks[i + 1].lines) {
        if (line.rfind("hang: ", 0) != 0) continue;  // tells of the machine
        INFO("expected: " << line);
        CHECK(result.says(line + "\n"));
      }
    }
    INFO(kLessons[lesson]);
    CHECK(reports >= 1);
  }
}

// Lessons 4 and 5 quote lines, each from a file that it names (programs_quotes_test).
TEST_CASE("the code that the READMEs show stands in the source", "[readme]") {
  const std::string source = all_source();
  for (const std::string lesson : {"01_send_recv", "02_broadcast", "03_all_reduce"}) {
    for (const Block& block : blocks_of(readme_of(lesson))) {
      if (block.language != "cpp") continue;
      std::string code;
      for (const std::string& line : block.lines) code += line + "\n";
      INFO(lesson << "\n" << code);
      CHECK(source.find(code) != std::string::npos);
    }
  }
}

TEST_CASE("the READMEs' links lead to files, and to what is named behind them", "[readme]") {
  // [file](path), maybe followed by: , `function`
  const std::regex link(R"(\]\(([^):#]+)\)(, `(\[?\w+\]?)`)?)");
  for (const std::string& lesson : kLessons) {
    const std::string readme = readme_of(lesson);
    int links = 0;
    for (std::sregex_iterator found(readme.begin(), readme.end(), link), end; found != end;
         ++found, ++links) {
      const std::string path = SOURCE_DIR "/" + lesson + "/" + (*found)[1].str();
      INFO(found->str());
      CHECK(std::filesystem::exists(path));
      if ((*found)[3].matched) {
        CHECK(content_of(path).find((*found)[3].str()) != std::string::npos);
      }
    }
    CHECK(links >= 5);
  }
}
