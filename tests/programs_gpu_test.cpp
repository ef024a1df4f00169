// Training on a GPU, compared with PyTorch, with itself and with the CPU. The tests are skipped
// without a GPU; the emulated build runs them on emulated GPUs.
#include "common/check.hpp"
#include "common/device.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/training_run.hpp"

#include <cstdio>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

using namespace dist::test;
using nlohmann::json;

namespace {

// If there is no GPU, prints "skipped: ", which CTest looks for, and the reason.
bool has_gpu() {
  try {
    dist::choose_device("cuda", 0);
    return true;
  } catch (const dist::Error& error) {
    std::cout << "skipped: " << error.what() << std::endl;
    return false;
  }
}

// Those numbers of ranks with which each rank has a GPU of its own. Only then do the ranks use
// NCCL and replay their steps.
std::vector<int> with_a_gpu_each(std::vector<int> ranks) {
  std::erase_if(ranks, [](int n) { return n > dist::cuda_device_count(); });
  return ranks;
}

// Like mpirun(), but all ranks see the same single GPU.
CommandResult mpirun_on_one_gpu(int ranks, const std::string& flags) {
  return run_command("EMULATED_GPUS=1 CUDA_VISIBLE_DEVICES=0 timeout -k 10 120 " MPIEXEC
                     " -np " +
                     std::to_string(ranks) + " " PROGRAM_DIR "/ddp_training --json " + flags);
}

const std::string kJob =
    "--dataset synthetic --samples 300 --layers 20,33,17,5 --classes 5 --batch-size 16 "
    "--epochs 3 ";

}  // namespace

TEST_CASE("training runs of real PyTorch DDP are also reproduced on GPUs", "[gpu]") {
  if (!has_gpu()) return;
  const json golden = json::parse(content_of(GOLDEN_DIR "/training.json"));
  CHECK(golden["runs"].size() == 15);
  for (const json& run : golden["runs"]) {
    const Training ours = check_golden_run(run, "--device cuda", 1e-4);
    CHECK(ours.final["device"].get<std::string>().find("cuda") == 0);
  }
}

TEST_CASE("a run on a GPU can be repeated bit for bit", "[gpu]") {
  if (!has_gpu()) return;
  for (const int ranks : {1, 2, 4}) {
    const Training once =
        trained(mpirun(ranks, "ddp_training", "--json --device cuda " + kJob));
    const Training again =
        trained(mpirun(ranks, "ddp_training", "--json --device cuda " + kJob));
    INFO(ranks << " ranks");
    CHECK(once.losses == again.losses);
    CHECK(once.final["parameters"] == again.final["parameters"]);
    CHECK(once.final["replicas_identical"] == true);
  }
}

TEST_CASE("one GPU serves one rank with NCCL, and several with staging", "[gpu]") {
  if (!has_gpu()) return;
  const Training alone = trained(mpirun_on_one_gpu(1, "--device cuda " + kJob));
  CHECK(alone.final["backend"] == "nccl");
  for (const int ranks : {2, 3, 4}) {
    for (const std::string backend : {"ours", "mpi"}) {
      const std::string flags = kJob + "--backend " + backend;
      const Training on_gpu = trained(mpirun_on_one_gpu(ranks, "--device cuda " + flags));
      const Training on_cpu = trained(mpirun_on_one_gpu(ranks, "--device cpu " + flags));
      INFO(ranks << " ranks, " << backend);
      CHECK(on_gpu.final["backend"] == backend);
      CHECK(on_gpu.final["replicas_identical"] == true);
      REQUIRE(on_gpu.losses.size() == on_cpu.losses.size());
      for (std::size_t i = 0; i < on_cpu.losses.size(); ++i) {
        CHECK(close(on_gpu.losses[i], on_cpu.losses[i], 1e-4));
      }
    }
  }
}

TEST_CASE("two ranks with NCCL are refused on one GPU unless NCCL allows sharing", "[gpu]") {
  if (!has_gpu()) return;
  const CommandResult refused = mpirun_on_one_gpu(2, "--device cuda --backend nccl " + kJob);
  CHECK(refused.status == 2);
  CHECK(refused.err.find("error: --backend: nccl: ranks 0 and 1 share one GPU") == 0);
  CHECK(refused.out.empty());
  const CommandResult automatic = mpirun_on_one_gpu(2, "--device cuda " + kJob);
  CHECK(trained(automatic).final["backend"] == "ours");
  // NCCL 2.30 lets ranks share a GPU if the environment asks for it. With an older real
  // library, the refusal must name version 2.30.
  const CommandResult asked = run_command(
      "EMULATED_GPUS=1 EMULATED_NCCL=23000 CUDA_VISIBLE_DEVICES=0 "
      "NCCL_MULTI_RANK_GPU_ENABLE=1 timeout -k 10 120 " MPIEXEC " -np 2 " PROGRAM_DIR
      "/ddp_training --json --device cuda --backend nccl " +
      kJob);
  INFO(asked.out << asked.err);
  if (asked.status == 2) {
    CHECK(asked.says("does not allow (2.30 does)"));
  } else {
    CHECK(trained(asked).final["backend"] == "nccl");
  }
}

