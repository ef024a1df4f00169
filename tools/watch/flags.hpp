// The flags of the watch, read before MPI starts.
#pragma once

#include "common/watch.hpp"

#include <string>

namespace dist::watch {

struct Flags {
  std::string trace;  // file; empty: none
  bool strict = false;
  double timeout_s = kDefaultTimeout_s;  // 0: never
};

// Reads "--flag value" and "--flag=value"; the last one wins. What is malformed is left out:
// the program's own command line refuses it later, in words.
Flags read_flags(int argc, char** argv);

}  // namespace dist::watch
