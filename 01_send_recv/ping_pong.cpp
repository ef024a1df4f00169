// What this file adds: the time that an exchange takes in each of three ways, and the time of
// one step of a ring of all ranks.
// Builds on: send_recv.
// Look at: which rank receives first in the blocking way, and why the other two need no order.
#include "01_send_recv/ping_pong.hpp"

#include "01_send_recv/gpu/cuda_aware.hpp"
#include "01_send_recv/gpu/host_copy.hpp"
#include "01_send_recv/measure.hpp"
#include "01_send_recv/send_recv.hpp"
#include "01_send_recv/show/tracer_numbers.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

namespace dist {
namespace {

// All three ways send back the data that has just arrived, as the algorithms of later lessons
// do. Sending the same array over and over would take less time, because it would still be
// in the receiver's cache.

// Rank 1 must receive before it sends. If both ranks sent first, they would deadlock whenever
// the message is too large for MPI to keep a copy.
void blocking(const Communicator& comm, std::span<float> data, std::span<float>) {
  if (comm.rank() == 0) {
    send<float>(comm, data, 1);
    recv<float>(comm, data, 1);
  } else {
    recv<float>(comm, data, 0);
    send<float>(comm, data, 0);
  }
}

// Sends in both directions at the same time, so there is no order to get wrong.
void combined(const Communicator& comm, std::span<float> data, std::span<float> arrived) {
  const int peer = 1 - comm.rank();
  send_recv<float>(comm, data, peer, arrived, peer);
  send_recv<float>(comm, arrived, peer, data, peer);
}

// Does the same with separate calls. A rank could compute between the start and the wait, which
// is how lesson 5 hides communication behind computation.
void nonblocking(const Communicator& comm, std::span<float> data, std::span<float> arrived) {
  const int peer = 1 - comm.rank();
  for (const auto& [out, in] : {std::pair(data, arrived), std::pair(arrived, data)}) {
    Request receive = irecv<float>(comm, in, peer);
    Request sending = isend<float>(comm, out, peer);
    receive.wait();
    sending.wait();
  }
}

bool all_from(int sender, std::span<const float> data) {
  return count_wrong(data, [&](std::size_t i) { return tracer_number(sender, i); }) == 0;
}

using Exchange = void (*)(const Communicator&, std::span<float>, std::span<float>);

// Returns a number of repeats that is large enough for a stable median, yet small enough that
// large messages do not take long.
std::size_t repeats_of(const Tensor& tensor) {
  return std::clamp<std::size_t>((64U << 20) / (tensor.size_bytes() + 1), 9, 500);
}

void fill(const Communicator& comm, const Tensor& tensor, const Stream& stream) {
  on_host(stream, tensor,
          [&](std::span<float> data) { fill_tracer_numbers(data, comm.rank()); });
}

// Returns a message's one-way time in seconds: half of the median round trip. Sets `correct`
// to false if the data did not arrive.
double time_exchange(const Communicator& comm, const Tensor& tensor, const Stream& stream,
                     Exchange exchange, bool& correct) {
  const Tensor second(tensor.shape(), message_device(stream.device()));
  const std::span<float> arrived(second.data(), second.numel());
  const auto once = [&] {
    for_mpi(stream, tensor, [&](std::span<float> data) { exchange(comm, data, arrived); });
  };
  fill(comm, tensor, stream);
  once();
  // After the blocking way, both ranks hold rank 0's numbers. After the other two ways, each
  // rank has its own numbers back in `tensor` and the peer's in `second`.
  const bool swaps = exchange != &blocking;
  correct = correct && all_from(swaps ? comm.rank() : 0, to_host(stream, tensor)) &&
            (!swaps || all_from(1 - comm.rank(), to_host(stream, second)));
  std::vector<double> seconds;
  for (std::size_t i = 0; i < repeats_of(tensor); ++i) {
    const auto begin = std::chrono::steady_clock::now();
    once();
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return median(std::move(seconds)) / 2;
}

// Returns the time of one step of a ring in seconds. In a step, each rank passes on what it has
// received. As in a real ring, several steps follow each other without a barrier, so a rank
// that is late in one step may catch up in the next.
double time_ring_step(const Communicator& comm, const Tensor& tensor, const Stream& stream,
                      bool& correct) {
  constexpr int kSteps = 4;  // even, so that the last message ends up in the tensor
  const Tensor second(tensor.shape(), message_device(stream.device()));
  int steps_done = 0;
  const auto steps = [&] {
    for_mpi(stream, tensor, [&](std::span<float> data) {
      std::span<float> out = data;
      std::span<float> in(second.data(), second.numel());
      for (int step = 0; step < kSteps; ++step, std::swap(out, in)) {
        send_recv<float>(comm, out, comm.right(), in, comm.left());
      }
    });
    steps_done += kSteps;
  };
  fill(comm, tensor, stream);
  const auto rounds = static_cast<int>(std::max<std::size_t>(9, repeats_of(tensor) / kSteps));
  const double seconds = median_of_slowest(
                             comm, rounds, [] {}, steps) /
                         kSteps;
  const int sender = (comm.rank() - steps_done % comm.size() + comm.size()) % comm.size();
  correct = correct && all_from(sender, to_host(stream, tensor));
  return seconds;
}

// A barrier for ranks that only wait. MPI's own barrier spins, so with fewer cores than ranks
// it would take a core away from the two ranks being measured.
void sleeping_barrier(const Communicator& comm) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_CHECK(MPI_Ibarrier(comm.get(), &request));
  for (int done = 0; done == 0;) {
    MPI_CHECK(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
    if (done == 0) std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
}

}  // namespace

PingPongTimes ping_pong(const Communicator& comm, const Tensor& tensor, const Stream& stream) {
  if (comm.size() < 2) throw Error("ping_pong needs two ranks");
  PingPongTimes times;
  if (comm.rank() < 2) {
    times.one_way_us = 1e6 * time_exchange(comm, tensor, stream, blocking, times.correct);
    times.combined_us = 1e6 * time_exchange(comm, tensor, stream, combined, times.correct);
    times.nonblocking_us =
        1e6 * time_exchange(comm, tensor, stream, nonblocking, times.correct);
  }
  sleeping_barrier(comm);
  times.ring_step_us = 1e6 * time_ring_step(comm, tensor, stream, times.correct);
  times.correct = comm.all_agree(times.correct);
  return times;
}

}  // namespace dist
