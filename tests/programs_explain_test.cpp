// Compares the output of ddp_training --explain with numbers worked out by hand.
#include "tests/support/catch.hpp"
#include "tests/support/run_command.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

using namespace dist::test;
using nlohmann::json;

namespace {

using Numbers = std::vector<double>;

// The rows of one part of the output, in the order in which they were printed.
std::vector<json> rows_of(const CommandResult& result, const std::string& part) {
  std::vector<json> found;
  for (const json& row : result.rows()) {
    if (row["explain"] == part) found.push_back(row);
  }
  return found;
}

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
// products of its column and its input.
const std::vector<std::vector<std::size_t>> kSamples{{0, 3}, {1, 2}};
const std::vector<Numbers> kInputs{{1, 2, -1, -2}, {2, 4, 3, 6}};
const std::vector<Numbers> kLogits{{2, 2, 0, 0}, {4, 4, 6, 6}};
const std::vector<Numbers> kGradLogits{{.25, -.25, -.25, .25}, {-.25, .25, -.25, .25}};
const std::vector<std::string> kReadyOrder{"2.bias", "2.weight", "0.bias", "0.weight"};
const std::vector<std::vector<Numbers>> kGradients{
    {{0, 0}, {.25, .5, -.25, -.5}, {.5, -.25}, {.5, 1, -.25, -.5}},
    {{-.5, .5}, {-1.25, -2.5, 1.25, 2.5}, {-1, .5}, {-2.5, -5, 1.25, 2.5}}};
const std::vector<Numbers> kMeans{{-.25, .25}, {-.5, -1, .5, 1}, {-.25, .125}, {-1, -2, .5, 1}};
const json kStart{{"0.weight", {1, 0, 0, 1}},
                  {"0.bias", {0, 0}},
                  {"2.weight", {2, 0, 0, 1}},
                  {"2.bias", {0, 0}}};
const json kEnd{{"0.weight", {1.5, 1, -.25, .5}},
                {"0.bias", {.125, -.0625}},
                {"2.weight", {2.25, .5, -.25, .5}},
                {"2.bias", {.125, -.125}}};

// The gradients in the order in which backward finishes them: each layer's bias, then its
// weight.
Numbers bucket(const std::vector<Numbers>& gradients, std::size_t number) {
  Numbers joined = gradients[2 * number];
  const Numbers& weight = gradients[2 * number + 1];
  joined.insert(joined.end(), weight.begin(), weight.end());
  return joined;
}

void check_explanation(const CommandResult& result) {
  INFO(result.out << result.err);
  REQUIRE(result.status == 0);
  const std::vector<json> parameters = rows_of(result, "parameters");
  REQUIRE(parameters.size() == 6);
  for (std::size_t i = 0; i < 6; ++i) {
    const std::vector<std::string> moments{"made", "broadcast", "step"};
    CHECK(parameters[i]["rank"] == i % 2);
    CHECK(parameters[i]["when"] == moments[i / 2]);
    if (i != 1) CHECK(parameters[i]["values"] == (i < 4 ? kStart : kEnd));
  }
  CHECK(parameters[1]["values"] !=
        kStart);  // rank 1's own numbers, before the broadcast replaces them
  const auto hash = [&](std::size_t i) { return parameters[i]["hash"]; };
  CHECK(hash(0) != hash(1));
  CHECK(hash(0) == hash(2));
  CHECK(hash(2) == hash(3));
  CHECK(hash(4) != hash(2));
  CHECK(hash(4) == hash(5));

  for (std::size_t rank = 0; rank < 2; ++rank) {
    INFO("rank " << rank);
    CHECK(rows_of(result, "samples").at(rank)["samples"] == kSamples[rank]);
    const json forward = rows_of(result, "forward").at(rank);
    CHECK(forward["rank"] == rank);
    CHECK(forward["x"] == kInputs[rank]);
    CHECK(forward["labels"] == (rank == 0 ? json{1, 0} : json{0, 0}));
    CHECK(forward["logits"] == kLogits[rank]);
    CHECK(forward["grad_logits"] == kGradLogits[rank]);
    CHECK(std::abs(forward["loss"].get<double>() - std::log(2.0)) < 1e-7);

    const json backward = rows_of(result, "backward").at(rank);
    REQUIRE(backward["ready"].size() == 4);
    for (std::size_t i = 0; i < 4; ++i) {
      CHECK(backward["ready"][i]["name"] == kReadyOrder[i]);
      CHECK(backward["ready"][i]["values"] == kGradients[rank][i]);
      // A layer's weight comes last and completes its bucket.
      CHECK(backward["ready"][i]["starts"] == (i % 2 == 0 ? json() : json(i / 2)));
    }
  }

  const std::vector<json> buckets = rows_of(result, "bucket");
  REQUIRE(buckets.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    const std::size_t number = i / 2;
    const std::size_t rank = i % 2;
    INFO("bucket " << number << " of rank " << rank);
    CHECK(buckets[i]["bucket"] == number);
    CHECK(buckets[i]["rank"] == rank);
    CHECK(buckets[i]["names"] == json{kReadyOrder[2 * number], kReadyOrder[2 * number + 1]});
    CHECK(buckets[i]["before"] == bucket(kGradients[rank], number));
    CHECK(buckets[i]["after"] == bucket(kMeans, number));
  }

  const std::vector<json> alone = rows_of(result, "one process");
  REQUIRE(alone.size() == 1);
  CHECK(alone[0]["samples"] == json{0, 1, 3, 2});
  CHECK(std::abs(alone[0]["loss"].get<double>() - std::log(2.0)) < 1e-7);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(alone[0]["gradients"][kReadyOrder[i]] == kMeans[i]);
  }
  CHECK(alone[0]["parameters"] == kEnd);
  CHECK(alone[0]["hash"] == hash(4));
}

}  // namespace

TEST_CASE("with every backend, --explain's numbers match a calculation by hand", "[explain]") {
  for (const std::string flags : {"", "--device cpu", "--overlap", "--no-overlap",
                                  "--backend mpi", "--algorithm ring", "--algorithm naive"}) {
    INFO(flags);
    check_explanation(mpirun(2, "ddp_training", "--explain --json " + flags));
  }
}

TEST_CASE("--explain describes the step in at most 45 lines", "[explain]") {
  const CommandResult result = mpirun(2, "ddp_training", "--explain");
  INFO(result.out << result.err);
  CHECK(result.status == 0);
  CHECK(std::count(result.out.begin(), result.out.end(), '\n') <= 45);
  CHECK(result.says("verified: 2 ranks and one process took the same step, bit for bit"));
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
