// What this file adds: a side-by-side comparison of five ways in which MPI lets ranks pass
// their numbers on. They differ in what the sender waits for, and therefore in what can hang.
// Builds on: main.cpp's MPI_Send and MPI_Recv.
// Look at: the last column of kWaysToExchange, which says what happens if all ranks send first.
#pragma once

#include "common/communicator.hpp"

#include <array>
#include <span>

namespace dist {

// Each function sends `out` to the rank on the right and receives `in` from the rank on the
// left. All lengths are equal. Called on all ranks; there must be at least two.
using Exchange = void(const Communicator& comm, std::span<const float> out,
                      std::span<float> in);
Exchange exchange_blocking, exchange_synchronous, exchange_buffered, exchange_nonblocking,
    exchange_combined;

inline constexpr const char* kHangsAbove = "hangs above";  // the eager limit

struct WayToExchange {
  const char* name;
  const char* call;
  Exchange* exchange;
  const char* if_all_send_first;
};

inline constexpr std::array<WayToExchange, 5> kWaysToExchange{{
    {"blocking", "MPI_Send", exchange_blocking, kHangsAbove},
    {"synchronous", "MPI_Ssend", exchange_synchronous, "hangs"},
    {"buffered", "MPI_Bsend", exchange_buffered, "works"},
    {"non-blocking", "MPI_Isend", exchange_nonblocking, "works"},
    {"combined", "MPI_Sendrecv", exchange_combined, "works"},
}};

}  // namespace dist
