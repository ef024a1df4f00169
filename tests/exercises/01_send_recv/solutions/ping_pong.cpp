// Right and wrong ways to time a message.
#include "tests/exercises/01_send_recv/reference/ping_pong.hpp"

#include "tests/exercises/01_send_recv/solutions/solutions.hpp"

#include <mpi.h>

namespace dist::exercise {
namespace {

using Clock = std::chrono::steady_clock;

bool plays(const Communicator& comm) {
  return comm.size() > 1 && comm.rank() < 2;
}

void there_and_back(const Communicator& comm, std::span<char> data, int peer) {
  if (comm.rank() < peer) {
    send<char>(comm, data, peer);
    recv<char>(comm, data, peer);
  } else {
    recv<char>(comm, data, peer);
    send<char>(comm, data, peer);
  }
}

// Right: a clock around every trip, MPI's own; the trips are added up.
double sum_of_trips(const Communicator& comm, std::size_t bytes, int repeats) {
  if (!plays(comm)) return 0;
  std::vector<char> data(bytes);
  double seconds = 0;
  for (int i = 0; i < repeats; ++i) {
    const double begin = MPI_Wtime();
    there_and_back(comm, data, 1 - comm.rank());
    seconds += MPI_Wtime() - begin;
  }
  return comm.rank() == 0 ? seconds / repeats / 2 : 0;
}

// Right: started and waited for, the answer's receive posted before the message leaves.
double nonblocking(const Communicator& comm, std::size_t bytes, int repeats) {
  if (!plays(comm)) return 0;
  std::vector<char> out(bytes);
  std::vector<char> in(bytes);
  const int peer = 1 - comm.rank();
  const auto begin = Clock::now();
  for (int i = 0; i < repeats; ++i) {
    Request comes = irecv<char>(comm, in, peer);
    if (comm.rank() == 1) comes.wait();
    isend<char>(comm, out, peer).wait();
    if (comm.rank() == 0) comes.wait();
  }
  const std::chrono::duration<double> seconds = Clock::now() - begin;
  return comm.rank() == 0 ? seconds.count() / (2.0 * repeats) : 0;
}

double forgets_to_halve(const Communicator& comm, std::size_t bytes, int repeats) {
  return 2 * ping_pong(comm, bytes, repeats);
}

double forgets_to_divide(const Communicator& comm, std::size_t bytes, int repeats) {
  return repeats * ping_pong(comm, bytes, repeats);
}

double halves_twice(const Communicator& comm, std::size_t bytes, int repeats) {
  return ping_pong(comm, bytes, repeats) / 2;
}

double microseconds(const Communicator& comm, std::size_t bytes, int repeats) {
  return 1e6 * ping_pong(comm, bytes, repeats);
}

// MPI_Send has returned, so the message has gone: but it has only been copied.
double times_the_send(const Communicator& comm, std::size_t bytes, int repeats) {
  if (!plays(comm)) return 0;
  std::vector<char> data(bytes);
  std::chrono::duration<double> seconds{0};
  for (int i = 0; i < repeats; ++i) {
    if (comm.rank() == 1) {
      there_and_back(comm, data, 0);
      continue;
    }
    const auto begin = Clock::now();
    send<char>(comm, data, 1);
    seconds += Clock::now() - begin;
    recv<char>(comm, data, 1);
  }
  return comm.rank() == 0 ? seconds.count() / repeats / 2 : 0;
}

double warms_up(const Communicator& comm, std::size_t bytes, int repeats) {
  ping_pong(comm, bytes, 1);
  return ping_pong(comm, bytes, repeats);
}

double barrier_first(const Communicator& comm, std::size_t bytes, int repeats) {
  comm.barrier();
  return ping_pong(comm, bytes, repeats);
}

// No answer: what is timed is how fast rank 0 gets rid of its messages.
double one_way_only(const Communicator& comm, std::size_t bytes, int repeats) {
  if (!plays(comm)) return 0;
  std::vector<char> data(bytes);
  const auto begin = Clock::now();
  for (int i = 0; i < repeats; ++i) {
    if (comm.rank() == 0) send<char>(comm, data, 1);
    if (comm.rank() == 1) recv<char>(comm, data, 0);
  }
  const std::chrono::duration<double> seconds = Clock::now() - begin;
  return comm.rank() == 0 ? seconds.count() / repeats : 0;
}

// 2 with 3, and so on, play as well, and on an odd number of ranks the last one waits.
double every_pair(const Communicator& comm, std::size_t bytes, int repeats) {
  const int peer = comm.rank() ^ 1;
  if (peer >= comm.size()) return 0;
  std::vector<char> data(bytes);
  const auto begin = Clock::now();
  for (int i = 0; i < repeats; ++i) there_and_back(comm, data, peer);
  const std::chrono::duration<double> seconds = Clock::now() - begin;
  return comm.rank() % 2 == 0 ? seconds.count() / (2.0 * repeats) : 0;
}

double never_alone(const Communicator& comm, std::size_t bytes, int repeats) {
  if (comm.rank() > 1) return 0;
  std::vector<char> data(bytes);
  const auto begin = Clock::now();
  for (int i = 0; i < repeats; ++i) there_and_back(comm, data, 1 - comm.rank());
  const std::chrono::duration<double> seconds = Clock::now() - begin;
  return comm.rank() == 0 ? seconds.count() / (2.0 * repeats) : 0;
}

double both_return(const Communicator& comm, std::size_t bytes, int repeats) {
  if (!plays(comm)) return 0;
  std::vector<char> data(bytes);
  const auto begin = Clock::now();
  for (int i = 0; i < repeats; ++i) there_and_back(comm, data, 1 - comm.rank());
  return std::chrono::duration<double>(Clock::now() - begin).count() / (2.0 * repeats);
}

double floats(const Communicator& comm, std::size_t bytes, int repeats) {
  return ping_pong(comm, bytes * sizeof(float), repeats);
}

// All messages, then all answers: a measurement of bandwidth.
double burst(const Communicator& comm, std::size_t bytes, int repeats) {
  if (!plays(comm)) return 0;
  std::vector<char> data(bytes);
  const int peer = 1 - comm.rank();
  const auto begin = Clock::now();
  for (int i = 0; i < 2 * repeats; ++i) {
    if ((i < repeats) == (comm.rank() == 0)) {
      send<char>(comm, data, peer);
    } else {
      recv<char>(comm, data, peer);
    }
  }
  const std::chrono::duration<double> seconds = Clock::now() - begin;
  return comm.rank() == 0 ? seconds.count() / (2.0 * repeats) : 0;
}

// Both ways at the same time.
double swaps(const Communicator& comm, std::size_t bytes, int repeats) {
  if (!plays(comm)) return 0;
  std::vector<char> out(bytes);
  std::vector<char> in(bytes);
  const int peer = 1 - comm.rank();
  const auto begin = Clock::now();
  for (int i = 0; i < repeats; ++i) send_recv<char>(comm, out, peer, in, peer);
  const std::chrono::duration<double> seconds = Clock::now() - begin;
  return comm.rank() == 0 ? seconds.count() / (2.0 * repeats) : 0;
}

// Both serve.
double both_receive_first(const Communicator& comm, std::size_t bytes, int repeats) {
  if (!plays(comm)) return 0;
  std::vector<char> data(bytes);
  const int peer = 1 - comm.rank();
  const auto begin = Clock::now();
  for (int i = 0; i < repeats; ++i) {
    recv<char>(comm, data, peer);
    send<char>(comm, data, peer);
  }
  const std::chrono::duration<double> seconds = Clock::now() - begin;
  return comm.rank() == 0 ? seconds.count() / (2.0 * repeats) : 0;
}

}  // namespace

std::vector<Solution> ping_pong_solutions() {
  const auto named = [](const char* name, const PingPong& solution) {
    return Solution{"ping_pong", name, checks_of_ping_pong(solution)};
  };
  return {
      named("reference", ping_pong),
      named("sum-of-trips", sum_of_trips),
      named("nonblocking", nonblocking),
      named("not-halved", forgets_to_halve),
      named("not-divided", forgets_to_divide),
      named("halved-twice", halves_twice),
      named("microseconds", microseconds),
      named("times-the-send", times_the_send),
      named("warm-up", warms_up),
      named("barrier", barrier_first),
      named("one-way-only", one_way_only),
      named("every-pair", every_pair),
      named("never-alone", never_alone),
      named("both-return", both_return),
      named("floats", floats),
      named("burst", burst),
      named("swaps", swaps),
      named("both-receive-first", both_receive_first),
  };
}

}  // namespace dist::exercise
