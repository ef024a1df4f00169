// What only emulated GPUs can show: libraries that refuse, and mistakes that NCCL does not
// forgive.
#include "tests/support/catch.hpp"
#include "tests/support/training_run.hpp"

#include <string>
#include <utility>

using namespace dist::test;

#if DIST_CUDA_EMULATED

TEST_CASE("any epilogue may be missing, and any product may be refused", "[gpu]") {
  const std::string job = " EMULATED_GPUS=2 timeout -k 10 120 " MPIEXEC " -np 2 " PROGRAM_DIR
                          "/ddp_training --json --device cuda --batch-size 8 --max-steps 8 "
                          "--layers 784,20,10,1,10";
  const Training all = trained(run_command("EMULATED_EPILOGUES=1" + job));
  // The bias alone; with ReLU; the column sums alone; a refusal when plain, and in a graph.
  for (const std::string setting :
       {"EPILOGUES=4", "EPILOGUES=134", "EPILOGUES=512", "REFUSAL=1:3", "REFUSAL=1:42"}) {
    CAPTURE(setting);
    const Training some = trained(run_command("EMULATED_" + setting + job));
    check_losses(some.losses, all.losses, 1e-5);
  }
}

TEST_CASE("mistakes with NCCL's memory and communicators end the program", "[gpu]") {
  const auto make = [](const std::string& mistake) {
    return run_command(MPIEXEC " -np 1 " PROGRAM_DIR "/../tests/touch_device_memory " +
                       mistake);
  };
  for (const auto& [mistake, report] :
       {std::pair("deregister",
                  "ncclCommDeregister got memory that work or a graph still uses"),
        {"free", "ncclMemFree got memory that work or a graph still uses"},
        {"other-memory", "ncclMemFree got memory that ncclMemAlloc did not allocate"},
        {"finalize", "ncclCommFinalize got a communicator that a graph still uses"},
        {"revoked", "ncclCommFinalize got a communicator that was revoked"},
        {"abort", "ncclCommAbort got a communicator that a graph still uses"},
        {"freed", "ncclCommDestroy got a communicator that was freed"}}) {
    const CommandResult result = make(std::string("nccl-") + mistake);
    INFO(mistake << ": " << result.err);
    CHECK(result.status == 1);
    CHECK(result.says(std::string("emulated CUDA: ") + report));
  }
  CHECK(make("nccl").out == "the end\n");
}

#endif
