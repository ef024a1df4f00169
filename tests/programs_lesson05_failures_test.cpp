// Lesson 5's programs: the flags that they reject, and how they fail.
#include "tests/support/idx_files.hpp"
#include "tests/support/program_checks.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

using namespace dist::test;

TEST_CASE("training refuses bad usage and writes nothing", "[failures]") {
  const TemporaryFolder folder;
  const std::string data = "--dataset idx --data ";
  std::filesystem::create_directory(folder / "empty");
  const auto write_idx = [&](const std::string& name, std::size_t keep) {
    std::filesystem::create_directory(folder / name);
    const Bytes pixels = idx({kImages, 10, 2, 3}, Bytes(60, 7));
    std::ofstream(folder / (name + "/x-images-idx3-ubyte"), std::ios::binary)
        .write(reinterpret_cast<const char*>(pixels.data()),
               static_cast<std::streamsize>(std::min(keep, pixels.size())));
    const Bytes labels = idx({kLabels, 10}, Bytes(10, 1));
    std::ofstream(folder / (name + "/x-labels-idx1-ubyte"), std::ios::binary)
        .write(reinterpret_cast<const char*>(labels.data()),
               static_cast<std::streamsize>(labels.size()));
  };
  write_idx("whole", 1000);
  write_idx("cut", 40);

  const std::string program = "ddp_training";
  check_refused(program, "--lr -1", "--lr: -1 is not between");
  const std::string sgd = "--optimizer sgd ";
  check_refused(program, "--weight-decay -0.1", "--weight-decay: -0.1 is not between");
  check_refused(program, "--eps -1e-8", "--eps: -1e-8 is not between");
  check_refused(program, "--betas 0.9,", "--betas: '' is not a number");
  check_refused(program, "--betas 0.9,x", "--betas: 'x' is not a number");
  check_refused(program, "--betas -0.1,0.999", "--betas: -0.1 is not between");
  check_refused(program, "--betas 1,0.999", "--betas: must be below 1");
  check_refused(program, "--momentum 0.9", "--momentum: is for --optimizer sgd, not for adam");
  check_refused(program, "--optimizer adamw --momentum 0",
                "--momentum: is for --optimizer sgd");
  check_refused(program, "--optimizer adamw --dampening 0.1", "--dampening: is for");
  check_refused(program, "--nesterov", "--nesterov: is for --optimizer sgd, not for adam");
  check_refused(program, sgd + "--betas 0.9,0.99", "--betas: is for --optimizer adam and");
  check_refused(program, sgd + "--eps 1e-8", "--eps: is for --optimizer adam and adamw");
  check_refused(program, sgd + "--momentum -0.1", "--momentum: -0.1 is not between");
  check_refused(program, sgd + "--momentum 1.5", "--momentum: 1.5 is not between");
  check_refused(program, sgd + "--nesterov", "--nesterov: needs --momentum above 0");
  check_refused(program, sgd + "--nesterov --momentum 0.9 --dampening 0.1",
                "--nesterov: needs --dampening 0");
  check_refused(program, sgd + "--nesterov=yes --momentum 0.9", "--nesterov: takes no value");
  check_refused(program, sgd + "--dampening 0.5", "--dampening: needs --momentum above 0");
  check_refused(program, sgd + "--momentum 0.9 --dampening 2", "--dampening: 2 is not between");
  check_refused(program, "--warmup-steps -1", "--warmup-steps: -1 is not between");
  check_refused(program, "--scale-lr --global-batch 60", "--scale-lr: --global-batch does not");
  check_refused(program, "--layers 784,9", "--layers: the output width is 9");
  check_refused(program, "--dataset synthetic --samples 9 --batch-size 4 --loader-drop-last",
                "--loader-drop-last: leaves no batch");
  check_refused(program, data + (folder / "empty"), "--data: ");
  check_refused(program, data + (folder / "cut"),
                "--data: " + (folder / "cut/x-images-idx3-ubyte: truncated"));
  check_refused(program, data + (folder / "whole") + " --layers 784,10",
                "--layers: the input width is 784, but a sample has 6 features");
  check_refused(program, "--backend nccl --device cpu", "--backend: nccl: ");
  check_refused(program, "--algorithm ring --backend mpi", "--algorithm: needs --backend ours");
  check_refused(program, "--checkpoint-every 5", "--checkpoint-every: needs --checkpoint");
}
