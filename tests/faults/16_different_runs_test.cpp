// Fault 16: the ranks do not belong to the same run.
#include "tests/faults/faults.hpp"

#include <filesystem>
#include <fstream>
#include <string>

using namespace dist::test;
using nlohmann::json;

TEST_CASE("ranks that do not belong to the same run are detected at the start", "[fault16]") {
  const TemporaryFolder folder;
  const std::string program = PROGRAM_DIR "/ddp_training ";
  int cases = 0;
  const auto refused = [&](const std::string& first, const std::string& second,
                           const std::string& words) {
    INFO(second);
    const CommandResult result = run_command(kNoGrace + "timeout -k 10 120 " MPIEXEC " -np 2 " +
                                             first + " : -np 1 " + second);
    INFO(result.err);
    CHECK(result.status == 2);
    CHECK(result.out.empty());
    CHECK(result.err.find("error: " + words) == 0);
    ++cases;
  };
  refused(program, program + "--lr 0.5", "--lr: 0.001 on rank 0, but 0.5 on rank 2");
  refused(program, program + "--checkpoint " + (folder / "x"),
          "--checkpoint: nothing on rank 0, but " + (folder / "x") + " on rank 2");
  refused(program, program + "--no-shuffle", "--shuffle: yes on rank 0, but no on rank 2");
  // One extra byte, which does not change how the program runs, imitates an older build. The
  // copy is in the same folder, because a program looks for the watch relative to its own path.
  const std::string old = PROGRAM_DIR "/yesterdays_ddp_training";
  std::filesystem::remove(old);
  std::filesystem::copy_file(PROGRAM_DIR "/ddp_training", old);
  std::ofstream(old, std::ios::binary | std::ios::app) << '\n';
  refused(program, old, "the program's file: ");
  std::filesystem::remove(old);
  // The data differ in one pixel.
  const auto write_digits = [&](const std::string& name, std::uint8_t pixel) {
    std::filesystem::create_directory(folder / name);
    std::string images("\0\0\x08\x03\0\0\0\x14\0\0\0\x02\0\0\0\x02", 16);
    images += std::string(80, '\x05');
    images.back() = static_cast<char>(pixel);
    std::string labels("\0\0\x08\x01\0\0\0\x14", 8);
    for (int i = 0; i < 20; ++i) labels += static_cast<char>(i % 3);
    std::ofstream(folder / (name + "/x-images-idx3-ubyte"), std::ios::binary) << images;
    std::ofstream(folder / (name + "/x-labels-idx1-ubyte"), std::ios::binary) << labels;
    return "--dataset idx --batch-size 2 --test-fraction 0 --max-steps 2 --data " +
           (folder / name);
  };
  const std::string one = program + write_digits("one", 5);
  const std::string two = program + write_digits("two", 6);
  const std::string same = program + write_digits("same", 5);
  refused(one, two, "training data: idx, 20 samples");
  refused(one + " --test-fraction 0.25", two + " --test-fraction 0.25",
          "test data: idx, 5 samples");
  const CommandResult agreed =
      run_command("timeout -k 10 120 " MPIEXEC " -np 2 " + one + " : -np 1 " + same);
  INFO(agreed.err);
  CHECK(agreed.status == 0);
  figure(16, std::to_string(cases) + " kinds of difference named");
}
