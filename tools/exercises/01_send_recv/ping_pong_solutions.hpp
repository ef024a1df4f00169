// Known solutions of the exercise ping_pong: the reference, and others, right and wrong.
// More are in ping_pong_changes.toml.
#pragma once

#include "01_send_recv/send_recv.hpp"
#include "common/communicator.hpp"

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace dist::exercise {

// == reference | done
// Times the whole exchange with one clock.
inline double ping_pong_reference(const Communicator& comm, std::size_t bytes, int repeats) {
  if (comm.size() < 2 || comm.rank() > 1) return 0;
  std::vector<char> data(bytes);
  if (comm.rank() == 1) {
    for (int i = 0; i < repeats; ++i) {
      recv<char>(comm, data, 0);
      send<char>(comm, data, 0);
    }
    return 0;
  }
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; ++i) {
    send<char>(comm, data, 1);
    recv<char>(comm, data, 1);
  }
  const auto end = std::chrono::steady_clock::now();
  return std::chrono::duration<double>(end - begin).count() / (2 * repeats);
}

// == helpers
// On rank 0, what play(data) returns; rank 1 answers. Other ranks, and a rank alone, do
// nothing.
template <class Play>
double ping_pong_with(const Communicator& comm, std::size_t bytes, int repeats,
                      const Play& play) {
  if (comm.size() < 2 || comm.rank() > 1) return 0;
  std::vector<char> data(bytes);
  if (comm.rank() == 0) return play(data);
  for (int i = 0; i < repeats; ++i) {
    recv<char>(comm, data, 0);
    send<char>(comm, data, 0);
  }
  return 0;
}

// == sum-of-trips | done
// Adds up the times of the trips, by MPI's clock.
inline double ping_pong_sum_of_trips(const Communicator& comm, std::size_t bytes, int repeats) {
  return ping_pong_with(comm, bytes, repeats, [&](std::vector<char>& data) {
    double seconds = 0;
    for (int i = 0; i < repeats; ++i) {
      const double begin = MPI_Wtime();
      send<char>(comm, data, 1);
      recv<char>(comm, data, 1);
      seconds += MPI_Wtime() - begin;
    }

    return seconds / (2 * repeats);
  });
}

// == nonblocking | done
// Posts the receive for the answer before it sends.
inline double ping_pong_nonblocking(const Communicator& comm, std::size_t bytes, int repeats) {
  return ping_pong_with(comm, bytes, repeats, [&](std::vector<char>& data) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < repeats; ++i) {
      std::vector<char> answer(bytes);
      Request comes = irecv<char>(comm, answer, 1);
      send<char>(comm, data, 1);
      comes.wait();
    }
    const auto end = std::chrono::steady_clock::now();
    return std::chrono::duration<double>(end - begin).count() / (2 * repeats);
  });
}

// == not-halved | one-way | a round trip is two messages
// Divides by the number of round trips.
inline double ping_pong_not_halved(const Communicator& comm, std::size_t bytes, int repeats) {
  return 2 * ping_pong_reference(comm, bytes, repeats);
}

// == not-divided | per-message | divide by 2 * repeats
// Returns the time of all trips.
inline double ping_pong_not_divided(const Communicator& comm, std::size_t bytes, int repeats) {
  return repeats * ping_pong_reference(comm, bytes, repeats);
}

// == microseconds | seconds | not microseconds or milliseconds
// Returns microseconds.
inline double ping_pong_microseconds(const Communicator& comm, std::size_t bytes, int repeats) {
  return 1e6 * ping_pong_reference(comm, bytes, repeats);
}

// == times-the-send | whole-time | no more than copy the data
// Stops the clock when MPI_Send returns.
inline double ping_pong_times_the_send(const Communicator& comm, std::size_t bytes,
                                       int repeats) {
  return ping_pong_with(comm, bytes, repeats, [&](std::vector<char>& data) {
    std::chrono::duration<double> seconds{0};
    for (int i = 0; i < repeats; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      send<char>(comm, data, 1);
      seconds += std::chrono::steady_clock::now() - begin;
      recv<char>(comm, data, 1);
    }

    return seconds.count() / (2 * repeats);
  });
}

