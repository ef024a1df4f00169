// Belief:  MPI_Isend has copied my data when it returns.
// Predict: rank 1 starts to send version 1 of its numbers, overwrites them with version 2, and
//          only then waits for the send. Which version does rank 0 get?
// You see: with four numbers, version 1. With a message above the eager limit, version 2. (Some
//          transports send the first few kilobytes early; the message is then a mixture.)
// Why:     above the eager limit, MPI_Isend only announces the message. MPI reads the array
//          after the receive is called, which here happens after the array was overwritten.
#include "01_send_recv/perf/eager_limit.hpp"
#include "01_send_recv/send_recv.hpp"
#include "01_send_recv/tracer_numbers.hpp"
#include "common/program.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace dist {

// Returns, on rank 0, how many of `count` numbers arrived in version 2.
//
//   rank 1                                rank 0
//   isend(version 1)  - - - - - ...
//   write version 2
//   send(go)  ------------------------->  recv(go)
//   wait              ... - - - - - - ->  recv(data)
static std::size_t send_and_overwrite(const Communicator& comm, std::size_t count) {
  constexpr int kDataTag = 1, kGoTag = 2;
  std::vector<float> data(count);
  std::array<char, 1> go{};
  if (comm.rank() == 1) {
    fill_tracer_numbers(data, 1);
    Request sending = isend<float>(comm, data, 0, kDataTag);
    fill_tracer_numbers(data, 2);
    send<char>(comm, go, 0, kGoTag);
    sending.wait();
  } else if (comm.rank() == 0) {
    recv<char>(comm, go, 1, kGoTag);
    recv<float>(comm, data, 1, kDataTag);
  }
  return count_wrong(data, [](std::size_t i) { return tracer_number(1, i); });
}

bool break_reuse_buffer(const Program& program) {
  const Communicator& comm = program.comm;
  std::size_t large = 1U << 20;
  for (const EagerLimit& limit : find_eager_limits(comm)) {
    large = std::max(large, 2 * limit.bytes);
  }
  std::size_t late = 0;  // numbers of version 2 in the larger message
  for (const std::size_t bytes : {std::size_t{16}, large}) {
    const std::size_t count = bytes / sizeof(float);
    late = send_and_overwrite(comm, count);
    program.console.line("  {:>7}: rank 0 received {} numbers of version 1, {} of version 2",
                         format_bytes(bytes), count - late, late);
  }
  return comm.rank() != 0 || late > 0;
}

}  // namespace dist
