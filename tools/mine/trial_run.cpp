// Runs each part once on a little data.
#include "01_send_recv/tracer_numbers.hpp"
#include "03_all_reduce/all_reduce.hpp"
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "tools/mine/parts.hpp"

#include <algorithm>
#include <numeric>

namespace dist::mine {
namespace {

constexpr std::size_t kBeyondEager = 100'003;  // MPI does not buffer a message this long

std::vector<float> tracers(int rank, std::size_t count) {
  std::vector<float> data(count);
  fill_tracer_numbers(data, rank);
  return data;
}

// Sums of these numbers are not exact, so a sum's bits show the order of its additions.
std::vector<float> inexact(const Communicator& comm, std::size_t count) {
  std::vector<float> data(count);
  for (std::size_t i = 0; i < count; ++i) {
    data[i] = 0.1F * static_cast<float>(i % 101 + 1) / static_cast<float>(3 * comm.rank() + 1);
  }
  return data;
}

bool shifts(const Communicator& comm, std::size_t count) {
  const auto length_of = [&](int rank) { return count + static_cast<std::size_t>(rank % 3); };
  const std::vector<float> out = tracers(comm.rank(), length_of(comm.rank()));
  std::vector<float> in(length_of(comm.left()), -1.0F);
  ring_shift(comm, out, in);
  return in == tracers(comm.left(), in.size());
}

bool broadcasts(const Communicator& comm, std::size_t count) {
  const int root = comm.size() - 1;
  std::vector<float> data = tracers(comm.rank(), count);
  tree_broadcast(comm, data, root);
  return data == tracers(root, count);
}

bool reduces(const Communicator& comm, std::size_t count) {
  std::vector<float> data = inexact(comm, count), expected = data;
  ring_all_reduce(comm, data);
  all_reduce_ring<float>(comm, expected, ReduceOp::avg);
  return data == expected;
}

bool samples(const Communicator& comm, std::size_t count) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  return std::ranges::all_of(std::array{false, true}, [&](bool drop_last) {
    const DistributedSampler sampler(count, comm.size(), comm.rank(),
                                     {.shuffle = false, .drop_last = drop_last});
    return my_indices(order, comm.size(), comm.rank(), drop_last) == sampler.indices();
  });
}

bool syncs(const Communicator& comm, std::size_t count) {
  std::vector<float> message = inexact(comm, count + 7), expected = message;
  const std::size_t split = count / 3;
  std::vector<float> first(message.begin(), message.begin() + static_cast<long>(split));
  std::vector<float> second(message.begin() + static_cast<long>(split), message.end());
  sync_gradients(comm, {first, second});
  first.insert(first.end(), second.begin(), second.end());
  all_reduce_ring<float>(comm, expected, ReduceOp::avg);
  return first == expected;
}

}  // namespace

const Part* first_wrong_part(const Communicator& comm) {
  using Trial = bool (*)(const Communicator&, std::size_t);
  const std::array<Trial, 5> trials{shifts, broadcasts, reduces, samples, syncs};
  for (std::size_t p = 0; p < trials.size(); ++p) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{997}, kBeyondEager}) {
      if (!comm.all_agree(trials[p](comm, count))) return parts()[p];
    }
  }
  return nullptr;
}

}  // namespace dist::mine
