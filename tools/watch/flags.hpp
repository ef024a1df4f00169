// The watch's flags, which are read before MPI starts.
#pragma once

#include "common/watch.hpp"

#include <array>
#include <string>

namespace dist::watch {

inline constexpr WatchFlag kTraceFlag{WatchFlag::Kind::output_file, "--trace",
                                      "write a Chrome trace (JSON) of this run"};
inline constexpr WatchFlag kStrictFlag{WatchFlag::Kind::yes_or_no, "--strict",
                                       "send synchronously, so that MPI buffers no message"};
inline constexpr WatchFlag kTimeoutFlag{
    WatchFlag::Kind::seconds, "--timeout",
    "report a hang after this many seconds without progress; 0: never", /*initial=*/60,
    /*largest=*/1e6};
inline constexpr std::array kFlags{kTraceFlag, kStrictFlag, kTimeoutFlag};

struct Flags {
  std::string trace;  // file; empty: none
  bool strict = false;
  double timeout_s = kTimeoutFlag.initial;  // 0: never
};

// Reads "--flag value" and "--flag=value"; the last value wins. Malformed values are ignored,
// because the program's own command-line parser reports them later.
Flags read_flags(int argc, char** argv);

}  // namespace dist::watch
