// Code quoted in the READMEs must be in the file and function that the quote names, and the
// target of every link must exist. The rules are in CONTRIBUTING.md, "READMEs".
#include "tests/support/catch.hpp"
#include "tests/support/readme_blocks.hpp"
#include "tests/support/run_command.hpp"
#include "tests/support/same_output.hpp"
#include "tests/support/source_function.hpp"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <regex>
#include <string>
#include <tuple>
#include <vector>

using namespace dist::test;

namespace {

// "// FILE, FUNCTION" or "// FILE, FUNCTION: words", where FILE is relative to the repository
// root.
const std::regex kOrigin(R"(\s*// ([\w/.]+\.[ch]pp), ([\w:~]+?)(: .*)?)");

// The code after an origin, cut into pieces wherever a line "// ..." marks an omission.
struct Quote {
  std::string place, file, function;
  std::vector<std::vector<std::string>> pieces;
};

std::vector<Quote> quotes_of(const Block& block) {
  std::vector<Quote> quotes;
  for (const std::string& line : block.lines) {
    std::smatch part;
    const std::string code = trimmed(line);
    if (std::regex_match(line, part, kOrigin)) {
      quotes.push_back({block.place, part[1], part[2], {{}}});
    } else if (quotes.empty()) {
      quotes.push_back({block.place, "", "", {{}}});  // names no origin
    } else if (code == "// ...") {
      quotes.back().pieces.emplace_back();
    } else if (!code.empty()) {
      quotes.back().pieces.back().push_back(code);
    }
  }
  return quotes;
}

// Whether `body` contains all pieces, each as a run of consecutive lines.
bool stands_in(const std::vector<std::string>& body, const Quote& quote) {
  std::size_t from = 0;
  for (const std::vector<std::string>& piece : quote.pieces) {
    const auto found = std::search(body.begin() + static_cast<std::ptrdiff_t>(from), body.end(),
                                   piece.begin(), piece.end());
    if (piece.empty() || found == body.end()) return false;
    from = static_cast<std::size_t>(found - body.begin()) + piece.size();
  }
  return true;
}

}  // namespace

TEST_CASE("the code that the READMEs quote is in the function that they name", "[readme]") {
  std::size_t count = 0;
  for (const std::string& name : kReadmes) {
    for (const Block& block : blocks_of(name)) {
      if (block.language != "cpp") continue;
      for (const Quote& quote : quotes_of(block)) {
        ++count;
        INFO(quote.place << ": " << quote.file << ", " << quote.function << "\n"
                         << block.text());
        CHECK(!quote.file.empty());
        if (quote.file.empty()) continue;
        REQUIRE(std::filesystem::exists(SOURCE_DIR "/" + quote.file));
        const auto bodies =
            bodies_of(lines_of(content_of(SOURCE_DIR "/" + quote.file)), quote.function);
        CHECK(!bodies.empty());
        CHECK(std::any_of(bodies.begin(), bodies.end(),
                          [&](const auto& body) { return stands_in(body, quote); }));
      }
    }
  }
  CHECK(count >= 10);
}

// The prose contains `diff ONE OTHER`. Lines with - must occur only in ONE, lines with + only
// in OTHER.
TEST_CASE("the diffs that the READMEs quote match the files", "[readme]") {
  static const std::regex command(R"(`diff ([\w/.]+) ([\w/.]+)`)");
  std::size_t count = 0;
  for (const std::string& name : kReadmes) {
    const std::string readme = content_of(SOURCE_DIR "/" + name);
    for (const Block& block : blocks_of(name)) {
      if (block.language != "diff") continue;
      std::smatch files;
      REQUIRE(std::regex_search(readme, files, command));
      const std::string one = content_of(SOURCE_DIR "/" + files[1].str());
      const std::string other = content_of(SOURCE_DIR "/" + files[2].str());
      for (const std::string& line : block.lines) {
        ++count;
        INFO(block.place << ": " << line);
        const std::string code = trimmed(line.substr(1));
        REQUIRE((line[0] == '-' || line[0] == '+'));
        CHECK((one.find(code) != std::string::npos) == (line[0] == '-'));
        CHECK((other.find(code) != std::string::npos) == (line[0] == '+'));
      }
    }
  }
  CHECK(count > 10);
}

