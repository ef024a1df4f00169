// main() of the test that is no rank itself.
#define CATCH_CONFIG_MAIN
#include "tests/support/catch.hpp"
#if DIST_CATCH2_VERSION >= 3
#include <catch2/catch_session.hpp>

int main(int argc, char** argv) {
  return Catch::Session().run(argc, argv);
}
#endif
