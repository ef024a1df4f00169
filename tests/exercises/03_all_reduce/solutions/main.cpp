#include "tests/exercises/03_all_reduce/solutions/solutions.hpp"

int main(int argc, char** argv) {
  return dist::exercise::run(argc, argv, dist::exercise::ring_solutions());
}