TEST_CASE("if a batch does not fit on the GPU, the error gives the requested and free memory",
          "[gpu]") {
  if (!has_gpu()) return;
  // The output of the first layer alone would take 400 GB.
  const CommandResult result =
      mpirun_on_one_gpu(1,
                        "--device cuda --dataset synthetic --samples 100000 --classes 4 "
                        "--batch-size 100000 --layers 16,1000000,4");
  INFO(result.out << result.err);
  CHECK(result.status == 1);
  CHECK(result.says("out of memory on cuda:0: 400000000000 bytes requested, "));
  CHECK(result.says(" free"));
}

TEST_CASE("a graph changes no loss, and a step neither waits nor allocates", "[gpu]") {
  if (!has_gpu()) return;
  for (const int ranks : with_a_gpu_each({1, 2, 4})) {
    const std::string flags =
        "--json --device cuda --max-steps 110 --batch-size 8 --layers 784,40,30,20,10 ";
    const Training graph = trained(mpirun(ranks, "ddp_training", flags));
    const Training plain = trained(mpirun(ranks, "ddp_training", flags + "--no-graph"));
    // As on a GPU for which cuBLASLt has no products with epilogues.
    const Training separate =
        trained(run_command("EMULATED_EPILOGUES=0 timeout -k 10 120 " MPIEXEC " -np " +
                            std::to_string(ranks) + " " PROGRAM_DIR "/ddp_training " + flags));
    CAPTURE(ranks);
    CHECK(graph.final["host_waits_per_step"] == 0);
    CHECK(graph.final["allocations_per_step"] == 0);
    // 11 matrix products, each perhaps followed by a bias, a ReLU or column sums; the loss, the
    // all-reduce, the check and the update.
    CHECK(graph.final["graph_nodes"] >= 14);
    // On a real GPU, each product may be two kernels, which add in parts and then together.
    CHECK(graph.final["graph_nodes"] <= (DIST_CUDA_EMULATED ? 16 : 38));
    CHECK(plain.final["graph_nodes"] == 0);
    if (DIST_CUDA_EMULATED) CHECK(separate.final["graph_nodes"] > 22);
    REQUIRE(graph.losses.size() == plain.losses.size());
    REQUIRE(separate.losses.size() == plain.losses.size());
    for (std::size_t i = 0; i < plain.losses.size(); ++i) {
      CHECK(close(graph.losses[i], plain.losses[i], 1e-5));
      CHECK(close(separate.losses[i], plain.losses[i], 1e-5));
    }
  }
}

TEST_CASE("the parts of a step are timed without replays, and add up", "[gpu]") {
  if (!has_gpu()) return;
  const Training run = trained(mpirun(dist::cuda_device_count(), "ddp_training",
                                      "--json --device cuda --layers 784,32,10 "
                                      "--samples 4000 --batch-size 3 --max-steps 450"));
  double sum = 0;
  for (const char* part : {"data_ms", "compute_ms", "exposed_comm_ms", "optimizer_ms"}) {
    CAPTURE(part);
    CHECK(run.final[part].get<double>() >= 0);
    sum += run.final[part].get<double>();
  }
  CHECK(close(sum, run.final["plain_step_ms"].get<double>(), 1e-6));
  CHECK(run.final["slowest_rank"].is_null());  // four plain steps are too few to blame a rank
}

TEST_CASE("sharded steps on GPUs learn the same, neither wait nor allocate, and are replayed",
          "[gpu]") {
  if (!has_gpu()) return;
  for (const int ranks : with_a_gpu_each({1, 2, 3})) {
    const std::string job =
        "--json --device cuda --max-steps 110 --batch-size 8 --layers 784,40,30,20,10 "
        "--first-bucket-mb 0.001 --bucket-cap-mb 0.004 --clip-norm 0.5 ";
    const Training ddp = trained(mpirun(ranks, "ddp_training", job));
    for (const std::string level : {"optimizer", "gradients", "parameters"}) {
      CAPTURE(ranks, level);
      const Training run = trained(mpirun(ranks, "ddp_training", job + "--shard " + level));
      check_losses(run.losses, ddp.losses, 1e-5);
      CHECK(run.final["host_waits_per_step"] == 0);
      CHECK(run.final["allocations_per_step"] == 0);
      CHECK(run.final["graph_nodes"].get<int>() > 0);
    }
  }
}

