// Fault 1: kill -9 at random moments during a run, and at every system call made to write a
// checkpoint.
#include "05_ddp_training/checkpoint/safetensors.hpp"
#include "common/check.hpp"
#include "tests/faults/faults.hpp"

#include <algorithm>
#include <csignal>
#include <random>
#include <string>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <vector>

using namespace dist::test;

namespace {

void save(const std::string& path, std::size_t numbers, const std::string& step) {
  const dist::Tensor tensor({numbers}, dist::Device{});
  std::ranges::fill(tensor.span(), static_cast<float>(numbers));
  dist::write_safetensors(path, {{"a", tensor}}, {{"step", step}}, dist::Stream({}));
}

// The step in a checkpoint; throws if the file is damaged.
std::size_t step_in(const std::string& path) {
  const dist::SafetensorsFile file = dist::read_safetensors(path);
  if (!file.has_checksum) throw dist::Error(path + ": has no checksum");
  return std::stoul(file.metadata.at("step"));
}

// Starts a process that saves to `path`, and kills it when it enters system call number `last`.
// Returns the numbers of the system calls that the process made, and stores its exit status in
// `status`.
std::vector<long> save_until(const std::string& path, std::size_t last, int& status) {
  const pid_t writer = ::fork();
  if (writer == 0) {
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    ::raise(SIGSTOP);
    save(path, 2000, "2");
    ::_exit(0);
  }
  std::vector<long> calls;
  ::waitpid(writer, &status, 0);
  ::ptrace(PTRACE_SETOPTIONS, writer, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
  for (bool enters = true;; enters = !enters) {
    ::ptrace(PTRACE_SYSCALL, writer, nullptr, nullptr);
    ::waitpid(writer, &status, 0);
    if (!WIFSTOPPED(status)) return calls;
    if (!enters) continue;
    __ptrace_syscall_info info{};
    ::ptrace(PTRACE_GET_SYSCALL_INFO, writer, sizeof info, &info);
    if (calls.size() == last) ::kill(writer, SIGKILL);
    calls.push_back(static_cast<long>(info.entry.nr));
  }
}

std::size_t files_in(const TemporaryFolder& folder) {
  const std::filesystem::directory_iterator all(folder.path());
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

}  // namespace

TEST_CASE("a writer that is killed at any system call leaves a complete file", "[fault01]") {
  const TemporaryFolder folder;
  const std::string path = folder / "x.st";
  int status = 0;
  std::size_t kills = 0;
  for (std::size_t last = 0;; ++last, ++kills) {
    save(path, 1000, "1");
    const std::vector<long> calls = save_until(path, last, status);
    CAPTURE(last);
    if (WIFEXITED(status)) {
      CHECK(step_in(path) == 2);
      // The order of calls that survives a power cut: write, fsync, rename, fsync of the
      // folder.
      std::vector<long> order;
      for (const long call : calls) {
        if (call == SYS_write || call == SYS_pwrite64) order.push_back(SYS_write);
        if (call == SYS_fsync || call == SYS_rename) order.push_back(call);
      }
      while (std::ranges::count(order, SYS_write) > 1) order.erase(order.begin());
      CHECK(order == std::vector<long>{SYS_write, SYS_fsync, SYS_rename, SYS_fsync});
      break;
    }
    REQUIRE(WIFSIGNALED(status));
    const std::size_t step = step_in(path);
    CHECK((step == 1 || step == 2));
    CHECK(files_in(folder) <= 2 + kills);
  }
  CHECK(kills > 15);
  figure(1, std::to_string(kills) +
                " kills, one at each system call of a write: 0 unusable files");
}

TEST_CASE("a run that is killed at random moments loses at most one checkpoint interval",
          "[fault01]") {
  const TemporaryFolder folder;
  const std::string flags = kRun + "--checkpoint-every 3 ";
  const std::string log = folder / "cut.jsonl";
  std::mt19937 random(1);
  const int kills = times(8, 1000);
  int had = 5;
  for (int i = 0; i < kills; ++i) {
    CAPTURE(i);
    const std::string moment = random_moment(random, 60);
    const CommandResult killed =
        interrupted(2, flags + files(folder, "cut") + (i == 0 ? "" : "--resume"), log, had,
                    "sleep " + moment + "; kill -9 ${ranks%% *}");
    REQUIRE(killed.status == 137);
    const auto taken = static_cast<std::size_t>(lines(content_of(log)));
    const std::size_t saved = step_in(folder / "cut.st");
    CHECK(saved + 4 > taken);  // the log may lag by one step, the file by three
    had = static_cast<int>(saved) + 5;
  }
  check_that_it_goes_on(folder, 2, flags);
  CHECK(files_in(folder) == 0);  // no unfinished files are left
  figure(1, std::to_string(kills) +
                " kills at random moments: 0 unusable files, and the same final bits");
}
