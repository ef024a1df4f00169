// main() of every test program: runs Catch2 on all ranks as one test.
//
// A failure on any rank is printed with its rank and fails the whole test. No test can hang: an
// alarm on each rank ends the job when a test case takes too long, and names that test case.
#include "01_send_recv/gpu/nccl_communicator.hpp"
#include "common/build_config.hpp"
#include "common/check.hpp"
#include "common/console.hpp"
#include "common/device.hpp"
#include "common/mpi_environment.hpp"
#include "tests/support/catch_session.hpp"
#include "tests/support/mpi_test.hpp"

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <string>
#include <unistd.h>

namespace {

std::optional<dist::Communicator> the_world;

// Captures what this rank prints while its tests run, so that all output can be printed in rank
// order afterwards.
class CapturedOutput {
 public:
  CapturedOutput() : file_(std::tmpfile()), terminal_(::dup(STDOUT_FILENO)) {
    ::dup2(::fileno(file_), STDOUT_FILENO);
  }
  // Restores standard output and returns what was printed.
  std::string finish() {
    std::fflush(stdout);
    ::dup2(terminal_, STDOUT_FILENO);
    std::string text;
    std::rewind(file_);
    for (int c = std::fgetc(file_); c != EOF; c = std::fgetc(file_)) {
      text += static_cast<char>(c);
    }
    return text;
  }

 private:
  std::FILE* file_;
  int terminal_;
};

std::string hang_report;

extern "C" void report_hang(int) {
  static_cast<void>(!::write(STDERR_FILENO, hang_report.data(), hang_report.size()));
  ::_exit(86);  // mpirun ends the other ranks
}

// Ends the job when a test case runs longer than TEST_CASE_SECONDS: by default, a hundred times
// as long as any takes, because a busy machine is slow. An empty name ends the last one.
void begin_test_case(int rank, const std::string& name) {
  const char* const limit = std::getenv("TEST_CASE_SECONDS");
  const int seconds = limit != nullptr ? std::atoi(limit) : 600;
  ::alarm(0);
  hang_report = "[rank " + std::to_string(rank) + "] hang: test case \"" + name +
                "\" has run for " + std::to_string(seconds) + " s\n";
  std::signal(SIGALRM, report_hang);
  if (!name.empty()) ::alarm(static_cast<unsigned>(seconds));
}

// Only the first lines: a loop over a tensor that is wrong everywhere can fail a million times.
void print_with_rank(int rank, const std::string& text) {
  constexpr int kMost = 200;
  std::istringstream lines(text);
  int count = 0;
  for (std::string line; std::getline(lines, line);) {
    if (++count <= kMost) std::fprintf(stderr, "[rank %d] %s\n", rank, line.c_str());
  }
  if (count > kMost) std::fprintf(stderr, "[rank %d] (%d more lines)\n", rank, count - kMost);
}

// Says why tests with these tags cannot run here, or "" if they can. All ranks get the same
// answer.
std::string why_skipped(const std::string& tags) {
  try {
    if (tags.find("[gpu]") == std::string::npos) return "";
    const dist::Device gpu = dist::choose_device(*the_world, "cuda").device;
    return tags.find("[nccl]") == std::string::npos ? "" : dist::test::why_no_nccl(gpu);
  } catch (const dist::Error& error) {
    return error.what();
  }
}

}  // namespace

bool dist::test::is_emulated() {
  return DIST_CUDA_EMULATED != 0;
}

std::string dist::test::why_no_nccl(Device gpu) {
  const NcclSupport nccl = can_use_nccl(*the_world, gpu);
  return nccl.possible ? "" : nccl.reason;
}

const dist::Communicator& dist::test::world() {
  return *the_world;
}

int main(int argc, char** argv) {
  std::string no_report = "--timeout=0";  // the alarm names the test case
  std::array<char*, 3> for_mpi{argv[0], no_report.data(), nullptr};
  char** arguments = for_mpi.data();
  int argument_count = 2;
  const dist::MpiEnvironment mpi(argument_count, arguments);
  the_world = dist::Communicator::world();
  const int rank = the_world->rank();
  if (const std::string reason = why_skipped(argc > 1 ? argv[1] : ""); !reason.empty()) {
    if (rank == 0) std::printf("skipped: %s\n", reason.c_str());
    the_world.reset();
    return 0;
  }
  CapturedOutput output;
  const int failures = dist::test::run_catch(
      argc, argv, [&](const std::string& name) { begin_test_case(rank, name); });
  const std::string mine = output.finish();

  // Rank 0's output is enough; another rank's output matters only if that rank failed.
  const std::vector<std::string> texts =
      dist::gather_text(*the_world, failures != 0 || rank == 0 ? mine : "");
  for (int r = 0; r < static_cast<int>(texts.size()); ++r) {
    const std::string& text = texts[static_cast<std::size_t>(r)];
    if (r == 0 && failures == 0) {
      std::fputs(text.c_str(), stdout);
    } else {
      print_with_rank(r, text);
    }
  }
  const bool passed = dist::test::all_ranks(failures == 0);
  the_world.reset();
  return passed ? 0 : 1;
}
