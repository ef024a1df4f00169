#include "tools/exercises/exercise.hpp"

#include "common/check.hpp"
#include "common/command_line.hpp"
#include "common/console.hpp"
#include "common/join.hpp"
#include "common/mpi_environment.hpp"
#include "common/watch.hpp"
#include "tools/exercises/confined.hpp"
#include "tools/exercises/not_started.hpp"
#include "tools/exercises/panel.hpp"

#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <sstream>
#include <string_view>

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
  wrong_call_ = calls_;
  if (note_mistake_) note_mistake_(what, seen);
}

namespace {

constexpr int kWrong = 1;
constexpr int kNotStarted = 3;

// One check of a solution, and what is said if it does not pass.
struct Judgement {
  const Panel& panel;
  const Solution& solution;
  const Check& check;

  std::string wrong(const std::string& what, const std::string& hint) const {
    return fmt::format("wrong{}: {} [{}]\n  {}\nhint: {}{}\n{}", panel.where(solution),
                       check.must, check.name, what, hint, hint.ends_with('?') ? "" : ".",
                       solution.drawing ? "can be drawn\n" : "");
  }
  std::string wrong_on(std::size_t world_rank, const std::string& what,
                       const std::string& hint) const {
    const std::string who = solution.pure ? "" : panel.name_of(world_rank) + ": ";
    return wrong(who + what, hint);
  }
  std::string subject() const { return solution.pure ? "it" : panel.my_name(); }
  // What stays if the check does not finish, with all hints among which judge.py can choose.
  std::string unfinished() const {
    std::string text = wrong("it did not finish", check.hint_for(Seen::hang));
    for (const auto& [seen, kind] :
         {std::pair(Seen::sends, "sends"), std::pair(Seen::receives, "receives"),
          std::pair(Seen::collectives, "collectives"), std::pair(Seen::crash, "crash")}) {
      const auto hint = check.hints.find(seen);
      if (hint != check.hints.end())
        text += fmt::format("hint if {}: {}.\n", kind, hint->second);
    }
    return text;
  }
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

// Runs the check. Returns how many sends and receives it has left in progress on this rank.
std::size_t try_out(const Judgement& judgement, Trial& trial) {
  const Panel& panel = judgement.panel;
  const std::size_t before = watch_table()->open_requests();
  try {
    const Confined confined("this solution", [&](const std::string& what) {
      panel.end_job(judgement.wrong(fmt::format("{} {}", panel.my_name(), what),
                                    "a solution returns to its caller; it neither ends the "
                                    "program nor starts another one"),
                    kWrong);
    });
    judgement.check.run(trial);
  } catch (const NotStarted&) {
    panel.end_job("not started\n", kNotStarted);
  } catch (const std::bad_alloc&) {
    panel.end_job(judgement.wrong(judgement.subject() + " ran out of memory",
                                  "it allocates without end, or its size is wrong"),
                  kWrong);
  } catch (const std::exception& error) {
    const std::string what = printable(error.what());  // one line, whatever the solution throws
    std::string hint = judgement.check.hint;
    const bool is_ours = dynamic_cast<const Error*>(&error) != nullptr;  // or the reader's own
    if (!is_ours) hint = "unless you threw this yourself, " + hint;
    if (!trial.mistake().empty()) {  // what it threw later may be a consequence
      panel.end_job(judgement.wrong_on(static_cast<std::size_t>(panel.world.rank()),
                                       trial.mistake(), judgement.check.hint_for(trial.seen())),
                    kWrong);
    }
    if (what.starts_with("MPI_ERR_TRUNCATE")) hint = judgement.check.hint_for(Seen::truncated);
    if (what.starts_with("received ")) {  // send_recv.hpp
      hint = judgement.check.hint_for(Seen::short_message);
    }
    const std::string call =
        trial.last_call().empty() ? "" : "\n  it was called with " + trial.last_call();
    panel.end_job(
        judgement.wrong(fmt::format("{} threw: {}{}", judgement.subject(), what, call), hint),
        kWrong);
  }
  return watch_table()->open_requests() - before;
}

// Called on all ranks. Returns true, on all ranks, if the check passed on all ranks. Adds
// what it counted to `counts`.
bool passes(const Judgement& judgement, std::map<std::string, std::string>& counts) {
  const auto& [panel, solution, check] = judgement;
  const Communicator& world = panel.world;
  if (world.rank() == 0) panel.write(judgement.unfinished());
  const Communicator comm = panel.group.comm.duplicate();
  std::size_t calls = 0;
  panel.note_call(0, "");
  panel.note_mistake("");
  const auto world_rank = static_cast<std::size_t>(world.rank());
  Trial trial(
      comm, [&](const std::string& arguments) { panel.note_call(++calls, arguments); },
      [&](const std::string& what, Seen what_seen) {
        // Other mistakes say less than where the ranks then wait.
        if (what_seen == Seen::threw)
          panel.note_mistake(judgement.wrong_on(world_rank, what, check.hint_for(what_seen)));
      });
  const std::size_t open = try_out(judgement, trial);
  const CallScope over(kOver);
  trial.wrong(left_over(comm));
  std::string counted;  // by any of the ranks, as lines of two
  for (const auto& [what, numbers] : trial.counts()) counted += what + '\n' + numbers + '\n';
  const std::vector<std::string> counted_by = gather_text(world, counted);
  const std::vector<std::size_t> opens = world.all_gather(open);
  const std::vector<std::string> mistakes = gather_text(world, trial.mistake());
  const std::vector<Seen> seen = world.all_gather(trial.seen());
  const std::vector<std::size_t> wrong_calls = world.all_gather(trial.wrong_call());
  const bool is_right = world.all_agree(open == 0 && trial.mistake().empty());
  if (world.rank() != 0) return is_right;

  std::vector<std::size_t> last_first = panel.order();
  std::ranges::reverse(last_first);
  for (const std::size_t rank : last_first) {
    std::istringstream lines(counted_by[rank]);
    for (std::string what, numbers;
         std::getline(lines, what) && std::getline(lines, numbers);) {
      counts[what] = numbers;
    }
  }
  if (is_right) return true;
  // An operation in progress may be why the numbers are wrong, so it comes first.
  const auto waits = std::ranges::find(solution.checks, "waits", &Check::name);
  for (const std::size_t rank : panel.order()) {
    if (opens[rank] == 0) continue;
    const Judgement first{panel, solution, waits == solution.checks.end() ? check : *waits};
    const std::string what =
        fmt::format("{} send{} or receive{} started but not waited for", opens[rank],
                    opens[rank] == 1 ? "" : "s", opens[rank] == 1 ? " was" : "s were");
    panel.write(first.wrong_on(rank, what, first.check.hint_for(Seen::unfinished)));
    return false;
  }
  std::vector<std::size_t> wrong = panel.order();
  std::erase_if(wrong, [&](std::size_t rank) { return mistakes[rank].empty(); });
  if (wrong.empty()) return false;
  // Ranks make all calls of a check together, so the mistake of the first call comes first.
  const std::size_t rank = *std::ranges::min_element(
      wrong, {}, [&](std::size_t number) { return wrong_calls[number]; });
  panel.write(judgement.wrong_on(rank, mistakes[rank], check.hint_for(seen[rank])));
  return false;
}

// Whether a solution that has passed all checks also works on another communicator, in the same
// process.
bool passes_again(const Communicator& world, const Solution& solution,
                  const std::string& file) {
  const auto values = std::ranges::find(solution.checks, "values", &Check::name);
  Check check = values == solution.checks.end() ? solution.checks.front() : *values;
  check.name = "again";
  check.must = "it must also work when it is called again, with another communicator";
  check.hint =
      "what a call does may depend on its own arguments alone, and on nothing that an earlier "
      "call has left in a static or global variable";
  check.hints = {{Seen::hang, check.hint}};
  std::map<std::string, std::string> uncounted;
  return passes({Panel(world, Group::without_rank_0(world), file), solution, check}, uncounted);
}

// "on 4 ranks, yours / right: rounds 2 / 2", or with another beginning that a check has chosen.
std::string text_of(std::map<std::string, std::string> counts, int ranks) {
  if (counts.empty()) return "";
  std::string begins = fmt::format("on {} ranks, yours / right", ranks);
  if (const auto other = counts.extract(kCountsBegin)) begins = other.mapped();
  std::vector<std::string> parts;
  for (const auto& [what, numbers] : counts) parts.push_back(what + " " + numbers);
  return begins + ": " + join(parts, ", ") + "\n";
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
  std::string drawn;
  int groups = 1;
  int smallest = 2;
  std::vector<const Solution*> wanted;
  CommandLine command_line("exercise", "Judges solutions to exercises.");
  command_line.text("--solution", names, "solutions to judge, as EXERCISE/NAME[,...]");
  command_line.text("--verdict", file, "file for the verdict (default: standard output)");
  command_line.number("--groups", groups, 1, world.size(),
                      "groups of ranks that are judged beside each other");
  command_line.text("--draw", drawn, "judge nothing: file for a small run's messages");
  command_line.number("--smallest", smallest, 2, std::max(2, world.size()),
                      "with --draw: ranks of the first run");
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
  if (std::ranges::any_of(wanted, &Solution::of_all)) groups = 1;
  const Panel panel(world, Group::shuffled(world, groups), file);
  if (!drawn.empty()) {
    const std::optional<Drawing>& drawing = wanted.front()->drawing;
    if (drawing) draw(panel.group.comm, *drawing, smallest, drawn);
    return 0;
  }
  std::map<std::string, std::string> counts;
  for (const Solution* const solution : wanted) {
    for (const Check& check : solution->checks) {
      if (!passes({panel, *solution, check}, counts)) return kWrong;
    }
    if (!solution->pure && groups > 1 && !passes_again(world, *solution, file)) {
      return kWrong;
    }
  }
  if (world.rank() == 0) {
    const bool pure = std::ranges::all_of(wanted, &Solution::pure);
    panel.write("done\n" + text_of(counts, world.size()) + (pure ? "pure\n" : ""));
  }
  return 0;
}

}  // namespace dist::exercise
