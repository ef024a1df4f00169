// Belief:  the ring, recursive doubling and the naive algorithm give the same bits, because
//          they are equivalent. Or: they do not, so the ranks of one all-reduce may also
//          differ.
// Predict: the three algorithms add up the same random numbers. How many of 4096 sums differ
//          between two algorithms? How many differ between two ranks that use the same
//          algorithm?
// You see: on 4 ranks, about a third of the sums differ between two algorithms: most by one
//          unit in the last place (ULP), and a few, in which shares of opposite signs cancel,
//          by hundreds. With one algorithm, all ranks have the same hash.
// Why:     float addition is commutative but not associative: (a + b) + c is rounded
//          differently from a + (b + c). The ring adds up each chunk in a different order, but
//          on only one rank, and then copies the result. In recursive doubling, both partners
//          add the same two numbers. On 2 ranks every algorithm computes a + b, so nothing
//          differs. On 3 ranks, recursive doubling adds in the same order as the naive
//          algorithm.
#include "03_all_reduce/all_reduce.hpp"
#include "common/hash.hpp"
#include "common/program.hpp"
#include "common/random.hpp"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstdlib>
#include <limits>
#include <set>
#include <vector>

namespace dist {

// A float's position in the order of all floats: adjacent ones differ by one, even around zero.
static std::int64_t place(float value) {
  const auto bits = std::bit_cast<std::int32_t>(value);
  return bits >= 0 ? std::int64_t{bits} : std::numeric_limits<std::int32_t>::min() - bits;
}

bool break_association(const Program& program) {
  const Communicator& comm = program.comm;
  std::vector<float> mine(4096);
  Generator generator(program.common.seed + static_cast<std::uint64_t>(comm.rank()));
  fill_normal(mine, generator);

  constexpr std::array kCompared{AllReduceAlgorithm::naive, AllReduceAlgorithm::ring,
                                 AllReduceAlgorithm::recursive_doubling};
  std::array<std::vector<float>, kCompared.size()> sums;
  std::array<std::size_t, kCompared.size()> results{};
  for (std::size_t a = 0; a < kCompared.size(); ++a) {
    sums[a] = mine;
    all_reduce<float>(comm, sums[a], ReduceOp::sum, kCompared[a]);
    const std::vector<std::uint64_t> hashes = comm.all_gather(hash_of(sums[a]));
    results[a] = std::set(hashes.begin(), hashes.end()).size();
  }

  Table table({"", "sums that differ", "by more than 1 ULP", "largest, ULP"});
  std::size_t differ = 0;
  for (const auto& [a, b] : {std::pair{0U, 1U}, {0U, 2U}, {1U, 2U}}) {
    std::size_t elements = 0, far = 0;
    std::int64_t largest = 0;
    for (std::size_t i = 0; i < mine.size(); ++i) {
      const std::int64_t ulp = std::abs(place(sums[a][i]) - place(sums[b][i]));
      elements += ulp != 0 ? 1 : 0;
      far += ulp > 1 ? 1 : 0;
      largest = std::max(largest, ulp);
    }
    differ += elements;
    table.add({fmt::format("{} and {}", to_string(kCompared[a]), to_string(kCompared[b])),
               fmt::format("{} of {}", elements, mine.size()), std::to_string(far),
               std::to_string(largest)});
  }
  table.print(program.console);
  program.console.line(
      "different hashes over the {} ranks: naive {}, ring {}, recursive doubling {}",
      comm.size(), results[0], results[1], results[2]);
  return differ > 0 && results == std::array<std::size_t, 3>{1, 1, 1};
}

}  // namespace dist
