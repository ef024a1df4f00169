// --precision bf16: on a device without bf16 one sentence, otherwise nearly the losses of fp32.
#include "common/device.hpp"
#include "tests/support/training_run.hpp"

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

using namespace dist::test;

namespace {

const std::string kBf16Job =
    "--dataset synthetic --samples 300 --layers 20,33,17,5 --classes 5 --batch-size 16 "
    "--epochs 3 --first-bucket-mb 0.001 --bucket-cap-mb 0.002 ";

bool cpu_has_bf16() {
  std::ifstream file("/proc/cpuinfo");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return text.find("avx512_bf16") != std::string::npos;
}

// The devices that can train in bf16.
std::vector<std::string> able() {
  std::vector<std::string> found;
  if (cpu_has_bf16()) found.emplace_back("cpu");
  if (dist::cuda_device_count() > 0) found.emplace_back("cuda");
  return found;
}

void check_no_bf16(const CommandResult& result, const std::string& why) {
  INFO(result.out << result.err);
  CHECK(result.status == 2);
  CHECK(result.err.find("error: --precision: bf16 needs a " + why) == 0);
  CHECK(result.out.empty());
}

}  // namespace

TEST_CASE("without bf16, --precision bf16 ends in one sentence and writes nothing", "[bf16]") {
  const std::string file = "bf16_refused.safetensors";
  const std::string flags = "--checkpoint " + file + " --precision bf16 ";
  if (!cpu_has_bf16()) {
    const std::string why = "CPU with AMX or AVX-512 BF16, and this one has neither\n";
    check_no_bf16(mpirun(3, "ddp_training", "--device cpu " + flags), why);
    check_no_bf16(mpirun(1, "single_process", "--device cpu " + flags), why);
  }
  if (DIST_CUDA_EMULATED) {
    check_no_bf16(run_command("EMULATED_CAPABILITY=7 timeout -k 10 120 " MPIEXEC
                              " -np 2 " PROGRAM_DIR "/ddp_training --device cuda " +
                              flags),
                  "GPU of compute capability 8.0 or newer, and cuda:0 has 7.x\n");
  }
  CHECK_FALSE(std::filesystem::exists(file));
  const CommandResult nonsense = mpirun(2, "ddp_training", "--precision fp16");
  CHECK(nonsense.status == 2);
  CHECK(nonsense.says("error: --precision: "));
}

TEST_CASE("training in bf16 follows training in fp32, sharded or not, and can be repeated",
          "[bf16]") {
  for (const std::string& device : able()) {
    for (const int ranks : {1, 2, 3}) {
      const std::string flags = "--json --algorithm ring --device " + device + " " + kBf16Job;
      const Training plain = trained(mpirun(ranks, "ddp_training", flags));
      const Training run = trained(mpirun(ranks, "ddp_training", flags + "--precision bf16"));
      CAPTURE(device, ranks);
      CHECK(plain.final["precision"] == "fp32");
      CHECK(run.final["precision"] == "bf16");
      CHECK(run.final["replicas_identical"] == true);
      check_losses(run.losses, plain.losses, 2e-3);
      CHECK_FALSE(close(run.losses.back(), plain.losses.back(), 1e-6));
      if (device == "cuda") {
        CHECK(run.final["graph_nodes"] > plain.final["graph_nodes"]);
        CHECK(run.final["host_waits_per_step"] == 0);
        CHECK(run.final["allocations_per_step"] == 0);
      }
      CHECK(plain.final["memory"]["copies_bytes"] == 0);
      const auto copies = run.final["memory"]["copies_bytes"].get<std::size_t>();
      CHECK(copies == 2 * (16 * (20 + 33 + 17 + 33) + 20 * 33 + 33 * 17 + 17 * 5));

      CHECK(trained(mpirun(ranks, "ddp_training", flags + "--precision bf16")).losses ==
            run.losses);
      for (const std::string level : {"optimizer", "gradients", "parameters"}) {
        CAPTURE(level);
        const Training sharded = trained(mpirun(
            ranks, "ddp_training", flags + "--backend ours --precision bf16 --shard " + level));
        const Training whole =
            trained(mpirun(ranks, "ddp_training", flags + "--backend ours --precision bf16"));
        CHECK(sharded.losses == whole.losses);
      }
    }
  }
}

TEST_CASE("a run can go on in the other precision, and says so", "[bf16]") {
  for (const std::string& device : able()) {
    CAPTURE(device);
    const std::string file = "bf16_resumed.safetensors";
    const std::string flags = kBf16Job + "--device " + device + " --checkpoint " + file;
    REQUIRE(mpirun(2, "ddp_training", flags + " --max-steps 9").status == 0);
    const CommandResult result =
        mpirun(2, "ddp_training", flags + " --resume --precision bf16 --max-steps 20");
    CHECK(result.says("--precision: bf16 instead of fp32"));
    CHECK(result.status == 0);
    CHECK(result.says("verified: "));
    std::filesystem::remove(file);
  }
}
