// Lesson 3, advanced: memory that all ranks on a host share, and the conditions under which a
// rank may free it.
#include "03_all_reduce/choice/all_reducer.hpp"
#include "tests/support/tracer_data.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

using namespace dist;
using namespace dist::test;

constexpr auto kShared = AllReduceAlgorithm::shared_memory;

// In a container with its own /proc, a process's number may be that of another process there.
static std::atomic<pid_t> pretended_process = 0;
extern "C" pid_t getpid() noexcept {
  const pid_t pretended = pretended_process;
  return pretended != 0 ? pretended : static_cast<pid_t>(::syscall(SYS_getpid));
}

namespace {

// The first access of this process to the page that holds `address` takes 50 ms.
class SlowPage {
 public:
  explicit SlowPage(const void* address) {
    const auto size = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    page_ = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(address) / size * size);
    size_ = size;
    struct sigaction action {};
    action.sa_handler = [](int) {
      ::usleep(50'000);
      ::mprotect(page_, size_, PROT_READ | PROT_WRITE);
    };
    ::sigaction(SIGSEGV, &action, &before_);
    ::mprotect(page_, size_, PROT_NONE);
  }
  ~SlowPage() { ::sigaction(SIGSEGV, &before_, nullptr); }
  SlowPage(SlowPage&&) = delete;

 private:
  static inline void* page_;
  static inline std::size_t size_;
  struct sigaction before_ {};
};

}  // namespace

// Returns whether `tensor` is reduced correctly. All ranks must call it.
static bool reduces(AllReducer& reducer, const Tensor& tensor) {
  fill_tracer_numbers(tensor.span(), world().rank());
  reducer.all_reduce(tensor.span(), ReduceOp::sum, kShared);
  return count_wrong(tensor.span(), sum_of_all) == 0;
}

TEST_CASE("if a rank cannot share its memory, all ranks get an error that names the rank") {
  const std::string error =
      error_of([] { const HostMemory memory(world(), std::size_t{1} << 62); });
  CHECK(error.find("rank 0 cannot share 4611686018427387904 bytes of memory") == 0);
}

TEST_CASE("a rank's memory that another process has by the same name is not taken for it") {
  if (world().size() == 1) return skip("needs 2 ranks");
  // The last rank gives the number of rank 0, whose piece is open under the same number.
  pretended_process = world().all_gather(::getpid())[0];
  if (world().rank() < world().size() - 1) pretended_process = 0;
  const std::string error = error_of([] { const HostMemory memory(world(), 1000); });
  pretended_process = 0;
  CHECK(contains(error, "cannot share 1000 bytes of memory with the others"));
}

