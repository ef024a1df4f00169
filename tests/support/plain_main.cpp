// main() of the test programs that start mpirun themselves and are not ranks.
#include "tests/support/catch_session.hpp"

int main(int argc, char** argv) {
  return dist::test::run_catch(argc, argv);
}
