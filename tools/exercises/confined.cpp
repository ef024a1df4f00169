// Look at: fork and _exit, which the program gets in place of the functions of the libraries.
// The watch tells of MPI_Finalize and MPI_Abort.
#include "tools/exercises/confined.hpp"

#include "common/watch.hpp"

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace dist {

static thread_local const Confined* current = nullptr;

static void escaped(const char* what) {
  if (const Confined* const confined = std::exchange(current, nullptr)) confined->escape(what);
}

// Only uses calls that a signal handler may make.
static void print_name(const char* what) {
  const Confined* const confined = std::exchange(current, nullptr);
  if (confined == nullptr) return;
  for (const char* const text : {"WRONG: ", confined->name(), " ", what, "\n"}) {
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text, std::strlen(text));
  }
}

static void crashed(int signal) {
  print_name("crashed");
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// Whether `address` is in this program rather than in a library.
static bool in_program(void* address) {
  Dl_info there{};
  Dl_info here{};
  return ::dladdr(address, &there) != 0 &&
         ::dladdr(reinterpret_cast<void*>(&in_program), &here) != 0 &&
         there.dli_fbase == here.dli_fbase;
}

Confined::Confined(const char* name, std::function<void(const std::string&)> escape)
    : name_(name), escape_(std::move(escape)), outer_(current) {
  [[maybe_unused]] static const int prepared =
      std::atexit([] { escaped("called exit()"); }) +
      std::at_quick_exit([] { escaped("called quick_exit()"); });
  if (const WatchTable* const watch = watch_table()) {
    watch->call_before_end(escaped);
    watch->limit_computing(true);
  }
  current = this;
}

Confined::~Confined() {
  current = outer_;
  const WatchTable* const watch = watch_table();
  if (watch != nullptr && outer_ == nullptr) watch->limit_computing(false);
}

void name_crashes() {
  static char stack[64 * 1024];  // after a stack overflow, the handler needs its own
  const stack_t other{.ss_sp = stack, .ss_flags = 0, .ss_size = sizeof stack};
  ::sigaltstack(&other, nullptr);
  struct sigaction action {};
  action.sa_handler = crashed;
  action.sa_flags = SA_ONSTACK;
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
    ::sigaction(signal, &action, nullptr);
  }
}

void limit_memory(std::size_t bytes) {
  std::size_t pages[6]{};  // the sixth number in statm counts what this limit counts
  std::ifstream statm("/proc/self/statm");
  for (std::size_t& number : pages) statm >> number;
  rlimit limit{};
  if (!statm || ::getrlimit(RLIMIT_DATA, &limit) != 0) return;
  const rlim_t most = pages[5] * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + bytes;
  if (most < limit.rlim_cur) limit.rlim_cur = most;
  ::setrlimit(RLIMIT_DATA, &limit);
}

}  // namespace dist

using namespace dist;

extern "C" {

pid_t fork() {
  if (in_program(__builtin_return_address(0))) escaped("called fork()");
  return reinterpret_cast<pid_t (*)()>(::dlsym(RTLD_NEXT, "fork"))();
}

void _exit(int status) {
  if (in_program(__builtin_return_address(0))) {
    escaped("called _exit()");
  } else {
    print_name("ended the program");  // one of its libraries did
  }
  ::syscall(SYS_exit_group, status);
  __builtin_unreachable();
}

}  // extern "C"
