// Lesson 1: the five ways to pass numbers on.
#include "01_send_recv/exchanges.hpp"
#include "tests/support/counted.hpp"
#include "tests/support/tracer_data.hpp"

#include <cstddef>
#include <vector>

using namespace dist;
using namespace dist::test;

TEST_CASE("every kind of exchange delivers the left neighbour's numbers in one message") {
  if (world().size() < 2) return;
  std::vector<std::size_t> sizes = tricky_sizes();
  sizes.push_back(1'000'003);
  for (const WayToExchange& way : kWaysToExchange) {
    for (const std::size_t count : sizes) {
      const std::vector<float> out = my_numbers(count);
      std::vector<float> in(count, -1.0F);
      const Traffic traffic = counted(world(), [&] { way.exchange(world(), out, in); });
      INFO(way.name << ", " << count << " numbers");
      CHECK(all_from(in, world().left()));
      CHECK(traffic.messages_per_rank == 1);
      CHECK(traffic.bytes_per_rank == count * sizeof(float));
      CHECK(traffic.peers == std::vector<int>{1});
      CHECK(traffic.collectives == 0);
    }
  }
}
