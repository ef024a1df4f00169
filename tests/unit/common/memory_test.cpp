// Compares memory_use with memory of known size and kind.
#include "05_ddp_training/trainer/report.hpp"
#include "tests/support/catch.hpp"

#include <cstddef>
#include <cstring>
#include <sys/mman.h>

using dist::memory_use;
using dist::MemoryUse;

namespace {

constexpr std::size_t kBytes = 64 << 20;

// A mapping whose pages are all in use. The destructor unmaps it.
class Pages {
 public:
  explicit Pages(int kind)
      : pages_(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | kind, -1, 0)) {
    REQUIRE(pages_ != MAP_FAILED);
    std::memset(pages_, 1, kBytes);
  }
  ~Pages() { ::munmap(pages_, kBytes); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

 private:
  void* pages_;
};

// The kernel updates its counts in batches of several pages per thread.
bool near(std::size_t got, std::size_t wanted) {
  constexpr std::size_t kSlack = 2 << 20;
  return got + kSlack >= wanted && got <= wanted + kSlack;
}

}  // namespace

TEST_CASE("memory use distinguishes private pages from shared ones and records the peak",
          "[memory]") {
  const MemoryUse before = memory_use(1);
  std::size_t peak = 0;
  {
    const Pages own(MAP_PRIVATE), shared(MAP_SHARED);
    const MemoryUse all = memory_use(1);
    peak = all.peak;
    CHECK(near(all.now, before.now + 2 * kBytes));
    CHECK(peak >= all.now);
    // If four ranks share the pages, each is charged a quarter.
    CHECK(near(memory_use(4).now, all.now - kBytes * 3 / 4));
    CHECK(near(memory_use(4).peak, peak - kBytes * 3 / 4));
  }
  CHECK(near(memory_use(1).now, before.now));
  CHECK(near(memory_use(1).peak, peak));
  if (dist::restart_peak()) CHECK(near(memory_use(1).peak, before.now));
}
