// Compares the output of ddp_training --explain with numbers worked out by hand.
#include "tests/support/catch.hpp"
#include "tests/support/run_command.hpp"

#include <regex>
#include <string>

using namespace dist::test;

namespace {

// To work the numbers out by hand: the hidden layer passes x on unless it is negative, and the
// second layer turns it into (2 x_0, x_1). So x = (s, 2 s) gives logits (2 s, 2 s), softmax
// (1/2, 1/2) and loss ln 2. The gradient of the loss is softmax minus one-hot, divided by the
// batch size of two: -1/4 at the label, 1/4 elsewhere.
//
//   rank  sample  x        label  dloss/dlogits   dloss/dhidden = (2 g_0, g_1)
//   0     0       ( 1  2)  1      ( 1/4 -1/4)     ( 1/2 -1/4)
//   0     3       (-1 -2)  0      (-1/4  1/4)     (0 0), because the ReLU's output was 0
//   1     1       ( 2  4)  0      (-1/4  1/4)     (-1/2  1/4)
//   1     2       ( 3  6)  0      (-1/4  1/4)     (-1/2  1/4)
//
// The gradient of a bias is the sum of its column. The gradient of a weight is the sum of the
// products of its column and its input. BEFORE, OTHER and AFTER are hashes.
const std::string kExpected =
    R"(1. parameters: each rank makes its own, then all ranks receive rank 0's
  rank 0 made  0.weight [1 0; 0 1]  0.bias [0 0]  2.weight [2 0; 0 1]  2.bias [0 0]  hash BEFORE
  rank 1 made  0.weight [2 1; 1 2]  0.bias [1 1]  2.weight [3 1; 1 2]  2.bias [1 1]  hash OTHER
  rank 0 has   0.weight [1 0; 0 1]  0.bias [0 0]  2.weight [2 0; 0 1]  2.bias [0 0]  hash BEFORE
  rank 1 has   0.weight [1 0; 0 1]  0.bias [0 0]  2.weight [2 0; 0 1]  2.bias [0 0]  hash BEFORE
2. sampler: epoch 0's order is 0 1 3 2, and the ranks take turns
  rank 0  samples 0 3
  rank 1  samples 1 2
3. forward: logits = 2.weight ReLU(0.weight x + 0.bias) + 2.bias
  rank 0  sample 0: x [1 2], label 1, logits [2 2], dloss/dlogits [0.25 -0.25]
  rank 0  sample 3: x [-1 -2], label 0, logits [0 0], dloss/dlogits [-0.25 0.25]
  rank 0  mean loss 0.693147
  rank 1  sample 1: x [2 4], label 0, logits [4 4], dloss/dlogits [-0.25 0.25]
  rank 1  sample 2: x [3 6], label 0, logits [6 6], dloss/dlogits [-0.25 0.25]
  rank 1  mean loss 0.693147
  mean over the ranks 0.693147
4. backward: each rank's own gradients, in the order they became ready
  rank 0  2.bias   [0 0]
  rank 0  2.weight [0.25 0.5; -0.25 -0.5]  -> bucket 0 is full; its all-reduce starts
  rank 0  0.bias   [0.5 -0.25]
  rank 0  0.weight [0.5 1; -0.25 -0.5]  -> bucket 1 is full; its all-reduce starts
  rank 1  2.bias   [-0.5 0.5]
  rank 1  2.weight [-1.25 -2.5; 1.25 2.5]  -> bucket 0 is full; its all-reduce starts
  rank 1  0.bias   [-1 0.5]
  rank 1  0.weight [-2.5 -5; 1.25 2.5]  -> bucket 1 is full; its all-reduce starts
5. all-reduce: each rank's numbers in the bucket -> their average
  bucket 0: 2.bias, 2.weight, 24 bytes
    rank 0  [0 0 0.25 0.5 -0.25 -0.5] -> [-0.25 0.25 -0.5 -1 0.5 1]
    rank 1  [-0.5 0.5 -1.25 -2.5 1.25 2.5] -> [-0.25 0.25 -0.5 -1 0.5 1]
  bucket 1: 0.bias, 0.weight, 24 bytes
    rank 0  [0.5 -0.25 0.5 1 -0.25 -0.5] -> [-0.25 0.125 -1 -2 0.5 1]
    rank 1  [-1 0.5 -2.5 -5 1.25 2.5] -> [-0.25 0.125 -1 -2 0.5 1]
6. optimizer: parameter - learning rate x averaged gradient
  0.weight [1 0; 0 1] - 0.5 x [-1 -2; 0.5 1] = [1.5 1; -0.25 0.5]
  0.bias   [0 0] - 0.5 x [-0.25 0.125] = [0.125 -0.0625]
  2.weight [2 0; 0 1] - 0.5 x [-0.5 -1; 0.5 1] = [2.25 0.5; -0.25 0.5]
  2.bias   [0 0] - 0.5 x [-0.25 0.25] = [0.125 -0.125]
  rank 0 has   hash AFTER
  rank 1 has   hash AFTER
7. the same step taken by one process, with all samples in one batch
  samples 0 1 3 2, mean loss 0.693147, hash AFTER
  gradients   0.weight [-1 -2; 0.5 1]  0.bias [-0.25 0.125]  2.weight [-0.5 -1; 0.5 1]  2.bias [-0.25 0.25]
  parameters  0.weight [1.5 1; -0.25 0.5]  0.bias [0.125 -0.0625]  2.weight [2.25 0.5; -0.25 0.5]  2.bias [0.125 -0.125]
verified: 2 ranks and one process took the same step, bit for bit
)";

