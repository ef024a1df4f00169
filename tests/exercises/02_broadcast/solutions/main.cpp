#include "tests/exercises/02_broadcast/solutions/solutions.hpp"

int main(int argc, char** argv) {
  using namespace dist::exercise;
  std::vector<Solution> all;
  for (const auto& some :
       {tree_broadcast_solutions(), tree_reduce_solutions(), scatter_all_gather_solutions()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return run(argc, argv, all);
}
