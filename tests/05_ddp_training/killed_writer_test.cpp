// Lesson 5: a checkpoint's writer is killed at each of its system calls.
#include "05_ddp_training/checkpoint/safetensors.hpp"
#include "tests/support/mpi_test.hpp"
#include "tools/exercises/files.hpp"

#include <algorithm>
#include <csignal>
#include <string>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <vector>

using namespace dist::test;

static void save_numbers(const std::string& path, std::size_t numbers,
                         const std::string& step) {
  const dist::Tensor tensor({numbers}, dist::Device{});
  std::ranges::fill(tensor.span(), static_cast<float>(numbers));
  dist::write_safetensors(path, {dist::NamedTensor{"a", tensor}}, {{"step", step}},
                          dist::Stream({}));
}

// The step in a checkpoint; throws if the file is damaged.
static std::string step_in(const std::string& path) {
  const dist::SafetensorsFile file = dist::read_safetensors(path);
  CHECK((file.checksum == dist::Checksum::whole));
  return file.metadata.at("step");
}

// Starts a process that saves to `path`, and kills it when it enters system call number `last`.
// Returns the numbers of the system calls that the process made, and stores how it ended in
// `status`.
static std::vector<long> save_until(const std::string& path, std::size_t last, int& status) {
  const pid_t writer = ::fork();
  if (writer == 0) {
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    ::raise(SIGSTOP);
    save_numbers(path, 2000, "2");
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

TEST_CASE("a writer that is killed at any system call leaves a complete file",
          "[one process]") {
  const TemporaryFolder folder;
  const std::string path = folder / "x.st";
  std::vector<long> calls;
  std::size_t kills = 0;
  for (int status = 0;; ++kills) {
    CAPTURE(kills);
    save_numbers(path, 1000, "1");
    calls = save_until(path, kills, status);
    const std::string step = step_in(path);
    if (WIFEXITED(status)) {
      CHECK(step == "2");
      break;
    }
    CHECK(WIFSIGNALED(status));
    CHECK((step == "1" || step == "2"));
  }
  CHECK(kills > 15);
  // The order of calls that survives a power cut: write, fsync, rename, fsync of the folder.
  std::vector<long> order;
  for (const long call : calls) {
    if (call == SYS_write || call == SYS_pwrite64) order.assign({SYS_write});
    if (call == SYS_fsync || call == SYS_rename) order.push_back(call);
  }
  CHECK(order == std::vector<long>{SYS_write, SYS_fsync, SYS_rename, SYS_fsync});
}
