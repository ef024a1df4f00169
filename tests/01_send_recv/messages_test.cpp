// Lesson 1: messages arrive complete and at the right rank, and mistakes lead to errors.
#include "01_send_recv/exchanges.hpp"
#include "01_send_recv/send_recv.hpp"
#include "tests/support/tracer_data.hpp"
#include "tools/exercises/counted.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

using namespace dist;
using namespace dist::test;

TEST_CASE("send_recv, isend and irecv shift numbers around the ring, with every element type") {
  for (const std::size_t count : {std::size_t{0}, std::size_t{5}, std::size_t{1'000'003}}) {
    check_ring_shift<float>(count);
    check_ring_shift<double>(count);
    check_ring_shift<std::int32_t>(count);
    check_ring_shift<std::int64_t>(count);
    check_ring_shift<std::uint64_t>(count);
    check_ring_shift<char>(count);
  }
}

TEST_CASE("every kind of exchange delivers the left neighbour's numbers in one message") {
  if (world().size() < 2) return skip("needs 2 ranks");
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

TEST_CASE("messages with different tags are not mixed up") {
  if (world().size() < 2) return skip("needs 2 ranks");
  if (world().rank() > 1) return others_check();
  std::vector<float> first(10);
  std::vector<float> second(10);
  if (world().rank() == 0) {
    fill_tracer_numbers(first, 1);
    fill_tracer_numbers(second, 2);
    const Request a = isend<float>(world(), first, 1, /*tag=*/1);
    const Request b = isend<float>(world(), second, 1, /*tag=*/2);
    others_check();
  } else {
    recv<float>(world(), second, 0, /*tag=*/2);  // receives the later message first
    recv<float>(world(), first, 0, /*tag=*/1);
    CHECK(all_from(first, 1));
    CHECK(all_from(second, 2));
  }
}

TEST_CASE("a message of the wrong length is an error, not half a tensor") {
  if (world().size() < 2) return skip("needs 2 ranks");
  if (world().rank() > 1) return others_check();
  std::vector<float> numbers = my_numbers(10);
  if (world().rank() == 0) {
    send<float>(world(), std::span<const float>(numbers).first(7), 1);
    send<float>(world(), numbers, 1);
    others_check();
  } else {
    const auto answer = [&](std::size_t count) {
      return error_of([&] { recv<float>(world(), std::span(numbers).first(count), 0); });
    };
    CHECK(answer(10) == "received 7 elements from rank 0, expected 10");
    const std::string too_long = answer(7);
    CHECK(contains(too_long, "MPI_ERR_TRUNCATE"));
    CHECK(contains(too_long, "send_recv.hpp"));
  }
}

TEST_CASE("a rank that does not exist is an error, not a crash") {
  std::vector<float> numbers(1);
  CHECK_THROWS_AS(send<float>(world(), numbers, world().size()), Error);
}

TEST_CASE("more elements than MPI can count are refused before any byte is read") {
  char byte = 0;
  // The second count would wrap around to 5.
  for (const std::size_t count : {std::size_t{1} << 31, (std::size_t{1} << 32) + 5}) {
    const std::span<char> huge(&byte, count);  // must never be read
    const std::span<const char> out = huge;
    const int right = world().right(), left = world().left();
    const std::string message = error_of([&] { send<char>(world(), out, right); });
    CHECK(contains(message, std::to_string(count) + " elements"));
    CHECK(contains(message, "2147483647"));
    CHECK_THROWS_AS(recv<char>(world(), huge, left), Error);
    CHECK_THROWS_AS(isend<char>(world(), out, right), Error);
    CHECK_THROWS_AS(irecv<char>(world(), huge, left), Error);
    CHECK_THROWS_AS(send_recv<char>(world(), out, right, huge, left), Error);
  }
}
