// How part_N.cpp runs a part. `exercise` is a macro there that gives each part its own
// namespace, because two exercises may have helpers of the same name, and here they are one
// program.
#pragma once

#include "common/check.hpp"
#include "common/watch.hpp"
#include "tools/exercises/not_started.hpp"
#include "tools/mine/parts.hpp"

#include <exception>
#include <string>

namespace dist::mine {

template <class Function>
auto run_part(Part& part, const Function& function) {
  const std::string name = std::string(part.yours ? "your " : "our ") + part.name;
  const CallScope scope(name);  // in a hang report
  ++part.runs;
  try {
    return function();
  } catch (const exercise::NotStarted&) {
    throw Error(name + ": something that it calls is not written yet");
  } catch (const std::exception& error) {
    throw Error(name + ": " + error.what());
  }
}

}  // namespace dist::mine
