// Small runs of the ring and of its halves, whose messages can be shown: one number per chunk,
// then one chunk longer than the others.
#include "02_broadcast/chunks.hpp"
#include "tools/exercises/message_checks.hpp"

namespace dist::exercise {

using OnSpan = std::function<void(const Communicator&, std::span<float>)>;

// With `only_own_chunk`, the rest of the numbers may be anything in the end.
static Drawn drawn_ring(const OnSpan& solution, bool only_own_chunk) {
  return {.run =
              [=](const Communicator& comm, const std::vector<float>& numbers, int) {
                Guarded data = guarded(numbers);
                solution(comm, data.span());
                const std::span<float> promised =
                    only_own_chunk ? window(data.span(), chunk_range(numbers.size(),
                                                                     comm.size(), comm.rank()))
                                   : data.span();
                return std::vector<float>(promised.begin(), promised.end());
              },
          .runs =
              [](int ranks) {
                const auto n = static_cast<std::size_t>(ranks);
                return std::vector{equal_lengths(ranks, n), equal_lengths(ranks, n + 1)};
              },
          .chunks = true};
}

Drawn drawn_ring_reduce_scatter(const OnSpan& solution) {
  return drawn_ring(solution, true);
}

Drawn drawn_ring_all_gather(const OnSpan& solution) {
  return drawn_ring(solution, false);
}

Drawn drawn_ring_all_reduce(const OnSpan& solution) {
  Drawn drawn = drawn_ring(solution, false);
  drawn.divides_anywhere = true;
  return drawn;
}

}  // namespace dist::exercise
