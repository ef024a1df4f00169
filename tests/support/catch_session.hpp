// Hides Catch2's main loop behind one function, so that only catch_session.cpp compiles all of
// Catch2.
#pragma once

#include <functional>
#include <string>

namespace dist::test {

// Runs the tests that the command line selects and returns the exit status. Calls
// `on_test_case` with the name of each test case when the case begins, and with "" when the
// case ends.
int run_catch(int argc, char** argv, std::function<void(const std::string&)> on_test_case);

}  // namespace dist::test
