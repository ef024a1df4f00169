// Lesson 3, advanced: the hierarchical all-reduce, with hosts that exist only in this test: it
// divides the ranks of one host into groups, and only the ranks of a group share memory.
#include "03_all_reduce/several_hosts/hierarchical.hpp"

#include "common/random.hpp"
#include "tests/support/tracer_data.hpp"
#include "tools/exercises/counted.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

using namespace dist;
using namespace dist::test;

namespace {

// Host number `host` of each rank.
struct Hosts {
  std::string name;
  int (*host)(int rank);
};

const std::vector<Hosts> kHosts{
    {"pairs", [](int rank) { return rank / 2; }},
    {"round robin over two", [](int rank) { return rank % 2; }},
    {"round robin over three", [](int rank) { return rank % 3; }},
    {"one rank, and the others", [](int rank) { return std::min(rank, 1); }},
    {"one rank each", [](int rank) { return rank; }},
    {"one host", [](int) { return 0; }}};

// An all-reduce among hosts of `hosts`, and what it needs. Made and destroyed on all ranks.
class OnHosts {
 public:
  explicit OnHosts(const Hosts& hosts)
      : host_(world().split(hosts.host(world().rank()), world().rank())),
        memory_(host_),
        all_reduce_(world(), host_, memory_,
                    memory_.allocate(host_, HierarchicalAllReduce::kStagingBytes)) {}

  std::span<float> allocate(std::size_t count) {
    registered_ = memory_.allocate(host_, std::max<std::size_t>(1, count * sizeof(float)));
    return {reinterpret_cast<float*>(registered_.get()), count};
  }
  std::span<float> reduce(std::span<float> data, ReduceOp op) {
    all_reduce_.all_reduce(data, op);
    return data;
  }

 private:
  Communicator host_;
  SharedMemoryAllReduce memory_;
  HierarchicalAllReduce all_reduce_;
  std::shared_ptr<std::byte> registered_;
};

}  // namespace

TEST_CASE("among any hosts, every op gives the right numbers, and the same bits everywhere") {
  std::vector<std::size_t> sizes = tricky_sizes();
  // More than fits into the staging memory for ordinary memory.
  sizes.push_back(HierarchicalAllReduce::kStagingBytes / sizeof(float) + 12'345);
  for (const Hosts& hosts : kHosts) {
    OnHosts on(hosts);
    for (const bool registered : {false, true}) {
      for (const std::size_t count : sizes) {
        INFO(hosts.name << (registered ? ", registered, " : ", ordinary, ") << count);
        std::vector<float> ordinary(registered ? 0 : count);
        const std::span<float> data = registered ? on.allocate(count) : std::span(ordinary);
        for (const auto& [name, op] : kReduceOps) {
          if (op != ReduceOp::sum && count == sizes.back()) continue;  // takes long
          CAPTURE(name);
          fill_tracer_numbers(data, world().rank());
          CHECK(wrong_after(op, on.reduce(data, op)) == 0);
        }
        Generator generator(static_cast<std::uint64_t>(29 + world().rank()));
        fill_uniform(data, -1, 1, generator);
        CHECK(same_bits_everywhere(on.reduce(data, ReduceOp::avg)));
      }
    }
  }
}

TEST_CASE("each half of the tensor crosses between two hosts of two ranks once each way") {
  if (world().size() != 4) return skip("needs 4 ranks");
  OnHosts on(kHosts[0]);
  constexpr std::size_t kCount = 65536;
  const std::span<float> data = on.allocate(kCount);
  const Traffic traffic = counted(world(), [&] { on.reduce(data, ReduceOp::sum); });
  // Of its half, a rank sends one half before the sums are finished and the other one after.
  CHECK(traffic.bytes_per_rank == data.size_bytes() / 2);
  CHECK(traffic.messages_per_rank == 2);
  CHECK(traffic.peers == std::vector<int>{2});
}
