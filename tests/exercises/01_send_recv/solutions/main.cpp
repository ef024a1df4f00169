#include "tests/exercises/01_send_recv/solutions/solutions.hpp"

int main(int argc, char** argv) {
  using namespace dist::exercise;
  std::vector<Solution> all;
  for (const auto& some :
       {exchange_solutions(), ring_shift_solutions(), ping_pong_solutions(), fit_solutions()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return run(argc, argv, all);
}
