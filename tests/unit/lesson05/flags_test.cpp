// Lesson 5: a training program checks its flags against its data.
#include "05_ddp_training/trainer/data.hpp"
#include "common/command_line.hpp"
#include "tests/support/idx_files.hpp"
#include "tests/support/lesson05.hpp"
#include "tests/support/run_command.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

using namespace dist;
using namespace dist::test;

namespace {

// A training program's flags, read in the same way as in its main function.
struct Program {
  Options options;
  TrainingData data;

  // The message that the program prints about these flags before it exits; empty if it accepts
  // them.
  std::string answer(std::vector<std::string> arguments, int ranks) {
    CommandLine command_line("lesson05_test", "a training program");
    options.declare_training(command_line, /*writes=*/true);
    command_line.check([&] { data.load(options, ranks); });
    arguments.insert(arguments.begin(), "lesson05_test");
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    const auto exit = command_line.parse(static_cast<int>(argv.size()), argv.data());
    if (!exit) return "";
    CHECK(exit->status == 2);
    return exit->text;
  }
};

void write_file(const std::string& path, const std::vector<std::uint8_t>& bytes) {
  std::ofstream file(path, std::ios::binary);
  for (const std::uint8_t byte : bytes) file.put(static_cast<char>(byte));
}

// 20 images of 2 x 3 pixels in 4 classes.
void write_idx_pair(const std::string& prefix) {
  std::vector<std::uint8_t> pixels, labels;
  for (std::size_t i = 0; i < 20 * 6; ++i) pixels.push_back(static_cast<std::uint8_t>(i));
  for (std::size_t i = 0; i < 20; ++i) labels.push_back(static_cast<std::uint8_t>(i % 4));
  write_file(prefix + "-images-idx3-ubyte", idx({kImages, 20, 2, 3}, pixels));
  write_file(prefix + "-labels-idx1-ubyte", idx({kLabels, 20}, labels));
}

}  // namespace

TEST_CASE("a data set of which one file is missing is refused, and the error names the file") {
  const TemporaryFolder folder;
  write_idx_pair(folder / "train");
  write_idx_pair(folder / "t10k");
  const std::vector<std::string> flags{"--dataset",   "idx",          "--data",
                                       folder.path(), "--batch-size", "1"};
  CHECK(Program().answer(flags, 4).empty());
  for (const std::string name : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                 "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}) {
    std::filesystem::rename(folder / name, folder / "aside");
    CHECK(Program().answer(flags, 4).starts_with("error: --data: " + (folder / name) +
                                                 "[.gz] is missing, but "));
    std::filesystem::rename(folder / "aside", folder / name);
  }
}
