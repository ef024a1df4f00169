// Memory, and tensors as views of memory.
#include "common/tensor.hpp"

#include "01_send_recv/tracer_numbers.hpp"
#include "common/buffer.hpp"
#include "common/check.hpp"
#include "tests/support/mpi_test.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

using namespace dist;
using dist::test::kMost;

TEST_CASE("memory is aligned and zeroed, even if it was used before") {
  constexpr std::size_t kHugePage = 2U << 20;
  for (const std::size_t count :
       {0U, 1U, 15U, 16U, 17U, 1000U, 100'003U, 524'287U, 1'600'000U}) {
    CAPTURE(count);
    for (int round = 0; round < 3; ++round) {  // the heap reuses a freed block
      const Buffer<float> buffer(count, Device{});
      CHECK(buffer.size() == count);
      CHECK(buffer.size_bytes() == 4 * count);
      REQUIRE(buffer.data() != nullptr);
      CHECK(std::bit_cast<std::uintptr_t>(buffer.data()) %
                (4 * count < kHugePage ? 64 : kHugePage) ==
            0);
      CHECK(count_wrong({buffer.data(), count}, [](std::size_t) { return 0.0; }) == 0);
      std::fill_n(buffer.data(), count, 7.5F);
    }
  }
  CHECK(Buffer<double>(3, Device{}).size_bytes() == 24);
  CHECK_THROWS_AS(allocate(kMost, Device{}), Error);
}

TEST_CASE("narrow, view and rows give access to the same numbers") {
  const Tensor whole({4, 6}, Device{});
  fill_tracer_numbers(whole.span(), 3);
  const Tensor part = whole.narrow(5, 3);
  const Tensor other = whole.view({2, 3, 4});
  const Tensor top = whole.rows(2);
  CHECK(part.shape() == Shape{3});
  CHECK(other.shape() == Shape{2, 3, 4});
  CHECK(top.shape() == Shape{2, 6});
  CHECK(part.span()[0] == tracer_number(3, 5));
  part.span()[1] = -1.0F;
  CHECK(whole.span()[6] == -1.0F);
  CHECK(other.span()[6] == -1.0F);
  CHECK(top.view({12}).narrow(6, 1).span()[0] == -1.0F);
  CHECK(to_host(Stream(Device{}), part) == std::vector<float>{3005.0F, -1.0F, 3007.0F});

  CHECK(whole.narrow(24, 0).numel() == 0);
  CHECK(whole.rows(0).shape() == Shape{0, 6});
  CHECK_THROWS_AS(whole.narrow(24, 1), Error);
  CHECK_THROWS_AS(whole.narrow(25, 0), Error);
  CHECK_THROWS_AS(whole.narrow(2, kMost), Error);  // 2 + kMost wraps around to 1
  CHECK_THROWS_AS(whole.view({5, 5}), Error);
  CHECK_THROWS_AS(whole.rows(5), Error);
  CHECK_THROWS_AS(copy(Stream(Device{}), part, top), Error);
  CHECK(to_string(Shape{64, 784}) == "(64, 784)");
}

TEST_CASE("a view keeps its memory alive") {
  auto owner = std::make_shared<std::vector<float>>(10, 2.5F);
  const std::weak_ptr<std::vector<float>> watch = owner;
  Tensor window =
      Tensor(owner, owner->data(), {10}, Device{}).narrow(3, 4).view({2, 2}).rows(1);
  owner.reset();
  CHECK_FALSE(watch.expired());
  window = Tensor();
  CHECK(watch.expired());
}

TEST_CASE("a size that no machine's memory can hold is refused instead of wrapping around") {
  constexpr std::size_t kHuge = std::size_t{1} << 62;
  CHECK_THROWS_AS(Buffer<double>(kHuge / 2 + 1, Device{}), Error);
  CHECK_THROWS_AS(Tensor({kHuge}, Device{}), Error);
  CHECK_THROWS_AS(Tensor({kHuge, 8}, Device{}), Error);
  CHECK_THROWS_AS(Buffer<char>(kHuge, Device{}), Error);
}
