// The memory that training reports, compared with a count by hand and with the kernel's count.
#include "tests/support/catch.hpp"
#include "tests/support/training_run.hpp"

#include <cstddef>
#include <string>

using namespace dist::test;
using nlohmann::json;

namespace {

constexpr std::size_t kMiB = 1 << 20;

json memory_of(const CommandResult& result) {
  return trained(result).final["memory"];
}

// A sanitizer itself uses a lot of memory.
constexpr bool kSanitized =
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    true;
#else
    false;
#endif

}  // namespace

TEST_CASE("a rank's tensors take as much memory on one rank as on three", "[memory]") {
  const std::string job =
      "--json --device cpu --dataset synthetic --samples 96 --layers 20,33,5 --classes 5 "
      "--batch-size 16 "
      "--epochs 1 ";
  constexpr std::size_t kParameters = 4 * (33 * 20 + 33 + 5 * 33 + 5);
  // 16 rows of each layer's output, and the same amount for the gradients. (A GPU also keeps
  // the ReLUs' masks.)
  constexpr std::size_t kActivations = 2 * 4 * 16 * (33 + 5);
  const auto check = [&](const json& memory, std::size_t optimizer) {
    CHECK(memory["parameters_bytes"] == kParameters);
    CHECK(memory["gradients_bytes"] == kParameters);
    CHECK(memory["optimizer_bytes"] == optimizer);
    CHECK(memory["activations_bytes"] == kActivations);
    CHECK(memory["peak_bytes"] >= memory["before_model_bytes"]);
  };
  for (const int ranks : {1, 3}) {
    check(memory_of(mpirun(ranks, "ddp_training", job)), 2 * kParameters);
    check(memory_of(mpirun(ranks, "ddp_training", job + "--optimizer sgd")), 0);
    check(memory_of(mpirun(ranks, "ddp_training", job + "--optimizer sgd --momentum 0.9")),
          kParameters);
  }
}

TEST_CASE("the kernel counts only slightly more memory than the program does", "[memory]") {
  const std::string job =
      "--json --device cpu --dataset synthetic --samples 64 --layers 784,2048,2048,10 "
      "--batch-size 8 --max-steps 2 ";
  for (const int ranks : {1, 4}) {
    const json memory = memory_of(mpirun(ranks, "ddp_training", job));
    INFO(memory);
    std::size_t counted = 0;
    for (const char* part :
         {"parameters_bytes", "gradients_bytes", "optimizer_bytes", "activations_bytes"}) {
      counted += memory[part].get<std::size_t>();
    }
    CHECK(counted > 88 * kMiB);
    const auto peak = memory["peak_bytes"].get<std::size_t>();
    const auto before = memory["before_model_bytes"].get<std::size_t>();
    CHECK(before > kMiB);
    CHECK(peak >= counted);
    // The remaining memory is for batches, the matrix library, and what MPI allocates while it
    // runs. One more copy of the gradients would take 22 MiB.
    if (!kSanitized) CHECK(peak <= before + counted + 18 * kMiB);
  }
}
