#include "tools/watch/report/watch_thread.hpp"

#include "tools/watch/report/end_launcher.hpp"
#include "tools/watch/report/hang_report.hpp"
#include "tools/watch/trace/trace_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <exception>
#include <fstream>
#include <mutex>
#include <random>
#include <unistd.h>
#include <utility>
#include <vector>

namespace dist::watch {
namespace {

// If a watch has not ticked for this long, its process is assumed to be stopped.
constexpr double kSilent_s = 1.0;

// Starting and ending may take this long, even if --timeout is shorter: the launcher starts the
// ranks one by one, and on a busy machine the first ranks wait for seconds.
constexpr double kStart_s = 30;

// If there are other hosts, the reporting rank waits this long before it exits. The other hosts
// have hung for about as long, but a launcher that sees one rank exit ends all others before
// they can report.
constexpr std::chrono::milliseconds kOthersSpeak{500};
// After that, the launcher gets this long to end. A job that loses its link may take timeout +
// 5 s to end.
constexpr std::chrono::milliseconds kLauncherEnds{3500};
// On a single host the launcher ends on its own, unless it deadlocks (end_launcher.hpp). A busy
// machine needs time to end all ranks.
constexpr std::chrono::milliseconds kLauncherEndsAlone{15000};

// Ranks that have all come may take this many times as long.
constexpr double kSlowMachine = 10;

// A rank whose computing is limited may use this much processor time between two of its moves.
constexpr double kComputes_s = 2;

// A busy disk may keep a rank waiting this long, for example in fsync.
constexpr double kDisk_s = 30;

// The process's state in Linux's notation: D if it waits for a disk, T if stopped, t if held by
// a debugger, 0 if it cannot be read.
char process_state(int pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text, '\0');  // all of it
  // The text is "pid (name) S ...", and the name may contain anything, even a parenthesis.
  const std::size_t end = text.rfind(')');
  return end == std::string::npos || end + 2 >= text.size() ? '\0' : text[end + 2];
}

// Unlike stderr, this has no lock that another thread may hold.
void say(const std::string& text) {
  ::dprintf(STDERR_FILENO, "%s", text.c_str());
}

// What a watch last saw of a rank, and for how long that has not changed.
struct Seen {
  std::uint64_t moves = 0;
  double still_s = 0;
  double disk_s = 0;  // waiting for a disk; not part of still_s
  std::uint64_t heartbeat = 0;
  double silent_s = 0;
};

struct Watch {
  HostBoards& boards;
  double timeout_s;
  clockid_t main_clock;  // processor time of the main thread
  std::vector<Seen> seen{boards.all.size()};
  std::uint64_t main_ns = 0;
  std::uint64_t main_moves = 0;
  std::uint64_t main_computes_ns = 0;  // since this rank's last move

  void run(const std::stop_token& stop) {
    using Clock = std::chrono::steady_clock;
    const double tick_s = std::clamp(timeout_s / 20, 0.005, 0.05);
    // Samples taken at equal intervals may meet every step of a training at the same moment.
    std::minstd_rand engine(static_cast<unsigned>(boards.mine->rank) + 1);
    std::uniform_real_distribution<double> uneven(0.5, 1.5);
    const auto tick = [&] { return std::chrono::duration<double>(tick_s * uneven(engine)); };
    std::mutex mutex;
    std::condition_variable_any stopped;
    std::unique_lock lock(mutex);
    for (auto last = Clock::now();
         !stopped.wait_for(lock, stop, tick(), [&] { return stop.stop_requested(); });) {
      const auto now = Clock::now();
      const double passed =
          std::chrono::duration<double>(now - std::exchange(last, now)).count();
      boards.mine->heartbeat.increment();
      look_at_main_thread();
      look(std::min(passed, timeout_s / 10));
      const double still_s = std::ranges::min(seen, {}, &Seen::still_s).still_s;
      const double limit_s = all_are_working() ? timeout_s : std::max(timeout_s, kStart_s);
      if (still_s >= limit_s) judge(still_s, limit_s);
    }
  }

  // No rank has moved for `still_s`, which is longer than the limit.
  void judge(double still_s, double limit_s) {
    const std::vector<RankView> ranks = views();
    // While mpirun is stopped, nobody reads what the ranks print, so they may have to wait.
    if (process_state(::getppid()) == 'T') return start_again();
    if (all_compute(ranks)) {
      if (i_speak()) {
        say(
            fmt::format("computing: no rank of this host has called MPI for {:g} s, and none "
                        "waits (--timeout)\n",
                        limit_s));
      }
      return start_again();
    }
    if (has_not_computed_enough(ranks)) return;
    const auto world_size = static_cast<std::size_t>(boards.mine->world_size);
    const bool all_are_here = ranks.size() == world_size && all_have_come(ranks);
    if (all_are_here && still_s < kSlowMachine * limit_s) return;
    if (my_turn()) report(ranks, limit_s, all_are_here);
  }

  // Whether a rank whose computing is limited may only have had no processor.
  bool has_not_computed_enough(const std::vector<RankView>& ranks) const {
    return std::ranges::any_of(ranks, [&](const RankView& rank) {
      return rank.board.working && rank.board.computing_is_limited && rank.inside().empty() &&
             process_state(rank.board.pid) == 'R' &&
             1e-9 * static_cast<double>(rank.board.computing_ns) <
                 std::min(timeout_s, kComputes_s);
    });
  }

