#include "tools/exercises/exercise.hpp"

#include "common/check.hpp"
#include "common/command_line.hpp"
#include "common/console.hpp"
#include "common/mpi_environment.hpp"
#include "common/watch.hpp"
#include "tools/exercises/confined.hpp"
#include "tools/exercises/not_started.hpp"

#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <unistd.h>

namespace dist::exercise {

double Trial::sum(std::size_t index) const {
  double sum = 0;
  for (int rank = 0; rank < size(); ++rank) sum += value(rank, index);
  return sum;
}

void Trial::wrong(const std::string& what, Seen seen) {
  if (!mistake_.empty() || what.empty()) return;  // an empty `what` means no mistake
  mistake_ = what;
  seen_ = seen;
}

const std::string& Check::hint_for(Seen seen) const {
  const auto found = hints.find(seen);
  return found == hints.end() ? hint : found->second;
}

std::vector<Check> with_hang_hint(std::vector<Check> checks, const std::string& hint) {
  for (Check& check : checks) check.hints.emplace(Seen::hang, hint);
  return checks;
}

namespace {

constexpr int kWrong = 1;
constexpr int kNotStarted = 3;

class Verdict {
 public:
  Verdict(std::string file, const Communicator& world)
      : file_(std::move(file)), world_(world) {}

  // Replaces the file's content atomically, because several ranks may write a verdict at once.
  void write(const std::string& text) const {
    if (file_.empty()) {
      std::fputs(text.c_str(), stdout);
      return;
    }
    const std::string part = fmt::format("{}.{}", file_, ::getpid());
    std::ofstream(part) << text;
    std::filesystem::rename(part, file_);
  }

  std::string wrong(const Check& check, const std::string& what,
                    const std::string& hint) const {
    return fmt::format("wrong: on {} rank{}, this is not so: {} [{}]\n  {}\nhint: {}.\n",
                       world_.size(), world_.size() == 1 ? "" : "s", check.must, check.name,
                       what, hint);
  }

  // Called by a single rank, while the others may be waiting for a message that never comes.
  [[noreturn]] void end_job(const std::string& text, int status) const {
    write(text);
    std::fflush(nullptr);
    MPI_Abort(MPI_COMM_WORLD, status);
    std::abort();
  }

 private:
  std::string file_;
  const Communicator& world_;
};

// Describes a message that a check left behind; empty if there is none.
std::string left_over(const Communicator& comm) {
  comm.barrier();
  for (int attempt = 0; attempt < 3; ++attempt) {
    int found = 0;
    MPI_Status status;
    MPI_CHECK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm.get(), &found, &status));
    if (found == 0) continue;
    int bytes = 0;
    MPI_CHECK(MPI_Get_count(&status, MPI_BYTE, &bytes));
    return fmt::format(
        "a message of {} bytes from rank {} (tag {}) was sent but never received", bytes,
        status.MPI_SOURCE, status.MPI_TAG);
  }
  return "";
}

// Called on all ranks. Returns true, on all ranks, if the check passed on all ranks. Adds
// what it counted to `counts`.
bool passes(const Check& check, const Communicator& world, const Verdict& verdict,
            std::map<std::string, std::string>& counts) {
  const bool root = world.rank() == 0;
  if (root) {
    verdict.write(verdict.wrong(check, "it did not finish", check.hint_for(Seen::hang)));
  }
  const Communicator comm = world.duplicate();
  Trial trial(comm);
  try {
    const Confined confined("this solution", [&](const std::string& what) {
      verdict.end_job(verdict.wrong(check, fmt::format("rank {} {}", world.rank(), what),
                                    "a solution returns to its caller; it neither ends the "
                                    "program nor starts another one"),
                      kWrong);
    });
    check.run(trial);
    trial.wrong(left_over(comm));
  } catch (const NotStarted&) {
    verdict.end_job("not started\n", kNotStarted);
  } catch (const std::exception& error) {
    const bool ours = dynamic_cast<const Error*>(&error) != nullptr;
    verdict.end_job(
        verdict.wrong(check, fmt::format("rank {} threw: {}", world.rank(), error.what()),
                      (ours ? "" : "unless you threw this yourself, ") + check.hint),
        kWrong);
  }
  const std::vector<std::string> mistakes = gather_text(world, trial.mistake());
  const std::vector<Seen> seen = world.all_gather(trial.seen());
  if (root) {
    const auto first = std::ranges::find_if(mistakes, [](const auto& m) { return !m.empty(); });
    if (first != mistakes.end()) {
      const auto rank = first - mistakes.begin();
      verdict.write(verdict.wrong(check, fmt::format("rank {}: {}", rank, *first),
                                  check.hint_for(seen[static_cast<std::size_t>(rank)])));
    }
  }
  for (const auto& [what, numbers] : trial.counts()) counts[what] = numbers;
  return world.all_agree(trial.mistake().empty());
}

// Prints each exercise's checks, one per line, as "EXERCISE/CHECK: what a right solution does".
void list_checks(const std::vector<Solution>& solutions) {
  std::string listed;
  for (const Solution& solution : solutions) {
    if (solution.exercise == std::exchange(listed, solution.exercise)) continue;
    for (const Check& check : solution.checks) {
      fmt::print("{}/{}: {}\n", solution.exercise, check.name, check.must);
    }
  }
}

}  // namespace

int run(int argc, char** argv, const std::vector<Solution>& solutions) {
  if (argc == 2 && std::string_view(argv[1]) == "--list") {  // needs no ranks
    list_checks(solutions);
    return 0;
  }
  MpiEnvironment mpi(argc, argv);
  const Communicator world = Communicator::world();
  std::string names = solutions.front().exercise + "/" + solutions.front().name;
  std::string file;
  std::vector<const Solution*> wanted;
  CommandLine command_line("exercise", "Judges solutions to exercises.");
  command_line.text("--solution", names, "solutions to judge, as EXERCISE/NAME[,...]");
  command_line.text("--verdict", file, "file for the verdict (default: standard output)");
  command_line.check([&] {
    std::istringstream list(names);
    for (std::string name; std::getline(list, name, ',');) {
      const auto found = std::ranges::find(solutions, name, &Solution::full_name);
      if (found == solutions.end()) throw Error("--solution: there is no " + name);
      wanted.push_back(&*found);
    }
    if (watch_table() != nullptr) return;
    throw Error("the checks use the watch to count messages: configure with -DDIST_WATCH=ON");
  });
  if (const auto exit = parse(command_line, world, argc, argv)) return *exit;

  limit_memory(std::size_t{1} << 29);
  const Verdict verdict(file, world);
  std::map<std::string, std::string> counts;
  for (const Solution* const solution : wanted) {
    for (const Check& check : solution->checks) {
      if (!passes(check, world, verdict, counts)) return kWrong;
    }
  }
  std::string costs;
  for (const auto& [what, numbers] : counts) costs += fmt::format(", {} {}", what, numbers);
  if (!costs.empty()) {
    costs = fmt::format("on {} ranks, yours / right: {}\n", world.size(), costs.substr(2));
  }
  if (world.rank() == 0) verdict.write("done\n" + costs);
  return 0;
}

}  // namespace dist::exercise
