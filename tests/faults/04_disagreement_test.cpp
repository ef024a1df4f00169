// Fault 4: ranks disagree on the operation, or on its place in the order, its element count,
// type or root.
#include "tests/faults/faults.hpp"

#include <string>
#include <utility>

using namespace dist::test;

TEST_CASE("if ranks disagree, both sides are named", "[fault04]") {
  int named = 0;
  for (const auto& [flags, words] :
       {std::pair{"other-collective",
                  "ranks 0, 1, 3 are in MPI_Allreduce #1 (4 B); rank 2 is in MPI_Bcast #1"},
        {"skipped-collective", "ranks 0, 1, 3 are in MPI_Allreduce #7 (4 B); rank 2 never"},
        {"wrong-tag", "rank 1 waits for tag 7 from rank 0; rank 0 has sent tag 8"},
        {"named --strict",
         "ranks 1, 3 are in all_reduce #7 (bucket 2: 2.weight, 2.bias); rank 2"},
        {"other-communicator", "rank 3 has sent tag 0 on a different communicator"}}) {
    const CommandResult result =
        mpirun(4, kHangs, std::string("--timeout 0.5 --case ") + flags);
    INFO(flags << result.err);
    CHECK(result.status == 86);
    CHECK(result.says(words));
    ++named;
  }
  figure(4, std::to_string(named) + " kinds of disagreement, both sides named after --timeout");
}
