#include "tests/exercises/05_ddp_training/solutions/solutions.hpp"

int main(int argc, char** argv) {
  using namespace dist::exercise;
  std::vector<Solution> all;
  for (const auto& more : {sync_solutions(), accumulate_solutions(), overlap_solutions(),
                           checkpoint_solutions(), nccl_solutions()}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  return run(argc, argv, all);
}
