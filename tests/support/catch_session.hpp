// Catch2's own main loop, behind one function: the only file that compiles all of Catch2 is
// catch_session.cpp.
#pragma once

#include <functional>
#include <string>

namespace dist::test {

// Runs the tests that the command line asks for and returns the exit status. `on_test_case` is
// told the name of each test case when it begins, and "" when it ends.
int run_catch(int argc, char** argv,
              std::function<void(const std::string&)> on_test_case = nullptr);

}  // namespace dist::test
