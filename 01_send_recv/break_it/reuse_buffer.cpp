// Belief:  MPI_Isend has copied my data when it returns.
// Predict: rank 0 starts to send version 1 of its numbers, overwrites them with version 2, and
//          only then waits for the send. Which version does rank 1 get?
// You see: with four numbers, version 1, because MPI copied them at once. With a message above
//          the eager limit, version 2, although it was written after MPI_Isend. (Some
//          transports send the first few kilobytes early; the message is then a mixture of both
//          versions.)
// Why:     above the eager limit, MPI_Isend only announces the message. MPI reads the array
//          after the receive is called, and rank 1 calls the receive only after rank 0 has
//          overwritten the array. The result therefore does not depend on luck.
// In the wild: pytorch/pytorch#61875, which adds a warning to the documentation of isend
#include "01_send_recv/break_it/experiments.hpp"
#include "01_send_recv/send_recv.hpp"
#include "01_send_recv/show/eager_limit.hpp"
#include "01_send_recv/show/tracer_numbers.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dist {
namespace {

constexpr int kDataTag = 1;
constexpr int kGoTag = 2;

// How many numbers of each version rank 1 received. Only rank 0's values are valid.
struct Versions {
  std::int64_t first = 0;
  std::int64_t second = 0;
};

//   rank 0                                rank 1
//   isend(version 1)  - - - - - ...
//   write version 2
//   send(go)  ------------------------->  recv(go)
//   wait              ... - - - - - - ->  recv(data)
Versions send_and_overwrite(const Communicator& comm, std::size_t count) {
  std::vector<float> data(count);
  std::array<std::int64_t, 2> counted{};
  std::array<char, 1> go{};
  if (comm.rank() == 0) {
    fill_tracer_numbers(data, 1);
    Request sending = isend<float>(comm, data, 1, kDataTag);
    fill_tracer_numbers(data, 2);
    send<char>(comm, go, 1, kGoTag);
    sending.wait();
    recv<std::int64_t>(comm, counted, 1);
  } else if (comm.rank() == 1) {
    recv<char>(comm, go, 0, kGoTag);
    recv<float>(comm, data, 0, kDataTag);
    for (const int version : {1, 2}) {
      const std::size_t others =
          count_wrong(data, [&](std::size_t i) { return tracer_number(version, i); });
      counted[version == 1 ? 0 : 1] = static_cast<std::int64_t>(count - others);
    }
    send<std::int64_t>(comm, counted, 0);
  }
  return {counted[0], counted[1]};
}

}  // namespace

bool break_reuse_buffer(const Program& program) {
  const Console& console = program.console;
  const Communicator& comm = program.comm;
  std::size_t large = 1U << 20;
  for (const EagerLimit& limit : find_eager_limits(comm)) {
    large = std::max(large, 2 * limit.bytes);
  }
  Versions at_large;
  for (const std::size_t bytes : {std::size_t{16}, large}) {
    const Versions got = send_and_overwrite(comm, bytes / sizeof(float));
    console.line(
        fmt::format("  {:>7}: rank 1 received {} numbers of version 1, {} of version 2",
                    format_bytes(bytes), got.first, got.second));
    console.row({{"break", "reuse-buffer"},
                 {"bytes", bytes},
                 {"of_version_1", got.first},
                 {"of_version_2", got.second}});
    at_large = got;
  }
  console.line(
      "  both times, version 1 was passed to MPI_Isend and overwritten before the wait");
  return comm.rank() != 0 || at_large.second > 0;
}

}  // namespace dist
