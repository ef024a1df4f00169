// The flags of the watch, read before MPI starts.
#pragma once

#include "common/watch.hpp"

#include <array>
#include <string>

namespace dist::watch {

inline constexpr WatchFlag kTraceFlag{WatchFlag::Kind::output_file, "--trace",
                                      "write what this run did as Chrome trace JSON"};
inline constexpr WatchFlag kStrictFlag{WatchFlag::Kind::yes_or_no, "--strict",
                                       "synchronous sends: no message is buffered by MPI"};
inline constexpr WatchFlag kTimeoutFlag{
    WatchFlag::Kind::seconds, "--timeout",
    "seconds without a move before a hang is reported; 0: never", /*initial=*/60,
    /*largest=*/1e6};
inline constexpr std::array kFlags{kTraceFlag, kStrictFlag, kTimeoutFlag};

struct Flags {
  std::string trace;  // file; empty: none
  bool strict = false;
  double timeout_s = kTimeoutFlag.initial;  // 0: never
};

// Reads "--flag value" and "--flag=value"; the last one wins. What is malformed is left out:
// the program's own command line refuses it later, in words.
Flags read_flags(int argc, char** argv);

}  // namespace dist::watch
