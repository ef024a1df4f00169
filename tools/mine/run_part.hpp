// Runs a part for part_N.cpp. In that file, the macro `exercise` gives the part its own
// namespace, because the exercises form one program here and may have helpers of the same name.
#pragma once

#include "common/check.hpp"
#include "common/watch.hpp"
#include "tools/exercises/confined.hpp"
#include "tools/exercises/not_started.hpp"
#include "tools/mine/parts.hpp"

#include <mpi.h>

#include <fmt/core.h>

#include <cstdio>
#include <exception>
#include <string>

namespace dist::mine {

template <class Function>
auto run_part(Part& part, const Function& function) {
  const std::string name = std::string(part.yours ? "your " : "our ") + part.name;
  const CallScope scope(name);  // in a hang report
  const Confined confined(name.c_str(), [&](const std::string& what) {
    fmt::print(stderr, "WRONG: {} {}\n", name, what);
    std::fflush(nullptr);
    MPI_Abort(MPI_COMM_WORLD, 1);
  });
  ++part.runs;
  try {
    return function();
  } catch (const exercise::NotStarted&) {
    throw Error(name + ": it calls something that is not written yet");
  } catch (const std::exception& error) {
    throw Error(name + ": " + error.what());
  }
}

}  // namespace dist::mine
