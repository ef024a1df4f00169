// The watch: a thread on each rank that looks whether anything moves on this host.
#pragma once

#include "tools/watch/host_boards.hpp"

#include <condition_variable>
#include <ctime>
#include <mutex>
#include <thread>
#include <vector>

namespace dist::watch {

constexpr int kHangStatus = 86;

// Calls no MPI: the program may have asked for a thread level that forbids it, and an MPI that
// hangs is what this is about. When no rank of the host has moved for `timeout_s`, one rank
// reports, keeps the trace and leaves with status 86; the launcher then ends the others.
//
// With several hosts each reports for its own ranks: they share no memory, and the network may
// be what is gone. A launcher that cannot end because of that is ended too (launcher.hpp).
//
// Time is counted in this thread's own ticks, none longer than a tenth of the time-out: a
// machine that was suspended, or a process that was stopped together with all others, has not
// stood still for an hour when it wakes up.
class WatchThread {
 public:
  // `boards` must outlive the watch. `other_hosts`: the job has ranks that are on none of them.
  WatchThread(HostBoards& boards, double timeout_s, bool other_hosts);
  ~WatchThread();
  WatchThread(const WatchThread&) = delete;
  WatchThread& operator=(const WatchThread&) = delete;

 private:
  // What this watch has seen of a rank, and for how long it has not changed.
  struct Seen {
    std::uint64_t moves = 0;
    double still_s = 0;
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
  double tick_s_;
  std::vector<Seen> seen_;
  clockid_t main_clock_{};  // processor time of the thread that makes the watch
  std::uint64_t main_ns_ = 0;
  std::uint64_t main_moves_ = 0;
  std::uint64_t main_computes_ns_ = 0;  // since this rank has moved
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace dist::watch
