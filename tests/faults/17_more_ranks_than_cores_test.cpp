// Fault 17: there are more ranks than cores.
#include "tests/faults/faults.hpp"

using namespace dist::test;

TEST_CASE("eight ranks on two cores give the same result, only slower", "[fault17]") {
  const char* const program = "ddp_training";
  const std::string flags =
      "--json --dataset synthetic --samples 400 --layers 12,9,10 --global-batch 40 "
      "--deterministic";
  const auto crowded = trained(mpirun(8, program, flags, "taskset -c 0,1 "));
  CHECK(crowded.final["replicas_identical"] == true);
  CHECK(crowded.final["parameters"] == trained(mpirun(1, program, flags)).final["parameters"]);
  figure(17, "8 ranks on 2 cores: the same parameters as one rank, bit for bit");
}
