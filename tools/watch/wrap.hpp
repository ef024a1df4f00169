// How MPI's calls are observed and forwarded. The profiling interface (MPI standard, chapter
// "Tool Support") gives every MPI_X a second name, PMPI_X, so that we may define MPI_X
// ourselves. The wrap_*.cpp files do so with one row per call of these macros.
#pragma once

#include "tools/watch/call_hooks.hpp"
#include "tools/watch/patience.hpp"

#include <array>

namespace dist::watch {

// Calls forward(status) as `call`. start(call) counts the call's operations and returns them in
// an array. The watch needs the status of a receive even if the caller ignores it.
template <class Start, class Forward>
int observed(Call call, MPI_Status* status, Start start, Forward forward) {
  const CallThatWaits may_sleep;
  if (!observing()) return forward(status);
  MPI_Status own{};
  if (status == MPI_STATUS_IGNORE) status = &own;
  const auto operations = start(call);
  const Observation observation(call, operations);
  const int result = forward(status);
  if (result == MPI_SUCCESS) {
    for (const Operation& operation : operations) finish(operation, *status);
  }
  return result;
}

// For a call that starts what a later call completes.
template <class Start, class Forward>
int observed_start(Call call, const MPI_Request* request, Start start, Forward forward) {
  if (!observing()) return forward();
  const Operation operation = start(call);
  const Observation observation(call, {&operation, 1});
  const int result = forward();
  if (result == MPI_SUCCESS) keep_request(*request, operation);
  return result;
}

}  // namespace dist::watch

#define DIST_UNPACK(...) __VA_ARGS__

// A row: the call, its parameters, its status if it has one, the operations that it starts as
// `call`, and the call that does its work and fills the status `known`.
#define DIST_CALL(NAME, PARAMETERS, STATUS, STARTS, WORK)                              \
  int NAME PARAMETERS {                                                                \
    return observed(                                                                   \
        Call::NAME, STATUS, [=](Call call) { return std::array{DIST_UNPACK STARTS}; }, \
        [=]([[maybe_unused]] MPI_Status* known) { return WORK; });                     \
  }
#define DIST_START(NAME, PARAMETERS, STARTS, WORK)                                     \
  int NAME PARAMETERS {                                                                \
    return observed_start(                                                             \
        Call::NAME, request, [=](Call call) { return STARTS; }, [=] { return WORK; }); \
  }
