// A signal handler may interrupt any code, so this one takes no lock and allocates nothing. It
// reads a table. Each mapping's entry is written before the mapping is used and cleared before
// the mapping is removed.
#include "04_distributed_sampler/datasets/bus_error.hpp"

#include "common/fatal.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <unistd.h>

namespace dist {
namespace {

struct Watched {
  std::atomic<std::uintptr_t> begin{0};  // 0: entry not in use; written last
  std::size_t size = 0;
  std::array<char, 512> path{};  // a longer path is cut off
};
std::array<Watched, 16> table;  // further mappings are not watched
std::mutex table_mutex;         // for threads that create mappings; the handler never locks it

// A line of text that is built without using the heap.
struct Line {
  std::array<char, 800> text;
  std::size_t length = 0;

  void add(std::string_view part) {
    const std::size_t count = std::min(part.size(), text.size() - length);
    std::copy_n(part.data(), count, text.data() + length);
    length += count;
  }
  void add(std::uintmax_t number) {
    std::array<char, 20> digits;
    std::size_t first = digits.size();
    do {
      digits[--first] = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number != 0);
    add(std::string_view(digits.data() + first, digits.size() - first));
  }
};

[[noreturn]] void say_and_leave(const Watched& file, std::uintptr_t address) {
  Line line;
  line.add("[rank ");
  line.add(static_cast<std::uintmax_t>(rank_in_reports()));
  line.add("] fatal: ");
  line.add(file.path.data());
  line.add(": shortened while in use; byte ");
  line.add(address - file.begin.load());
  line.add(" is gone\n");
  static_cast<void>(!::write(STDERR_FILENO, line.text.data(), line.length));
  // A signal handler must not call MPI_Abort. The launcher ends the other ranks when a rank
  // exits without calling MPI_Finalize.
  ::_exit(EXIT_FAILURE);
}

void on_bus_error(int, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (const Watched& file : table) {
    const std::uintptr_t begin = file.begin.load();
    if (begin != 0 && address >= begin && address - begin < file.size) {
      say_and_leave(file, address);
    }
  }
  // The address is in none of the watched files. After the handler returns, the access is
  // repeated, and the default action ends the process.
  std::signal(SIGBUS, SIG_DFL);
}

void install_once() {
  static const int status = [] {
    // Each of our handlers has its own stack, because a library may temporarily use the stack
    // register for something else (guards.hpp in lesson 5).
    static std::array<char, 1 << 16> stack;
    const stack_t alternate{.ss_sp = stack.data(), .ss_flags = 0, .ss_size = stack.size()};
    ::sigaltstack(&alternate, nullptr);
    struct sigaction action {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    return ::sigaction(SIGBUS, &action, nullptr);
  }();
  static_cast<void>(status);  // cannot fail with these arguments
}

}  // namespace

void watch_mapping(const void* begin, std::size_t size, const std::string& path) {
  install_once();
  const std::lock_guard lock(table_mutex);
  const auto place =
      std::ranges::find_if(table, [](const Watched& file) { return file.begin == 0; });
  if (place == table.end()) return;
  place->size = size;
  place->path.fill('\0');
  std::copy_n(path.data(), std::min(path.size(), place->path.size() - 1), place->path.data());
  place->begin = reinterpret_cast<std::uintptr_t>(begin);
}

void forget_mapping(const void* begin) {
  const std::lock_guard lock(table_mutex);
  const auto place = std::ranges::find_if(table, [&](const Watched& file) {
    return file.begin == reinterpret_cast<std::uintptr_t>(begin);
  });
  if (place != table.end()) place->begin = 0;
}

}  // namespace dist
