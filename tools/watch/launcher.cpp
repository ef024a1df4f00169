#include "tools/watch/launcher.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <initializer_list>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/syscall.h>
#include <unistd.h>

namespace dist::watch {
namespace {

// How long a daemon may take to end after SIGTERM.
constexpr int kAnswer_ms = 300;

// The name of the process's program, or "" if it cannot be read. The string is short enough to
// need no heap, because there may be no memory left.
std::string name_of_process(pid_t pid) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "/proc/%d/comm", pid);
  const int file = ::open(text.data(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return "";
  const ssize_t length = ::read(file, text.data(), text.size());
  ::close(file);
  return length > 1 ? std::string(text.data(), static_cast<std::size_t>(length) - 1) : "";
}

bool is_one_of(std::initializer_list<std::string_view> names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Opens a handle to a process. Unlike a pid, the handle never refers to a different process
// later, and poll() can wait for it.
int open_process(pid_t pid) {
  return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
}

// In the new process, file descriptor 0 is this handle, and no other file is open.
bool has_ended(int milliseconds) {
  pollfd ended{.fd = 0, .events = POLLIN, .revents = 0};
  return ::poll(&ended, 1, milliseconds) > 0;
}
void end_process(int signal) {
  ::syscall(SYS_pidfd_send_signal, 0, signal, nullptr, 0);
}

}  // namespace

void end_launcher_after(std::chrono::milliseconds patience) {
  const pid_t parent = ::getppid();
  const int process = open_process(parent);
  const std::string name = name_of_process(parent);
  const bool daemon = is_one_of({"orted", "prted"}, name);
  const bool launcher = is_one_of({"mpirun", "mpiexec", "orterun", "prterun", "prte"}, name);
  // If the parent ended before the handle was opened, a different process may have its pid, but
  // getppid then returns a different number.
  if (process < 0 || (!daemon && !launcher) || ::getppid() != parent) return;
  if (::fork() != 0) return;
  // From here on, use only calls that a signal handler may make. Close all files of the old
  // process: the launcher reads its output to the end, and peers must see its connections
  // close.
  ::setsid();
  ::dup2(process, 0);
  ::syscall(SYS_close_range, 1U, ~0U, 0);
  if (has_ended(static_cast<int>(patience.count()))) ::_exit(0);
  // On SIGTERM, a daemon also ends its ranks. mpirun is already ending and would ignore SIGTERM
  // (version 4.1.4 would crash with a stack trace that looks like the program's).
  if (daemon) end_process(SIGTERM);
  if (!daemon || !has_ended(kAnswer_ms)) end_process(SIGKILL);
  ::_exit(0);
}

}  // namespace dist::watch
