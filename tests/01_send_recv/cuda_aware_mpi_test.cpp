// An MPI that was built with CUDA says so, even if that is switched off or not used.
#include "01_send_recv/gpu/cuda_aware.hpp"
#include "common/build_config.hpp"
#include "tests/support/mpi_test.hpp"

using namespace dist;

TEST_CASE("MPI's own variables can be read, and others have a default", "[one process]") {
  // Open MPI knows this one, whose value its environment sets (tools/learn/mpi.env).
  CHECK(mpi_variable("mpi_yield_when_idle", false));
  CHECK(mpi_variable("no such variable", true));
  CHECK_FALSE(mpi_variable("no such variable", false));
}

TEST_CASE("MPI is asked whether it reads GPU memory, and whether that is switched on",
          "[one process]") {
  // Open MPI 4.1 has this variable. Without it, what MPI says is all that is known.
  const bool on = !DIST_CUDA_EMULATED && mpi_variable("opal_cuda_support", true);
  CHECK(is_cuda_aware(/*says_so=*/true, /*ucx=*/false, /*ucx_has_cuda=*/false) == on);
  CHECK(is_cuda_aware(true, /*ucx=*/true, /*ucx_has_cuda=*/true) == on);
  CHECK_FALSE(is_cuda_aware(true, /*ucx=*/true, /*ucx_has_cuda=*/false));
  CHECK_FALSE(is_cuda_aware(/*says_so=*/false, false, false));
}
