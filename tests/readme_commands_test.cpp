// Checks that the READMEs' commands run and print what the READMEs show.
//
//   A block whose first line is a command is run. The block after it shows its output, which is
//   compared line by line. Numbers must match exactly, unless their line or their table's
//   heading names a unit of time. "..." stands for omitted lines. A hang must end with status
//   86, a refusal with 2, any other run with 0. A mark (an HTML comment before the fence)
//   declares an exception: <!-- not run: needs a GPU -->. A block that is neither run nor
//   marked is an error.
//
// CONTRIBUTING.md, "READMEs", lists all rules and marks. same_output.hpp does the comparison.
//
// The commands of a README run one after the other in a folder that looks like the root of the
// repository, on the CPU, with the variables from the box in docs/running.md.
#include "tests/support/catch.hpp"
#include "tests/support/readme_blocks.hpp"
#include "tests/support/run_command.hpp"
#include "tests/support/same_output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <regex>
#include <string>
#include <vector>

using namespace dist::test;

namespace {

bool is_commands(const Block& block) {
  static const std::regex first(
      R"((\./learn|build/|tests/|(mpirun|srun|cmake|ctest|export|python3|for|cat) |\w+=).*)");
  return (block.language.empty() || block.language == "sh") && !block.lines.empty() &&
         std::regex_match(block.lines[0], first);
}

// Blocks that readme_quotes_test compares with the source.
bool is_quote(const Block& block) {
  return block.language == "cpp" || block.language == "diff";
}

// A folder that looks like the repository. It receives the files that programs write, and their
// .learn/; ./learn, which follows the link to itself, keeps its own in the repository.
class Workplace {
 public:
  Workplace() {
    for (const auto& entry : std::filesystem::directory_iterator(SOURCE_DIR)) {
      const std::string name = entry.path().filename().string();
      if (name.rfind("build", 0) == 0 || name.rfind('.', 0) == 0) continue;
      std::filesystem::create_symlink(entry.path(), folder_ / name);
    }
    std::filesystem::create_directory_symlink(BUILD_DIR, folder_ / "build");
    script_ = "cd " + folder_.path().string() + "\nunset LEARN_BUILD_DIR\n" +
              "export PATH=" + std::filesystem::path(MPIEXEC).parent_path().string() +
              ":$PATH CUDA_VISIBLE_DEVICES=\n";
    for (const Block& block : blocks_of("docs/running.md")) {
      if (!block.lines.empty() && block.lines[0].rfind("export ", 0) == 0) {
        script_ += block.text();
      }
    }
  }

  // Both output streams are combined, as in a reader's terminal.
  CommandResult run(const std::string& commands, const std::string& shell = "bash -e") const {
    std::ofstream(scripts_ / "commands") << commands;
    std::ofstream(scripts_ / "script") << script_ << "exec timeout 900 " << shell << " "
                                       << (scripts_ / "commands") << " 2>&1\n";
    return run_command("bash " + (scripts_ / "script"));
  }

 private:
  TemporaryFolder folder_, scripts_;
  std::string script_;
};

int status_of(const Block& commands, const Block* output) {
  if (const auto status = commands.mark("exit")) return std::stoi(*status);
  if (output == nullptr) return 0;
  if (output->text().find("hang: ") != std::string::npos) return 86;
  return output->text().rfind("error: ", 0) == 0 ? 2 : 0;
}

Looseness looseness_of(const Block& output) {
  Looseness loose;
  const std::string mark = output.mark("output").value_or("");
  loose.any_number = mark == "numbers";
  loose.any_order = mark == "any order";
  if (mark.rfind("within ", 0) == 0) loose.within = std::stod(mark.substr(7));
  return loose;
}

// Runs the commands of one README, from its first block to its last.
class Readme {
 public:
  explicit Readme(const std::string& name)
      : blocks_(blocks_of(name)), prose_(content_of(SOURCE_DIR "/" + name)) {}

  void check() {
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const Block& block = blocks_[i];
      if (is_quote(block) || block.mark("not run") || block.mark("picture")) continue;
      if (const auto elsewhere = block.mark("output of")) {
        run(*elsewhere, block, &block);
      } else if (is_commands(block) || block.language == "python") {
        const Block* output = output_of(i);
        if (output != nullptr) ++i;
        run_block(block, output);
      } else {
        FAIL_CHECK(
            block.place << ": this block is not a command, does not follow one, and has no "
                           "mark that says what it is (CONTRIBUTING.md, \"READMEs\")");
      }
    }
  }

 private:
  // The next block, if it shows what block `i` prints and there is no heading between them.
  const Block* output_of(std::size_t i) const {
    if (i + 1 == blocks_.size()) return nullptr;
    const Block& next = blocks_[i + 1];
    const bool shows = next.language.empty() && !is_commands(next) && !next.mark("picture") &&
                       !next.mark("not run") && !next.mark("output of") &&
                       next.section == blocks_[i].section;
    return shows ? &next : nullptr;
  }

