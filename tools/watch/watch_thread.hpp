// The watch: a thread on each rank that checks whether any rank of its host makes progress.
#pragma once

#include "tools/watch/host_boards.hpp"

#include <condition_variable>
#include <ctime>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace dist::watch {

constexpr int kHangStatus = 86;

// The thread does not call MPI: the program's thread level may forbid that, and MPI itself may
// hang. When no rank of the host has moved for `timeout_s`, one rank reports, saves the trace
// and exits with status 86. The launcher then ends the others.
//
// With several hosts, each host reports on its own ranks, because hosts share no memory and the
// network may be down. If the launcher then cannot end, it is killed (launcher.hpp).
//
// Time is counted in ticks of this thread, each at most a tenth of the time-out. So when a
// suspended machine wakes up, or all processes continue after a stop, the pause does not count
// as a hang. Neither do the first 30 s of waiting for a disk.
class WatchThread {
 public:
  // `boards` must outlive the watch. `other_hosts`: the job also has ranks on other hosts.
  // `keep_trace` writes the trace of this host and returns the file's name, or "".
  WatchThread(HostBoards& boards, double timeout_s, bool other_hosts,
              std::function<std::string()> keep_trace);
  ~WatchThread();
  WatchThread(const WatchThread&) = delete;
  WatchThread& operator=(const WatchThread&) = delete;

 private:
  // What this watch last saw of a rank, and for how long that has not changed.
  struct Seen {
    std::uint64_t moves = 0;
    double still_s = 0;
    double disk_s = 0;  // waiting for a disk; not part of still_s
    std::uint64_t heartbeat = 0;
    double silent_s = 0;
  };

  void run();
  void look_at_main_thread();
  void look(double seconds);
  bool all_are_working() const;
  bool my_turn() const;
  [[noreturn]] void report(double limit_s);

  HostBoards& boards_;
  double timeout_s_;
  bool other_hosts_;
  std::function<std::string()> keep_trace_;
  double tick_s_;
  std::vector<Seen> seen_;
  clockid_t main_clock_{};  // processor time of the thread that makes the watch
  std::uint64_t main_ns_ = 0;
  std::uint64_t main_moves_ = 0;
  std::uint64_t main_computes_ns_ = 0;  // since this rank's last move
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace dist::watch