TEST_CASE("the READMEs' links lead to existing files, which contain what the links name",
          "[readme]") {
  // [file](path), optionally followed by: , `function`
  const std::regex link(R"(\[([^\]\[]*)\]\(([^):#]+)\)(, `(\[?\w+\]?)`)?)");
  for (const std::string& name : kReadmes) {
    const std::string readme = content_of(SOURCE_DIR "/" + name);
    const std::filesystem::path folder =
        std::filesystem::path(SOURCE_DIR "/" + name).parent_path();
    int links = 0;
    for (std::sregex_iterator found(readme.begin(), readme.end(), link), end; found != end;
         ++found, ++links) {
      const std::string text = (*found)[1];
      const std::string path = folder / (*found)[2].str();
      INFO(name << ": " << found->str());
      CHECK(std::filesystem::exists(path));
      if (text.ends_with("pp")) CHECK(path.ends_with(text));  // the text is the end of the path
      if ((*found)[4].matched) {
        CHECK(content_of(path).find((*found)[4].str()) != std::string::npos);
      }
    }
    CHECK((links >= 5 || !name.ends_with("README.md")));
  }
}

TEST_CASE("the cheat sheet names existing flags, our exit statuses and existing sections",
          "[readme]") {
  const std::string sheet = content_of(SOURCE_DIR "/docs/cheat_sheet.md");
  // An item of a list, with the programs before the colon and the flags after it.
  const std::regex item(R"(\n- (Every program|`(\w+)`)[^:]*:([^\n]*(\n  [^\n]*)*))");
  const std::regex flag(R"(`(--[a-z-]+)( [a-z]+`)?)");
  const std::vector<std::string> all{"send_recv", "broadcast", "all_reduce",
                                     "distributed_sampler", "ddp_training"};
  int flags = 0;
  for (std::sregex_iterator found(sheet.begin(), sheet.end(), item), end; found != end;
       ++found) {
    const std::string listed = (*found)[3];
    for (const std::string& program :
         (*found)[2].matched ? std::vector<std::string>{(*found)[2]} : all) {
      const std::string help = run_command(PROGRAM_DIR "/" + program + " --help-all").out;
      for (std::sregex_iterator one(listed.begin(), listed.end(), flag); one != end; ++one) {
        ++flags;
        INFO(program << " " << one->str());
        const std::regex known("[ ,]" + (*one)[1].str() + "[ ={,\n][^\n]*");
        std::smatch line;
        REQUIRE(std::regex_search(help, line, known));
        const std::string value = trimmed((*one)[2]);  // e.g. "ring`"; "" for a placeholder
        if (value.empty()) continue;
        CHECK(line.str().find(value.substr(0, value.size() - 1)) != std::string::npos);
      }
    }
  }
  CHECK(flags > 60);
  for (const auto& [file, constant, status] :
       {std::tuple{"tools/watch/watch_thread.hpp", "kHangStatus = 86;", "| 86 | a hang "},
        {"05_ddp_training/trainer/guards.hpp", "kStoppedOnRequest = 75;",
         "| 75 | stopped on request"}}) {
    CHECK(content_of(SOURCE_DIR "/" + std::string(file)).find(constant) != std::string::npos);
    CHECK(sheet.find(status) != std::string::npos);
  }
  const std::regex link(R"(\]\(\.\./([\w/]+\.md)#(\w)([\w-]+)\))");
  int links = 0;
  for (std::sregex_iterator found(sheet.begin(), sheet.end(), link), end; found != end;
       ++found, ++links) {
    INFO(found->str());
    std::string heading = (*found)[3];
    std::replace(heading.begin(), heading.end(), '-', ' ');
    const std::string page = content_of(SOURCE_DIR "/" + (*found)[1].str());
    CHECK(std::regex_search(page, std::regex("\n#+ \\w" + heading + "\n")));
  }
  CHECK(links >= 5);
}
