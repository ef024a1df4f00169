// Lesson 1: the five ways to pass numbers on, and the eager limit.
#include "01_send_recv/exchanges.hpp"
#include "01_send_recv/perf/eager_limit.hpp"
#include "01_send_recv/send_recv.hpp"
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

TEST_CASE("sends up to the eager limit complete before their receive; longer ones do not") {
  const std::vector<EagerLimit> limits = find_eager_limits(world());
  REQUIRE(all_ranks(limits.size() == (world().size() < 2 ? 0U : 1U)));  // one host
  for (const EagerLimit& limit : limits) {
    CHECK(limit.receiver == 1);
    CHECK(limit.same_host);
    REQUIRE(all_ranks(limit.found));
    for (const std::size_t bytes : {limit.bytes, limit.bytes + 1}) {
      std::vector<char> data(bytes, world().rank() == 0 ? 'x' : '.');
      if (world().rank() == 0) {
        Request sending = isend<char>(world(), data, 1);
        // Three barriers are needed, because the first two can be completed by messages that
        // were sent before the data had time to leave.
        for (int i = 0; i < 3; ++i) world().barrier();
        CHECK(sending.is_done() == (bytes == limit.bytes));
        world().barrier();
        sending.wait();
      } else {
        for (int i = 0; i < 4; ++i) world().barrier();
        if (world().rank() == 1) recv<char>(world(), data, 0);
        CHECK((world().rank() > 1 || data == std::vector<char>(bytes, 'x')));
      }
    }
  }
}
