// What this file adds: a side-by-side comparison of five ways in which MPI lets ranks pass
// their numbers on. They differ in what the sender waits for, and therefore in what can hang.
// Builds on: raw_messages.
// Look at: the last column of kWaysToExchange, which says what happens if all ranks send first.
#pragma once

#include "common/communicator.hpp"

#include <array>
#include <span>

namespace dist {

// Each function sends `out` to the rank on the right and receives `in` from the rank on the
// left. All lengths are equal. Called on all ranks; there must be at least two.
void exchange_blocking(const Communicator& comm, std::span<const float> out,
                       std::span<float> in);
void exchange_synchronous(const Communicator& comm, std::span<const float> out,
                          std::span<float> in);
void exchange_buffered(const Communicator& comm, std::span<const float> out,
                       std::span<float> in);
void exchange_nonblocking(const Communicator& comm, std::span<const float> out,
                          std::span<float> in);
void exchange_combined(const Communicator& comm, std::span<const float> out,
                       std::span<float> in);

struct WayToExchange {
  const char* name;
  const char* call;
  void (*exchange)(const Communicator&, std::span<const float>, std::span<float>);
  // When the ranks hang if all of them send first: never, above the eager limit, or always.
  enum class AllSendFirst { works, hangs_above_eager_limit, hangs } all_send_first;
};

inline constexpr std::array<WayToExchange, 5> kWaysToExchange{{
    {"blocking", "MPI_Send", exchange_blocking,
     WayToExchange::AllSendFirst::hangs_above_eager_limit},
    {"synchronous", "MPI_Ssend", exchange_synchronous, WayToExchange::AllSendFirst::hangs},
    {"buffered", "MPI_Bsend", exchange_buffered, WayToExchange::AllSendFirst::works},
    {"non-blocking", "MPI_Isend", exchange_nonblocking, WayToExchange::AllSendFirst::works},
    {"combined", "MPI_Sendrecv", exchange_combined, WayToExchange::AllSendFirst::works},
}};

}  // namespace dist