TEST_CASE("the graph has as many kernels as advanced/gpu_step.md says", "[gpu]") {
  if (!DIST_CUDA_EMULATED) return;  // a real GPU may have no products with epilogues
  for (const auto& [epilogues, nodes] : {std::pair("0", 27), {"1", 16}}) {
    const Training run =
        trained(run_command("EMULATED_GPUS=2 EMULATED_EPILOGUES=" + std::string(epilogues) +
                            " timeout -k 10 120 " MPIEXEC " -np 2 " PROGRAM_DIR
                            "/ddp_training --device cuda --json --layers 784,512,512,512,10 "
                            "--batch-size 8 --max-steps 8"));
    CHECK(run.final["graph_nodes"] == nodes);
  }
}

TEST_CASE("64 steps make 16 waits, and no step allocates or creates an event", "[gpu]") {
  if (!DIST_CUDA_EMULATED) return;  // only the emulation counts all calls
  struct Counts {
    long waits = 0, pageable_copies = 0, allocations = 0, events = 0;
  };
  for (const std::string flag : {"--graph", "--no-graph"}) {
    const auto count = [&](int steps) {
      const CommandResult result = run_command(
          "EMULATED_COUNTS=1 timeout -k 10 120 " MPIEXEC " -np 1 " PROGRAM_DIR
          "/ddp_training --device cuda --dataset synthetic --samples 10000 --layers 20,9,5 "
          "--classes 5 --batch-size 4 " +
          flag + " --max-steps " + std::to_string(steps));
      INFO(result.err);
      Counts found;
      const std::size_t begin = result.err.find("waits ");
      REQUIRE(begin != std::string::npos);
      REQUIRE(std::sscanf(result.err.c_str() + begin,
                          "waits %ld, pageable copies %ld, allocations %ld, events %ld",
                          &found.waits, &found.pageable_copies, &found.allocations,
                          &found.events) == 4);
      return found;
    };
    const Counts few = count(24);
    const Counts many = count(88);
    CAPTURE(flag);
    // Every eight steps, the run waits for the oldest reports, and the loader for the oldest
    // copies.
    CHECK(many.waits - few.waits == 16);
    CHECK(many.pageable_copies == few.pageable_copies);
    CHECK(many.allocations == few.allocations);
    CHECK(many.events == few.events);
  }
}

TEST_CASE("CUDA, cuBLAS and NCCL may take longer to start than --timeout", "[gpu]") {
  if (!DIST_CUDA_EMULATED) return;  // the real ones start in their own time
  const CommandResult slow =
      run_command("EMULATED_GPUS=3 EMULATED_START_MS=2500 timeout -k 10 120 " MPIEXEC
                  " -np 3 " PROGRAM_DIR "/ddp_training --device cuda --timeout 1 " +
                  kJob);
  INFO(slow.out << slow.err);
  CHECK(slow.status == 0);
}

TEST_CASE("a broken link or kernel ends all ranks with a sentence", "[gpu]") {
  if (!DIST_CUDA_EMULATED) return;  // a real GPU does not break on request
  const auto run = [](const std::string& fault) {
    return run_command("EMULATED_GPUS=3 " + fault +
                       " timeout -k 10 120 " MPIEXEC " -np 3 " PROGRAM_DIR
                       "/ddp_training --device cuda " +
                       kJob);
  };
  for (const std::string call : {"5", "25"}) {
    const CommandResult link = run("EMULATED_NCCL_FAULT=1:" + call);
    INFO(link.out << link.err);
    CHECK(link.status == 1);
    CHECK(link.says("NCCL on rank 1 of 3: remote process exited or there was a network error"));
  }
  const CommandResult kernel = run("EMULATED_FAULT=2:100");
  INFO(kernel.out << kernel.err);
  CHECK(kernel.status == 1);
  CHECK(kernel.says("an illegal memory access was encountered"));
}

TEST_CASE("a missing GPU or an old driver is reported in one sentence", "[gpu]") {
  if (!DIST_CUDA_EMULATED) return;  // a real driver's version cannot be changed
  const std::string program =
      " timeout 60 " MPIEXEC " -np 2 " PROGRAM_DIR "/ddp_training --max-steps 1 --device ";
  const CommandResult none = run_command("EMULATED_GPUS=0" + program + "cuda");
  CHECK(none.status == 2);
  CHECK(none.err.find("error: --device: cuda: no CUDA-capable device is detected\n") == 0);
  const CommandResult old = run_command("EMULATED_DRIVER=12040" + program + "cuda");
  CHECK(old.status == 2);
  CHECK(old.err.find("error: --device: cuda: the GPU driver supports CUDA 12.4, but this build "
                     "needs 13.0\n") == 0);
  const CommandResult kernels = run_command("EMULATED_OLD=1" + program + "cuda");
  CHECK(kernels.status == 2);
  CHECK(kernels.err.find("error: --device: cuda: no kernel image is available") == 0);
  CHECK(run_command("EMULATED_OLD=1" + program + "auto").says("on cpu (no kernel image is"));
  const CommandResult automatic = run_command("EMULATED_DRIVER=12040" + program + "auto");
  CHECK(automatic.status == 0);
  CHECK(
      automatic.says("on cpu (the GPU driver supports CUDA 12.4, but this build needs 13.0)"));
}
