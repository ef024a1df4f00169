#include "tools/watch/watch.hpp"

#include "tools/watch/diagnostics.hpp"
#include "tools/watch/hang_report.hpp"
#include "tools/watch/launcher.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <unistd.h>

namespace dist::diagnostics {
namespace {

// A watch that has not ticked for so long is that of a stopped process.
constexpr double kSilent_s = 1.0;

// After its report a host stays for so long, in a job that has others. They have stood still
// for as long as it has, give or take a tick, and a launcher that sees one rank leave ends the
// rest before they have spoken.
constexpr std::chrono::milliseconds kOthersSpeak{500};
// And the launcher gets so long to end: timeout + 5 s is what a link that dropped may take.
constexpr std::chrono::milliseconds kLauncherEnds{3500};

// The process's state as Linux writes it: T stopped, t held by a debugger; 0 if it cannot be
// read.
char process_state(int pid) {
  std::FILE* const file = std::fopen(fmt::format("/proc/{}/stat", pid).c_str(), "r");
  if (file == nullptr) return 0;
  std::string text(512, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  // "pid (name) S ...", and the name may hold anything, even a parenthesis.
  const std::size_t end = text.rfind(')');
  return end == std::string::npos || end + 2 >= text.size() ? '\0' : text[end + 2];
}

// Past stdio, whose lock another thread may hold: the report must come out, in one piece.
void write_to_standard_error(const std::string& text) {
  for (std::size_t begin = 0; begin < text.size();) {
    const ssize_t written = ::write(STDERR_FILENO, text.data() + begin, text.size() - begin);
    if (written <= 0) return;
    begin += static_cast<std::size_t>(written);
  }
}

}  // namespace

Watch::Watch(std::vector<RankBoard*> boards, RankBoard* mine, double timeout_s,
             bool other_hosts)
    : boards_(std::move(boards)),
      mine_(mine),
      timeout_s_(timeout_s),
      other_hosts_(other_hosts),
      tick_s_(std::clamp(timeout_s / 20, 0.005, 0.1)),
      seen_(boards_.size()) {
  // Signals are for the program's own threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Watch::~Watch() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_one();
  thread_.join();
}

void Watch::run() {
  using Clock = std::chrono::steady_clock;
  std::unique_lock lock(mutex_);
  auto last = Clock::now();
  while (!stopped_.wait_for(lock, std::chrono::duration<double>(tick_s_),
                            [this] { return stop_; })) {
    const auto now = Clock::now();
    const double passed = std::chrono::duration<double>(now - last).count();
    last = now;
    mine_->heartbeat.increment();
    look(std::min(passed, 2 * tick_s_));
    const bool still = std::all_of(seen_.begin(), seen_.end(), [this](const Seen& rank) {
      return rank.still_s >= timeout_s_;
    });
    if (still && my_turn()) report();
  }
}

void Watch::look(double seconds) {
  for (std::size_t i = 0; i < boards_.size(); ++i) {
    Seen& rank = seen_[i];
    const std::uint64_t moves = boards_[i]->moves();
    rank.still_s = moves == rank.moves ? rank.still_s + seconds : 0;
    rank.moves = moves;
    const std::uint64_t heartbeat = boards_[i]->heartbeat;
    rank.silent_s = heartbeat == rank.heartbeat ? rank.silent_s + seconds : 0;
    rank.heartbeat = heartbeat;
  }
}

bool Watch::my_turn() const {
  // The lowest rank whose watch still ticks.
  for (std::size_t i = 0; boards_[i] != mine_; ++i) {
    if (seen_[i].silent_s < kSilent_s) return false;
  }
  // Somebody looks at one of the ranks with a debugger, and it may take as long as it takes.
  for (const RankBoard* board : boards_) {
    if (process_state(board->pid) == 't') return false;
  }
  // Two ranks may think so at once, after one was stopped and went on.
  return boards_[0]->reporter.claim(0, mine_->rank + 1);
}

void Watch::report() {
  std::vector<RankView> ranks;
  for (std::size_t i = 0; i < boards_.size(); ++i) {
    RankView view = view_of(*boards_[i]);
    view.still_s = seen_[i].still_s;
    view.stopped = process_state(boards_[i]->pid) == 'T';
    ranks.push_back(std::move(view));
  }
  std::string text;
  try {
    text = describe_hang(ranks);
    text += fmt::format("hang: nothing has moved on this host for {:g} s (--timeout)\n",
                        timeout_s_);
    if (other_hosts_) text += "hang: ranks on other hosts are told of by these hosts\n";
    write_to_standard_error(text);
    const std::string trace = keep_trace();
    if (!trace.empty()) write_to_standard_error("hang: the trace is in " + trace + "\n");
  } catch (const std::exception& error) {
    write_to_standard_error(fmt::format("hang: {}\n", error.what()));
  }
  if (other_hosts_) {
    std::this_thread::sleep_for(kOthersSpeak);
    end_launcher_after(kLauncherEnds);
  }
  // Not MPI_Abort, which may wait for what hangs. The launcher sees a process leave without
  // MPI_Finalize and ends the others, also those that are stopped.
  ::_exit(kHangStatus);
}

}  // namespace dist::diagnostics
