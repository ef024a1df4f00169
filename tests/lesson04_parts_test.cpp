// Lesson 4: steps that consist of several batches, one for each rank that a process simulates.
#include "04_distributed_sampler/data_loader.hpp"
#include "tests/support/lesson04.hpp"

#include <cstddef>
#include <numeric>
#include <string>
#include <vector>

using namespace dist;
using dist::test::error_of;
using dist::test::Indices;
using dist::test::numbered;

namespace {

using Batches = std::vector<Indices>;

Batches cut(const BatchPlan& plan, const Indices& list) {
  Batches batches;
  for (std::size_t i = 0; i < plan.batches(list.size()); ++i) {
    const auto samples = plan.samples_of(list, i);
    batches.emplace_back(samples.begin(), samples.end());
  }
  return batches;
}

Indices counted(std::size_t count) {
  Indices list(count);
  std::iota(list.begin(), list.end(), std::size_t{0});
  return list;
}

}  // namespace

TEST_CASE("a step of several parts is cut into batches of equal size") {
  const Indices list = counted(10);
  CHECK(cut({2, false, 2}, list) == Batches{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8}, {9}});
  CHECK(cut({2, true, 2}, list) == Batches{{0, 1}, {2, 3}, {4, 5}, {6, 7}});
  CHECK(cut({2, false, 1}, list) == Batches{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}});
  CHECK(cut({3, false, 1}, list) == Batches{{0, 1, 2}, {3, 4, 5}, {6, 7, 8}, {9}});
  CHECK(cut({3, false, 2}, list) == Batches{{0, 1, 2}, {3, 4, 5}, {6, 7}, {8, 9}});
  CHECK(cut({5, true, 2}, list) == Batches{{0, 1, 2, 3, 4}, {5, 6, 7, 8, 9}});
  CHECK(cut({6, true, 2}, list).empty());
  CHECK(cut({6, false, 2}, list) == Batches{{0, 1, 2, 3, 4}, {5, 6, 7, 8, 9}});
  CHECK(cut({1, false, 5}, list).size() == 10);
  CHECK(cut({3, false, 4}, {}).empty());
}

TEST_CASE("every sample is in exactly one batch, in order, for any number of parts") {
  for (std::size_t parts = 1; parts <= 8; ++parts) {
    for (std::size_t of_part = 0; of_part <= 9; ++of_part) {
      for (std::size_t size = 1; size <= 5; ++size) {
        CAPTURE(parts, of_part, size);
        const Indices list = counted(parts * of_part);
        Indices joined, dropped;
        for (const Indices& batch : cut({size, false, parts}, list)) {
          joined.insert(joined.end(), batch.begin(), batch.end());
        }
        for (const Indices& batch : cut({size, true, parts}, list)) {
          CHECK(batch.size() == size);
          dropped.insert(dropped.end(), batch.begin(), batch.end());
        }
        CHECK(joined == list);
        CHECK(dropped == counted(parts * (of_part / size * size)));
      }
    }
  }
}

TEST_CASE("a number of parts that is 0 or does not divide the samples is refused") {
  const TensorDataset data = numbered(10, 1);
  const Stream stream(Device{});
  CHECK(error_of([] { BatchPlan(2, false, 0); }) == "DataLoader: a step has no batches");
  const std::string uneven = "DataLoader: cannot divide 10 samples into 4 equal parts";
  DataLoader plain(data, 2, false, stream, 4);
  CHECK(error_of([&] { plain.batches(10); }) == uneven);
  CHECK(error_of([&] { plain.over(counted(10)); }) == uneven);
}

TEST_CASE("a loader delivers the parts, even if it starts in the middle of an epoch") {
  const TensorDataset data = numbered(30, 1);  // sample i is the number 100 i
  const Stream stream(Device{});
  const Indices list = counted(30);
  const auto walk = [&](auto&& range) {
    Batches batches;
    for (const Batch& batch : range) {
      Indices samples;
      for (const float number : to_host(stream, batch.inputs)) {
        samples.push_back(static_cast<std::size_t>(number) / 100);
      }
      batches.push_back(samples);
    }
    return batches;
  };
  for (const bool drop_last : {false, true}) {
    for (const std::size_t parts : {1U, 2U, 3U, 5U}) {
      CAPTURE(drop_last, parts);
      const Batches all = cut({4, drop_last, parts}, list);
      DataLoader plain(data, 4, drop_last, stream, parts);
      CHECK(plain.batches(30) == all.size());
      for (std::size_t first = 0; first <= all.size(); ++first) {
        const Batches rest(all.begin() + static_cast<std::ptrdiff_t>(first), all.end());
        CHECK(walk(plain.over(list, first)) == rest);
      }
    }
  }
}