// Replaces each hash by the word that kExpected has for it, and drops the first line, which
// names the device and the backend.
std::string comparable(std::string text) {
  text.erase(0, text.find('\n') + 1);
  const std::regex hash("hash ([0-9a-f]{16})");
  for (const char* word : {"BEFORE", "OTHER", "AFTER"}) {
    std::smatch found;
    if (!std::regex_search(text, found, hash)) break;
    const std::string number = found[1];
    text = std::regex_replace(text, std::regex(number), word);
  }
  return text;
}

}  // namespace

TEST_CASE("with every backend, --explain's numbers match a calculation by hand", "[explain]") {
  for (const std::string flags : {"", "--device cpu", "--overlap", "--no-overlap",
                                  "--backend mpi", "--algorithm ring", "--algorithm naive"}) {
    INFO(flags);
    const CommandResult result = mpirun(2, "ddp_training", "--explain " + flags);
    INFO(result.err);
    CHECK(result.status == 0);
    CHECK(comparable(result.out) == kExpected);
  }
}

TEST_CASE("with --json, --explain prints one row", "[explain]") {
  const CommandResult result = mpirun(2, "ddp_training", "--explain --json");
  CHECK(result.status == 0);
  REQUIRE(result.rows().size() == 1);
  CHECK(result.rows()[0]["explain"] == "one step");
}

TEST_CASE("--explain needs two ranks and refuses flags that change its step", "[explain]") {
  const auto check_refused = [](int ranks, const std::string& flags,
                                const std::string& message) {
    const CommandResult result = mpirun(ranks, "ddp_training", "--explain " + flags, kNoGrace);
    INFO(ranks << " ranks, " << flags << "\n" << result.out << result.err);
    CHECK(result.status == 2);
    CHECK(result.out.empty());
    CHECK(result.err.find("error: --explain: " + message) != std::string::npos);
    CHECK(result.err.find("error: ", result.err.find("error: ") + 1) == std::string::npos);
  };
  check_refused(1, "", "needs 2 ranks, not 1");
  check_refused(3, "--json", "needs 2 ranks, not 3");
  for (const std::string flag : {"--layers 784,10", "--lr 0.1", "--drop-last", "--accumulate 2",
                                 "--checkpoint x.safetensors"}) {
    check_refused(2, flag, "cannot be combined with " + flag.substr(0, flag.find(' ')));
  }
}
