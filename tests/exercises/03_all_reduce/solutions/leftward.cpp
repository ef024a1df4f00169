// Right and wrong rings that run to the left.
#include "03_all_reduce/ring.hpp"
#include "tests/exercises/03_all_reduce/reference/leftward_ring.hpp"
#include "tests/exercises/03_all_reduce/solutions/solutions.hpp"

namespace dist::exercise {
namespace {

// Step s of the first half passes on chunk rank + `first` + s; right with 1. In the second half
// the walk goes on where the first ended.
void walk(const Communicator& comm, std::span<float> data, int first, int steps) {
  const auto chunk = [&](int index) {
    return window(data, chunk_range(data.size(), comm.size(), index));
  };
  for (int step = 0; step < steps; ++step) {
    const std::span<float> in = chunk(comm.rank() + first + 1 + step);
    std::vector<float> spare(in.size());
    send_recv<float>(comm, chunk(comm.rank() + first + step), comm.left(), spare, comm.right());
    for (std::size_t i = 0; i < in.size(); ++i) in[i] += spare[i];
  }
  for (int step = 0; step < comm.size() - 1; ++step) {
    send_recv<float>(comm, chunk(comm.rank() + first - 1 + step), comm.left(),
                     chunk(comm.rank() + first + step), comm.right());
  }
}

void one_seat_too_early(const Communicator& comm, std::span<float> data) {
  walk(comm, data, 0, comm.size() - 1);
}

void one_step_short(const Communicator& comm, std::span<float> data) {
  walk(comm, data, 1, comm.size() - 2);
}

void rightward(const Communicator& comm, std::span<float> data) {
  all_reduce_ring<float>(comm, data, ReduceOp::sum);
}

// The neighbours are swapped; the chunks still move as in the lesson.
void swaps_the_neighbours_only(const Communicator& comm, std::span<float> data) {
  const auto chunk = [&](int index) {
    return window(data, chunk_range(data.size(), comm.size(), index));
  };
  for (int step = 0; step < comm.size() - 1; ++step) {
    const std::span<float> in = chunk(comm.rank() - 2 - step);
    std::vector<float> spare(in.size());
    send_recv<float>(comm, chunk(comm.rank() - 1 - step), comm.left(), spare, comm.right());
    for (std::size_t i = 0; i < in.size(); ++i) in[i] += spare[i];
  }
  for (int step = 0; step < comm.size() - 1; ++step) {
    send_recv<float>(comm, chunk(comm.rank() - step), comm.left(),
                     chunk(comm.rank() - 1 - step), comm.right());
  }
}

void sends_before_it_receives(const Communicator& comm, std::span<float> data) {
  const auto chunk = [&](int index) {
    return window(data, chunk_range(data.size(), comm.size(), index));
  };
  for (int step = 0; step < comm.size() - 1; ++step) {
    const std::span<float> in = chunk(comm.rank() + 2 + step);
    std::vector<float> spare(in.size());
    send<float>(comm, chunk(comm.rank() + 1 + step), comm.left());
    recv<float>(comm, spare, comm.right());
    for (std::size_t i = 0; i < in.size(); ++i) in[i] += spare[i];
  }
  for (int step = 0; step < comm.size() - 1; ++step) {
    send<float>(comm, chunk(comm.rank() + step), comm.left());
    recv<float>(comm, chunk(comm.rank() + 1 + step), comm.right());
  }
}

// Sends its own numbers in every step: the right neighbour's share is counted N - 1 times. With
// ones everywhere the sum is right.
void passes_on_its_own(const Communicator& comm, std::span<float> data) {
  const std::vector<float> own(data.begin(), data.end());
  std::vector<float> spare(data.size());
  for (int step = 0; step < comm.size() - 1; ++step) {
    send_recv<float>(comm, own, comm.left(), spare, comm.right());
    for (std::size_t i = 0; i < data.size(); ++i) data[i] += spare[i];
  }
}

void whole_tensors(const Communicator& comm, std::span<float> data) {
  std::vector<float> passing(data.begin(), data.end());
  std::vector<float> spare(data.size());
  for (int step = 0; step < comm.size() - 1; ++step) {
    send_recv<float>(comm, passing, comm.left(), spare, comm.right());
    for (std::size_t i = 0; i < data.size(); ++i) data[i] += spare[i];
    passing.swap(spare);
  }
}

// The second half passes on all that has come so far, in messages that grow.
void gathers_ever_more(const Communicator& comm, std::span<float> data) {
  const auto chunk = [&](int index) {
    return window(data, chunk_range(data.size(), comm.size(), index));
  };
  for (int step = 0; step < comm.size() - 1; ++step) {
    const std::span<float> in = chunk(comm.rank() + 2 + step);
    std::vector<float> spare(in.size());
    send_recv<float>(comm, chunk(comm.rank() + 1 + step), comm.left(), spare, comm.right());
    for (std::size_t i = 0; i < in.size(); ++i) in[i] += spare[i];
  }
  for (int step = 0; step < comm.size() - 1; ++step) {
    std::vector<float> all;
    std::vector<float> arrived;
    for (int k = 0; k <= step; ++k) {
      const std::span<float> mine = chunk(comm.rank() + k);
      all.insert(all.end(), mine.begin(), mine.end());
      arrived.resize(arrived.size() + chunk(comm.rank() + 1 + k).size());
    }
    send_recv<float>(comm, all, comm.left(), arrived, comm.right());
    auto from = arrived.begin();
    for (int k = 0; k <= step; ++k) {
      for (float& value : chunk(comm.rank() + 1 + k)) value = *from++;
    }
  }
}

// Right, differently written: by arrival, with requests and a running index.
void by_arrival(const Communicator& comm, std::span<float> data) {
  const int n = comm.size();
  std::vector<float> landing(data.size() / static_cast<std::size_t>(n) + 1);
  int passing = (comm.rank() + 1) % n;
  for (int step = 1; step < 2 * n - 1; ++step) {
    const int coming = (passing + 1) % n;
    const auto in = window(data, chunk_range(data.size(), n, coming));
    const auto spare = std::span(landing).first(in.size());
    Request arrives = irecv<float>(comm, spare, comm.right());
    isend<float>(comm, window(data, chunk_range(data.size(), n, passing)), comm.left()).wait();
    arrives.wait();
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = step < n ? spare[i] + in[i] : spare[i];
    passing = coming;
  }
}

}  // namespace

std::vector<Solution> leftward_solutions() {
  const auto of = [](const char* name, const OnSpan& solution) {
    return Solution{"leftward_ring", name, checks_of_leftward_ring(solution)};
  };
  return {
      of("reference", leftward_ring),
      of("by-arrival", by_arrival),
      of("one-seat-too-early", one_seat_too_early),
      of("one-step-short", one_step_short),
      of("rightward", rightward),
      of("neighbours-only", swaps_the_neighbours_only),
      of("blocking-send", sends_before_it_receives),
      of("own-again", passes_on_its_own),
      of("whole-tensor", whole_tensors),
      of("growing-messages", gathers_ever_more),
  };
}

}  // namespace dist::exercise