  void start_again() {
    for (Seen& rank : seen) rank.still_s = 0;
  }

  // The ranks that have started.
  std::vector<RankView> views() const {
    std::vector<RankView> ranks;
    for (std::size_t i = 0; i < seen.size(); ++i) {
      const RankBoard& board = *boards.all[i];
      if (board.pid == 0) continue;
      ranks.push_back({board, process_state(board.pid) == 'T', seen[i].still_s});
    }
    return ranks;
  }

  // Adds up how long this rank computes, by sampling, so that calls do not have to read a
  // clock. Only processor time counts, because on a busy machine a rank that is not running is
  // not slow. The time since the last move counts only when the rank moves again, because a
  // hang is not work.
  void look_at_main_thread() {
    RankBoard& mine = *boards.mine;
    timespec now{};
    ::clock_gettime(main_clock, &now);
    const auto ns = static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
                    static_cast<std::uint64_t>(now.tv_nsec);
    const ThreadRecord& main = mine.threads[0];
    if (!main.inside && !main.polling) main_computes_ns += ns - main_ns;
    main_ns = ns;
    if (mine.moves() != main_moves) {
      main_moves = mine.moves();
      mine.computed_ns = mine.computed_ns + std::exchange(main_computes_ns, 0);
    }
    mine.computing_ns = main_computes_ns;
  }

  void look(double seconds) {
    for (std::size_t i = 0; i < seen.size(); ++i) {
      Seen& rank = seen[i];
      const RankBoard& board = *boards.all[i];
      const std::uint64_t moves = board.moves();
      if (moves != rank.moves) {
        rank.still_s = rank.disk_s = 0;
      } else if (rank.still_s > timeout_s / 2 && rank.disk_s < kDisk_s && board.pid != 0 &&
                 process_state(board.pid) == 'D') {
        rank.disk_s += seconds;
      } else {
        rank.still_s += seconds;
      }
      rank.moves = moves;
      const std::uint64_t heartbeat = board.heartbeat;
      rank.silent_s = heartbeat == rank.heartbeat ? rank.silent_s + seconds : 0;
      rank.heartbeat = heartbeat;
    }
  }

  // MPI_Init returns when all ranks have called it. A rank that has no board by then will never
  // have one, because it runs a different program.
  bool all_are_working() const {
    return std::ranges::all_of(
        boards.all, [](const RankBoard* board) { return board->pid == 0 || board->working; });
  }

  // The lowest rank whose watch still ticks speaks for the host.
  bool i_speak() const {
    for (std::size_t i = 0; boards.all[i] != boards.mine; ++i) {
      if (boards.all[i]->pid != 0 && seen[i].silent_s < kSilent_s) return false;
    }
    return true;
  }

  // Whether to report a hang now.
  bool my_turn() const {
    if (!i_speak()) return false;
    // If a debugger holds one of the ranks, wait however long it takes.
    for (const RankBoard* board : boards.all) {
      if (board->pid != 0 && process_state(board->pid) == 't') return false;
    }
    // Two ranks may get here at the same time after one of them was stopped and continued.
    return boards.host->reporter.claim(0, boards.mine->rank + 1);
  }

  void report(const std::vector<RankView>& ranks, double limit_s, bool all_are_here) {
    std::string text;
    try {
      text = describe_hang(ranks) + describe_slowest(ranks);
      if (const std::size_t absent = seen.size() - ranks.size(); absent > 0) {
        text += fmt::format("hang: {} of the {} {}", absent, seen.size(),
                            all_are_working() ? "ranks of this host started without the watch\n"
                                              : "ranks of this host never reached MPI_Init\n");
      }
      text += fmt::format("hang: nothing has moved on this host for {:g} s{}\n",
                          all_are_here ? kSlowMachine * limit_s : limit_s,
                          all_are_here           ? ", although all ranks are there"
                          : limit_s == timeout_s ? " (--timeout)"
                                                 : ", at the start or end of MPI or NCCL");
      if (boards.other_hosts) text += "hang: the other hosts report about their own ranks\n";
      say(text);
      const std::string trace = write_trace_of_host(boards);
      if (!trace.empty()) say("hang: the trace is in " + trace + "\n");
    } catch (const std::exception& error) {
      say(fmt::format("hang: {}\n", error.what()));
    }
    if (boards.other_hosts) std::this_thread::sleep_for(kOthersSpeak);
    end_launcher_after(boards.other_hosts ? kLauncherEnds : kLauncherEndsAlone);
    // MPI_Abort might hang, too. When the launcher sees a process exit without MPI_Finalize, it
    // ends the others, including those that are stopped.
    boards.remove_name();
    ::_exit(kHangStatus);
  }
};

}  // namespace

std::jthread start_watch(HostBoards& boards, double timeout_s) {
  clockid_t main_clock{};
  pthread_getcpuclockid(pthread_self(), &main_clock);
  // Leave all signals to the program's own threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::jthread thread([&boards, timeout_s, main_clock](const std::stop_token& stop) {
    Watch{boards, timeout_s, main_clock}.run(stop);
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace dist::watch