// == barrier | messages | no barrier
// Starts with a barrier.
inline double ping_pong_barrier(const Communicator& comm, std::size_t bytes, int repeats) {
  comm.barrier();
  return ping_pong_with(comm, bytes, repeats, [&](std::vector<char>& data) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < repeats; ++i) {
      send<char>(comm, data, 1);
      recv<char>(comm, data, 1);
    }
    const auto end = std::chrono::steady_clock::now();
    return std::chrono::duration<double>(end - begin).count() / (2 * repeats);
  });
}

// == floats | bytes | send this many chars, not this many floats
// Sends `bytes` floats instead of `bytes` bytes.
inline double ping_pong_floats(const Communicator& comm, std::size_t bytes, int repeats) {
  return ping_pong_with(comm, bytes * sizeof(float), repeats, [&](std::vector<char>& data) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < repeats; ++i) {
      send<char>(comm, data, 1);
      recv<char>(comm, data, 1);
    }
    const auto end = std::chrono::steady_clock::now();
    return std::chrono::duration<double>(end - begin).count() / (2 * repeats);
  });
}

// == both-receive-first | two-ranks | Rank 0 must begin with a send
// Both ranks receive first.
inline double ping_pong_both_receive_first(const Communicator& comm, std::size_t bytes,
                                           int repeats) {
  return ping_pong_with(comm, bytes, repeats, [&](std::vector<char>& data) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < repeats; ++i) {
      recv<char>(comm, data, 1);
      send<char>(comm, data, 1);
    }
    const auto end = std::chrono::steady_clock::now();
    return std::chrono::duration<double>(end - begin).count() / (2 * repeats);
  });
}

// == fixed-buffer | large | must hold `bytes` bytes on both ranks
// Rank 0's buffer holds at most 64 KiB, so it cuts off the rest of a larger message.
inline double ping_pong_fixed_buffer(const Communicator& comm, std::size_t bytes, int repeats) {
  if (comm.size() < 2 || comm.rank() > 1) return 0;
  if (comm.rank() == 1) {
    std::vector<char> data(bytes);
    for (int i = 0; i < repeats; ++i) {
      recv<char>(comm, data, 0);
      send<char>(comm, data, 0);
    }
    return 0;
  }
  std::vector<char> buffer(std::min<std::size_t>(bytes, 1 << 16));
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; ++i) {
    send<char>(comm, buffer, 1);
    recv<char>(comm, buffer, 1);
  }
  const auto end = std::chrono::steady_clock::now();
  return std::chrono::duration<double>(end - begin).count() / (2 * repeats);
}

// == whole-microseconds | exact | Integers are rounded down
inline double ping_pong_whole_microseconds(const Communicator& comm, std::size_t bytes,
                                           int repeats) {
  return ping_pong_with(comm, bytes, repeats, [&](std::vector<char>& data) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < repeats; ++i) {
      send<char>(comm, data, 1);
      recv<char>(comm, data, 1);
    }
    const auto took = std::chrono::steady_clock::now() - begin;
    const auto us = std::chrono::duration_cast<std::chrono::microseconds>(took).count();
    return 1e-6 * static_cast<double>(std::max<long>(us / (2 * repeats), 1));
  });
}

// == whole-seconds | two-ranks | whole seconds
inline double ping_pong_whole_seconds(const Communicator& comm, std::size_t bytes,
                                      int repeats) {
  const double seconds = ping_pong_reference(comm, bytes, repeats);
  return static_cast<double>(static_cast<long>(seconds));
}

// == median | whole-time | not the median or the shortest
inline double ping_pong_median(const Communicator& comm, std::size_t bytes, int repeats) {
  return ping_pong_with(comm, bytes, repeats, [&](std::vector<char>& data) {
    std::vector<double> times;
    for (int i = 0; i < repeats; ++i) {
      const double begin = MPI_Wtime();
      send<char>(comm, data, 1);
      recv<char>(comm, data, 1);
      times.push_back(MPI_Wtime() - begin);
    }
    std::ranges::sort(times);
    return times[times.size() / 2] / 2;
  });
}

// == all-others-answer | two-ranks | One above 1 must not play
// Every rank but 0 answers.
inline double ping_pong_all_others_answer(const Communicator& comm, std::size_t bytes,
                                          int repeats) {
  if (comm.rank() < 2) return ping_pong_reference(comm, bytes, repeats);
  std::vector<char> data(bytes);
  for (int i = 0; i < repeats; ++i) {
    recv<char>(comm, data, 0);
    send<char>(comm, data, 0);
  }
  return 0;
}

}  // namespace dist::exercise