  // If a later block is marked as the output of a command, the command runs with that block.
  bool runs_elsewhere(const std::string& command) const {
    return std::ranges::any_of(
        blocks_, [&](const Block& block) { return block.mark("output of") == command; });
  }

  void run_block(const Block& block, const Block* output) {
    if (const auto needed = block.mark("run if")) {
      if (workplace_.run(*needed).status != 0) {
        std::cout << block.place << " is not run here: " << *needed << std::endl;
        return;
      }
    }
    if (output != nullptr && output->mark("output of each")) {
      for (const std::string& line : block.lines) run(line, block, output);
      return;
    }
    std::string commands;
    for (const std::string& line : block.lines) {
      if (!runs_elsewhere(line)) commands += line + "\n";
    }
    if (!commands.empty()) run(commands, block, output);
  }

  void run(const std::string& commands, const Block& block, const Block* output) {
    const CommandResult result =
        workplace_.run(commands, block.language == "python" ? "python3" : "bash -e");
    INFO(block.place << ": " << commands << "\n" << result.out);
    if (result.status == 77 && result.out.rfind("skipped: ", 0) == 0) return;
    CHECK(result.status == status_of(block, output));
    for (const std::string& mark : block.marks) {
      if (mark.rfind("says: ", 0) != 0) continue;
      INFO(mark);
      CHECK(result.says(mark.substr(6)));
      CHECK(prose_.find(fmt::format("`{}`", mark.substr(6))) != std::string::npos);
    }
    if (output == nullptr) return;
    const std::optional<std::string> difference = first_difference(
        output->lines, without_mpirun(lines_of(result.out)), looseness_of(*output));
    INFO(output->place << " does not show what this run prints\n" << difference.value_or(""));
    CHECK(!difference);
  }

  std::vector<Block> blocks_;
  std::string prose_;
  Workplace workplace_;
};

}  // namespace

// Each README has its own test case, so that you can select it by name.
TEST_CASE("README.md", "[readme]") {
  Readme("README.md").check();
}
TEST_CASE("01_send_recv/README.md", "[readme]") {
  Readme("01_send_recv/README.md").check();
}
TEST_CASE("02_broadcast/README.md", "[readme]") {
  Readme("02_broadcast/README.md").check();
}
TEST_CASE("03_all_reduce/README.md", "[readme]") {
  Readme("03_all_reduce/README.md").check();
}
TEST_CASE("04_distributed_sampler/README.md", "[readme]") {
  Readme("04_distributed_sampler/README.md").check();
}
TEST_CASE("05_ddp_training/README.md", "[readme]") {
  Readme("05_ddp_training/README.md").check();
}
TEST_CASE("05_ddp_training/advanced/checkpoints.md", "[readme]") {
  Readme("05_ddp_training/advanced/checkpoints.md").check();
}
TEST_CASE("05_ddp_training/advanced/determinism.md", "[readme]") {
  Readme("05_ddp_training/advanced/determinism.md").check();
}
TEST_CASE("05_ddp_training/advanced/gpu_step.md", "[readme]") {
  Readme("05_ddp_training/advanced/gpu_step.md").check();
}
TEST_CASE("03_all_reduce/several_hosts/hierarchical.md", "[readme]") {
  Readme("03_all_reduce/several_hosts/hierarchical.md").check();
}
TEST_CASE("05_ddp_training/advanced/sharding.md", "[readme]") {
  Readme("05_ddp_training/advanced/sharding.md").check();
}

TEST_CASE("05_ddp_training/advanced/memory.md", "[readme]") {
  Readme("05_ddp_training/advanced/memory.md").check();
}
TEST_CASE("05_ddp_training/advanced/mixed_precision.md", "[readme]") {
  Readme("05_ddp_training/advanced/mixed_precision.md").check();
}
TEST_CASE("05_ddp_training/advanced/optimizers.md", "[readme]") {
  Readme("05_ddp_training/advanced/optimizers.md").check();
}
TEST_CASE("docs/beyond.md", "[readme]") {
  Readme("docs/beyond.md").check();
}
TEST_CASE("docs/cheat_sheet.md", "[readme]") {
  Readme("docs/cheat_sheet.md").check();
}
TEST_CASE("docs/running.md", "[readme]") {
  Readme("docs/running.md").check();
}
TEST_CASE("CONTRIBUTING.md", "[readme]") {
  Readme("CONTRIBUTING.md").check();
}

TEST_CASE("every mark is one that the tests know", "[readme]") {
  static const std::regex known(
      "picture|not run: .+|run if: .+|exit: [0-9]+|says: .+|output of: .+|output of each|"
      "output: (numbers|any order|within [0-9.]+)|shown by: .+");
  for (const std::string& name : kReadmes) {
    for (const Block& block : blocks_of(name)) {
      for (const std::string& mark : block.marks) {
        INFO(block.place << ": " << mark);
        CHECK(std::regex_match(mark, known));
      }
    }
  }
}
