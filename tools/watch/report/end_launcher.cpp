#include "tools/watch/report/end_launcher.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <poll.h>
#include <string_view>
#include <sys/syscall.h>
#include <unistd.h>

namespace dist::watch {
// How long a daemon may take to end after SIGTERM.
constexpr int kAnswer_ms = 300;

void end_launcher_after(std::chrono::milliseconds patience) {
  const pid_t parent = ::getppid();
  // Unlike a pid, this handle never refers to a different process later, and poll() can wait
  // for it.
  const auto process = static_cast<int>(::syscall(SYS_pidfd_open, parent, 0));
  char text[32];
  std::snprintf(text, sizeof text, "/proc/%d/comm", parent);
  const int file = ::open(text, O_RDONLY | O_CLOEXEC);
  const ssize_t length = ::read(file, text, sizeof text);
  ::close(file);
  const auto newline = static_cast<std::size_t>(std::max<ssize_t>(length - 1, 0));
  const std::string_view name(text, newline);
  const bool daemon = name == "orted" || name == "prted";
  const bool ours = daemon || name == "mpirun" || name == "mpiexec" || name == "orterun" ||
                    name == "prterun" || name == "prte";
  // If the parent ended before the handle was opened, a different process may have its pid, but
  // getppid then returns a different number.
  if (process < 0 || !ours || ::getppid() != parent) return;
  if (::fork() != 0) return;
  // From here on, use only calls that a signal handler may make. Close all files of the old
  // process but the handle: the launcher reads its output to the end, and peers must see its
  // connections close.
  ::setsid();
  ::dup2(process, 0);
  ::syscall(SYS_close_range, 1U, ~0U, 0);
  const auto has_ended = [](int milliseconds) {
    pollfd handle{.fd = 0, .events = POLLIN, .revents = 0};
    return ::poll(&handle, 1, milliseconds) > 0;
  };
  const auto send = [](int signal) { ::syscall(SYS_pidfd_send_signal, 0, signal, nullptr, 0); };
  if (has_ended(static_cast<int>(patience.count()))) ::_exit(0);
  // On SIGTERM, a daemon also ends its ranks. mpirun is already ending and would ignore SIGTERM
  // (version 4.1.4 would crash with a stack trace that looks like the program's).
  if (daemon) send(SIGTERM);
  if (!daemon || !has_ended(kAnswer_ms)) send(SIGKILL);
  ::_exit(0);
}

}  // namespace dist::watch
