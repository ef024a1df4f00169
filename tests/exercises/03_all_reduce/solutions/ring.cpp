// Right and wrong rings. Each wrong one is a mistake that is easily made; solutions.txt says
// which check finds it.
#include "tests/exercises/03_all_reduce/reference/ring_all_gather.hpp"
#include "tests/exercises/03_all_reduce/reference/ring_all_reduce.hpp"
#include "tests/exercises/03_all_reduce/reference/ring_reduce_scatter.hpp"
#include "tests/exercises/03_all_reduce/solutions/solutions.hpp"

#include <algorithm>

namespace dist::exercise {
namespace {

ChunkRange chunk(const Communicator& comm, std::size_t count, int index) {
  return chunk_range(count, comm.size(), index);
}

void add(std::span<float> into, std::span<const float> from) {
  for (std::size_t i = 0; i < into.size(); ++i) into[i] += from[i];
}

// A walk whose first chunk to send is rank + `first`; right for the reduce-scatter with -1.
void reduce_scatter_from(const Communicator& comm, std::span<float> data, int first,
                         int steps) {
  for (int step = 0; step < steps; ++step) {
    const ChunkRange out = chunk(comm, data.size(), comm.rank() + first - step);
    const ChunkRange in = chunk(comm, data.size(), comm.rank() + first - 1 - step);
    std::vector<float> spare(in.count);
    send_recv<float>(comm, window(data, out), comm.right(), spare, comm.left());
    add(window(data, in), spare);
  }
}

void off_by_one(const Communicator& comm, std::span<float> data) {
  reduce_scatter_from(comm, data, 0, comm.size() - 1);
}

void one_step_short(const Communicator& comm, std::span<float> data) {
  reduce_scatter_from(comm, data, -1, comm.size() - 2);
}

void one_step_too_many(const Communicator& comm, std::span<float> data) {
  reduce_scatter_from(comm, data, -1, comm.size());
}

void replaces_instead_of_adding(const Communicator& comm, std::span<float> data) {
  for (int step = 0; step < comm.size() - 1; ++step) {
    const ChunkRange out = chunk(comm, data.size(), comm.rank() - 1 - step);
    const ChunkRange in = chunk(comm, data.size(), comm.rank() - 2 - step);
    send_recv<float>(comm, window(data, out), comm.right(), window(data, in), comm.left());
  }
}

// length / N elements per chunk: what does not divide is forgotten.
void forgets_the_remainder(const Communicator& comm, std::span<float> data) {
  const std::size_t even = data.size() / static_cast<std::size_t>(comm.size());
  reduce_scatter_from(comm, data.first(even * static_cast<std::size_t>(comm.size())), -1,
                      comm.size() - 1);
}

// All chunks as long as the longest: the last ones reach beyond the end.
void all_chunks_alike(const Communicator& comm, std::span<float> data) {
  const auto n = static_cast<std::size_t>(comm.size());
  const std::size_t length = (data.size() + n - 1) / n;
  const auto of = [&](int index) {
    const auto c = static_cast<std::size_t>((index % comm.size() + comm.size()) % comm.size());
    return std::span<float>(data.data() + c * length, length);
  };
  std::vector<float> spare(length);
  for (int step = 0; step < comm.size() - 1; ++step) {
    send_recv<float>(comm, of(comm.rank() - 1 - step), comm.right(), spare, comm.left());
    add(of(comm.rank() - 2 - step), spare);
  }
}

void sends_before_it_receives(const Communicator& comm, std::span<float> data) {
  for (int step = 0; step < comm.size() - 1; ++step) {
    const ChunkRange out = chunk(comm, data.size(), comm.rank() - 1 - step);
    const ChunkRange in = chunk(comm, data.size(), comm.rank() - 2 - step);
    std::vector<float> spare(in.count);
    send<float>(comm, window(data, out), comm.right());
    recv<float>(comm, spare, comm.left());
    add(window(data, in), spare);
  }
}

// The ring that many tutorials show: right sums, N times the bytes.
void whole_tensor_ring(const Communicator& comm, std::span<float> data) {
  std::vector<float> passing(data.begin(), data.end());
  std::vector<float> spare(data.size());
  for (int step = 0; step < comm.size() - 1; ++step) {
    send_recv<float>(comm, passing, comm.right(), spare, comm.left());
    add(data, spare);
    passing.swap(spare);
  }
}

void leftward(const Communicator& comm, std::span<float> data) {
  for (int step = 0; step < comm.size() - 1; ++step) {
    const ChunkRange out = chunk(comm, data.size(), comm.rank() + 1 + step);
    const ChunkRange in = chunk(comm, data.size(), comm.rank() + 2 + step);
    std::vector<float> spare(in.count);
    send_recv<float>(comm, window(data, out), comm.left(), spare, comm.right());
    add(window(data, in), spare);
  }
}

// Right, differently written: by what arrives, with a running index and one spare buffer.
void by_arrival(const Communicator& comm, std::span<float> data) {
  const int n = comm.size();
  std::vector<float> spare(data.size() / static_cast<std::size_t>(n) + 1);
  int passing = (comm.rank() + n - 1) % n;
  for (int left_to_do = n - 1; left_to_do > 0; --left_to_do) {
    const int coming = (passing + n - 1) % n;
    const auto in = window(data, chunk_range(data.size(), n, coming));
    const auto landing = std::span(spare).first(in.size());
    const auto out = window(data, chunk_range(data.size(), n, passing));
    Request arrives = irecv<float>(comm, landing, comm.left());
    Request leaves = isend<float>(comm, out, comm.right());
    arrives.wait();
    leaves.wait();
    std::transform(in.begin(), in.end(), landing.begin(), in.begin(), std::plus<>());
    passing = coming;
  }
}

void gathers_from(const Communicator& comm, std::span<float> data, int first) {
  for (int step = 0; step < comm.size() - 1; ++step) {
    send_recv<float>(
        comm, window(data, chunk(comm, data.size(), comm.rank() + first - step)), comm.right(),
        window(data, chunk(comm, data.size(), comm.rank() + first - 1 - step)), comm.left());
  }
}

void gather_off_by_one(const Communicator& comm, std::span<float> data) {
  gathers_from(comm, data, 1);
}

void adds_while_gathering(const Communicator& comm, std::span<float> data) {
  reduce_scatter_from(comm, data, 0, comm.size() - 1);
}

void sends_own_chunk_only(const Communicator& comm, std::span<float> data) {
  for (int step = 0; step < comm.size() - 1; ++step) {
    send_recv<float>(comm, window(data, chunk(comm, data.size(), comm.rank())), comm.right(),
                     window(data, chunk(comm, data.size(), comm.rank() - 1 - step)),
                     comm.left());
  }
}

void forgets_to_divide(const Communicator& comm, std::span<float> data) {
  all_reduce_ring<float>(comm, data, ReduceOp::sum);
}

void divides_twice(const Communicator& comm, std::span<float> data) {
  all_reduce_ring<float>(comm, data, ReduceOp::avg);
  for (float& value : data) value /= static_cast<float>(comm.size());
}

// Divides its own share first, and each rank rounds for itself in the end.
void adds_up_for_itself(const Communicator& comm, std::span<float> data) {
  std::vector<float> passing(data.begin(), data.end());
  std::vector<float> spare(data.size());
  for (int step = 0; step < comm.size() - 1; ++step) {
    send_recv<float>(comm, passing, comm.right(), spare, comm.left());
    add(data, spare);
    passing.swap(spare);
  }
  for (float& value : data) value /= static_cast<float>(comm.size());
}

// Passes on its own numbers in every step, not what has just come: the left neighbour's share
// is counted N - 1 times. A test with ones finds the right sum.
void passes_on_its_own(const Communicator& comm, std::span<float> data) {
  const std::vector<float> own(data.begin(), data.end());
  std::vector<float> spare(data.size());
  for (int step = 0; step < comm.size() - 1; ++step) {
    send_recv<float>(comm, own, comm.right(), spare, comm.left());
    add(data, spare);
  }
  for (float& value : data) value /= static_cast<float>(comm.size());
}

void mpi_does_it(const Communicator& comm, std::span<float> data) {
  MPI_CHECK(MPI_Allreduce(MPI_IN_PLACE, data.data(), mpi_count(data.size()), MPI_FLOAT, MPI_SUM,
                          comm.get()));
  for (float& value : data) value /= static_cast<float>(comm.size());
}

// Right, differently written: divides first, so that no sum grows large, and walks by arrival.
void divides_first(const Communicator& comm, std::span<float> data) {
  for (float& value : data) value /= static_cast<float>(comm.size());
  by_arrival(comm, data);
  gathers_from(comm, data, 0);
}

}  // namespace

std::vector<Solution> ring_solutions() {
  const auto scatter = [](const char* name, const OnSpan& solution) {
    return Solution{"ring_reduce_scatter", name, checks_of_ring_reduce_scatter(solution)};
  };
  const auto gather = [](const char* name, const OnSpan& solution) {
    return Solution{"ring_all_gather", name, checks_of_ring_all_gather(solution)};
  };
  const auto whole = [](const char* name, const OnSpan& solution) {
    return Solution{"ring_all_reduce", name, checks_of_ring_all_reduce(solution)};
  };
  return {
      scatter("reference", ring_reduce_scatter),
      scatter("by-arrival", by_arrival),
      scatter("chunk-off-by-one", off_by_one),
      scatter("one-step-short", one_step_short),
      scatter("one-step-too-many", one_step_too_many),
      scatter("replaces", replaces_instead_of_adding),
      scatter("no-remainder", forgets_the_remainder),
      scatter("equal-chunks", all_chunks_alike),
      scatter("blocking-send", sends_before_it_receives),
      scatter("whole-tensor", whole_tensor_ring),
      scatter("leftward", leftward),
      gather("reference", ring_all_gather),
      gather("off-by-one", gather_off_by_one),
      gather("adds", adds_while_gathering),
      gather("own-chunk-only", sends_own_chunk_only),
      whole("reference", ring_all_reduce),
      whole("divides-first", divides_first),
      whole("no-division", forgets_to_divide),
      whole("divides-twice", divides_twice),
      whole("whole-tensor", adds_up_for_itself),
      whole("own-again", passes_on_its_own),
      whole("mpi", mpi_does_it),
  };
}

}  // namespace dist::exercise