TEST_CASE("a part of registered memory is reduced in place, and nothing around it changes") {
  AllReducer reducer(world());
  for (const std::size_t begin : {0, 1, 16, 777}) {
    for (const std::size_t count : {1, 100, 3001, 9000}) {
      const Tensor whole = reducer.allocate({10'000});
      std::fill(whole.span().begin(), whole.span().end(), -1.0F);
      world().barrier();
      const Tensor part = whole.narrow(begin, count);
      CHECK(reducer.is_registered(part.data(), part.size_bytes()));
      CHECK_FALSE(reducer.is_registered(part.data(), whole.size_bytes() - 4 * begin + 1));
      CHECK(reduces(reducer, part));
      const auto minus_one = [](float x) { return x == -1.0F; };
      const auto all = whole.span();
      CHECK(std::ranges::all_of(all.first(begin), minus_one));
      CHECK(std::ranges::all_of(all.subspan(begin + count), minus_one));
      world().barrier();
    }
  }
}

TEST_CASE("each rank frees its registered memory independently") {
  std::optional<AllReducer> reducer(world());
  std::vector<Tensor> kept;
  for (int round = 0; round < 20; ++round) {
    Tensor tensor = reducer->allocate({5000});
    CHECK(reduces(*reducer, tensor));
    if (round % world().size() == world().rank()) kept.push_back(tensor);
    const void* const address = tensor.data();
    const bool is_kept = !kept.empty() && kept.back().data() == tensor.data();
    tensor = Tensor();
    CHECK(reducer->is_registered(address, 4) == is_kept);
  }
  reducer.reset();
  for (const Tensor& tensor : kept) CHECK(count_wrong(tensor.span(), sum_of_all) == 0);
}

TEST_CASE("ranks that join one all-reduce with different calls all get an error") {
  if (world().size() == 1) return skip("needs 2 ranks");
  const bool odd_one = world().rank() == 1;
  AllReducer reducer(world());
  const auto refusal = [&](std::span<float> data, ReduceOp op) {
    return error_of([&] { reducer.all_reduce(data, op, kShared); });
  };
  for (const std::size_t count : {10, 100'000}) {
    INFO(count << " elements");
    std::vector<float> data(count);
    const std::string sizes =
        refusal(std::span(data).first(odd_one ? 3 : count), ReduceOp::sum);
    CHECK(contains(sizes, "called the all-reduce with a different number of elements"));
    CHECK(contains(sizes, "rank 1"));
    CHECK(contains(refusal(data, odd_one ? ReduceOp::max : ReduceOp::sum),
                   "with a different operation"));
  }
  const Tensor tensor = reducer.allocate({5000});
  std::vector<float> own(5000);
  CHECK(contains(refusal(odd_one ? std::span(own) : tensor.span(), ReduceOp::sum),
                 "with a different tensor"));
  CHECK(reduces(reducer, tensor));  // the next call works again
}

TEST_CASE("ranks that pass different parts of memory, or other halves, all get an error") {
  if (world().size() == 1) return skip("needs 2 ranks");
  const bool odd_one = world().rank() == 1;
  SharedMemoryAllReduce shared(world());
  std::vector<std::shared_ptr<std::byte>> memory;
  for (int i = 0; i < 6; ++i) memory.push_back(shared.allocate(world(), 40'000));
  const auto part = [&](std::size_t of, std::size_t begin) {
    return std::span(reinterpret_cast<float*>(memory[of].get()) + begin, 5000);
  };
  const auto refused = [&](std::span<float> one, std::span<float> other) {
    return contains(error_of([&] { shared.all_reduce(odd_one ? one : other, ReduceOp::sum); }),
                    "with a different tensor");
  };
  CHECK(refused(part(0, 0), part(0, 1)));
  CHECK(refused(part(0, 16), part(0, 4096)));
  // Whatever the distances between the allocations' numbers, no sum with an offset is equal.
  for (std::size_t other = 1; other < memory.size(); ++other) {
    for (std::size_t begin = 0; begin < memory.size(); ++begin) {
      CAPTURE(other, begin);
      CHECK(refused(part(0, begin), part(other, 0)));
    }
  }
  const std::span<float> data = part(0, 0);
  const auto meets = [&](auto one, auto other) {
    return error_of([&] { odd_one ? one() : other(); });
  };
  const auto all = [&] { shared.all_reduce(data, ReduceOp::sum); };
  const auto scatter = [&] { shared.reduce_scatter(data, ReduceOp::sum, world().size()); };
  const auto gather = [&] { shared.all_gather(data, world().size()); };
  CHECK(contains(meets(gather, all), "with a different operation"));
  CHECK(contains(meets(scatter, all), "with a different operation"));
  CHECK(contains(meets(gather, scatter), "with a different operation"));
}

// A rank may change its numbers as soon as an all-gather has returned, however slowly another
// rank still copies.
TEST_CASE("an all-gather returns once all ranks have read this rank's chunk") {
  if (world().size() == 1) return skip("needs 2 ranks");
  AllReducer reducer(world());
  const int size = world().size();
  const Tensor tensor = reducer.allocate({static_cast<std::size_t>(size) * 10'000});
  const auto chunk_of = [&](int rank) {
    const ChunkRange range = chunk_range(tensor.numel(), size, rank);
    return tensor.span().subspan(range.begin, range.count);
  };
  const std::span<float> mine = chunk_of(world().rank());
  for (int slow = 0; slow < size; ++slow) {
    std::ranges::fill(mine, 1 + static_cast<float>(world().rank()));
    std::optional<SlowPage> page;
    // The last number of a chunk that the slow rank copies.
    if (world().rank() == slow) page.emplace(&chunk_of((slow + 1) % size).back());
    world().barrier();
    reducer.all_gather(tensor.span(), kShared);
    std::ranges::fill(mine, -1.0F);
    for (int other = 0; other < size; ++other) {
      if (other == world().rank()) continue;
      CAPTURE(slow, other);
      CHECK(std::ranges::count(chunk_of(other), 1 + static_cast<float>(other)) == 10'000);
    }
    world().barrier();
  }
}

TEST_CASE("the time in which a waiting rank is stopped does not count") {
  if (world().size() == 1) return skip("needs 2 ranks");
  const Communicator pair = world().split(world().rank() / 2, world().rank());
  if (pair.size() == 2) {
    SharedMemoryAllReduce shared(pair, std::chrono::milliseconds(300));
    const pid_t first = pair.all_gather(::getpid())[0];
    if (pair.rank() == 1) {
      ::usleep(50'000);
      ::kill(first, SIGSTOP);
      ::usleep(600'000);
      ::kill(first, SIGCONT);
      ::usleep(50'000);
    }
    std::vector<float> data(10, 1.0F);
    CHECK(error_of([&] { shared.all_reduce<float>(data, ReduceOp::sum); }) == "nothing thrown");
    CHECK(data[0] == 2.0F);
  } else {
    others_check();
  }
  world().barrier();
}

TEST_CASE("a rank that waits in vain reports which rank it waits for") {
  if (world().size() == 1) return skip("needs 2 ranks");
  // All ranks in the opposite order: errors use the numbers that the ranks have in the world.
  const Communicator group = world().split(0, -world().rank());
  SharedMemoryAllReduce shared(group, std::chrono::milliseconds(150));
  if (world().rank() != 1) {
    std::vector<float> data(10);
    const std::string error = error_of([&] { shared.all_reduce<float>(data, ReduceOp::sum); });
    CHECK(contains(error, "waited 150 ms for rank 1, which did not arrive"));
  } else {
    others_check();
  }
  world().barrier();
}
