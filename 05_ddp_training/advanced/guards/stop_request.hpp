// What this file adds: a signal that asks the run to stop, as a scheduler sends before it takes
// the machine away: SIGUSR1, which mpirun passes on to every rank, or SIGTERM to one rank.
// (SIGTERM to mpirun itself ends the job at once, whatever the ranks want.)
#pragma once

namespace dist {

// The exit status of a run that stopped so, with its checkpoint written (EX_TEMPFAIL of
// sysexits.h: "the user is invited to retry").
inline constexpr int kStoppedOnRequest = 75;

// While it lives the two signals do not end the process, they are remembered. One at a time.
class StopRequest {
 public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  // Whether this process was asked. The ranks are not asked at the same moment, if at all: they
  // must agree on a step before one of them leaves.
  bool asked() const;
};

}  // namespace dist
