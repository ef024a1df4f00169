// --precision bf16: on a device without bf16 one sentence, otherwise nearly the losses of fp32.
#include "05_ddp_training/model/gemm.hpp"
#include "common/device.hpp"
#include "tests/support/training_run.hpp"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>

using namespace dist::test;

namespace {

const std::string kBf16Job =
    "--dataset synthetic --samples 300 --layers 20,33,17,5 --classes 5 --batch-size 16 "
    "--epochs 3 --first-bucket-mb 0.001 --bucket-cap-mb 0.002 ";

// The devices that can train in bf16.
std::vector<std::string> able() {
  std::vector<std::string> found;
  if (dist::why_no_bf16(dist::Device{}).empty()) found.emplace_back("cpu");
  if (dist::cuda_device_count() > 0 && dist::why_no_bf16({dist::DeviceType::cuda, 0}).empty()) {
    found.emplace_back("cuda");
  }
  return found;
}

// `program` must refuse --precision bf16 if `variable` is set.
void check_no_bf16(const std::string& variable, const std::string& program,
                   const std::vector<std::string>& reasons) {
  const CommandResult result =
      run_command(variable + " timeout -k 10 120 " + program + " --precision bf16");
  INFO(result.out << result.err);
  CHECK(result.status == 2);
  CHECK(std::any_of(reasons.begin(), reasons.end(), [&](const std::string& why) {
    return result.err.find("error: --precision: bf16 needs " + why + "\n") == 0;
  }));
  CHECK(result.out.empty());
}

}  // namespace

TEST_CASE("without bf16, --precision bf16 ends in one sentence and writes nothing", "[bf16]") {
  const std::string file = "bf16_refused.safetensors";
  // With this variable, oneDNN ignores what newer CPUs have.
  const std::string older = "ONEDNN_MAX_CPU_ISA=AVX512_CORE";
  const std::vector<std::string> reasons{
      "a CPU with AMX or AVX-512 BF16, and this one has neither",
      "oneDNN, and this build has none"};
  const std::string flags = "--checkpoint " + file + " --device ";
  check_no_bf16(older, MPIEXEC " -np 3 " PROGRAM_DIR "/ddp_training " + flags + "cpu", reasons);
  if (DIST_CUDA_EMULATED) {
    check_no_bf16("EMULATED_CAPABILITY=7",
                  MPIEXEC " -np 2 " PROGRAM_DIR "/ddp_training " + flags + "cuda",
                  {"a GPU of compute capability 8.0 or newer, and cuda:0 has 7.x"});
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
      if (run.final["backend"] == "nccl") {
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
