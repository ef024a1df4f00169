// How all ranks read their command lines together: they exit together, or none does.
#include "common/atomic_file.hpp"
#include "common/check.hpp"
#include "common/command_line.hpp"
#include "common/watch_flags.hpp"

#include <cstdio>

namespace dist {

// Called on all ranks. Returns the status with which all ranks exit if any rank must exit. The
// lowest rank that wants to exit speaks for all.
static std::optional<int> agree(const Communicator& comm,
                                const std::optional<CommandLine::Exit>& mine) {
  const std::optional<int> speaker = comm.first_to_disagree(!mine);
  if (!speaker) return std::nullopt;
  const std::string text = broadcast_text(comm, mine ? mine->text : "", *speaker);
  int status = mine ? mine->status : 0;
  if (comm.size() > 1) MPI_CHECK(MPI_Bcast(&status, 1, MPI_INT, *speaker, comm.get()));
  if (comm.rank() == 0) {
    std::FILE* const out = status == 0 ? stdout : stderr;
    std::fputs(text.c_str(), out);
    if (std::fflush(out) != 0) status = 1;
  }
  return status;
}

// Called on all ranks. Some may run without the watch, and some with other flags of it. Returns
// whether all ranks or none are to write a trace.
static bool agree_on_duties(const Communicator& comm, const WatchTable* watch) {
  const unsigned mine = watch != nullptr ? watch->duties() : 0;
  unsigned of_all = mine, of_any = mine;
  for (const unsigned other : comm.all_gather(mine)) {
    of_all &= other;
    of_any |= other;
  }
  if (watch != nullptr) watch->agree_on_duties(of_all);
  return ((of_all ^ of_any) & WatchTable::kTraces) == 0;
}

std::optional<int> parse(CommandLine& command_line, const Communicator& comm, int argc,
                         char** argv) {
  const WatchTable* const watch = watch_table();
  WatchFlags watched;  // the watch has read them already
  if (watch != nullptr) {
    command_line.advanced();
    declare_watch_flags(command_line, watched);
    if (comm.rank() == 0) command_line.check([&watched] { claim("--trace", watched.trace); });
  }
  const bool trace_agreed = agree_on_duties(comm, watch);
  std::optional<int> status = agree(comm, command_line.parse(argc, argv));
  if (!status && !trace_agreed) {
    status = agree(comm, CommandLine::Exit{2, "error: --trace: is not given to all ranks\n"});
  }
  while (!status && command_line.has_more_checks()) {
    status = agree(comm, command_line.run_more_checks());
  }
  if (watch != nullptr) watch->flags_are_read(!status);
  return status;
}

void CommonOptions::declare(CommandLine& flags, bool rows) {
  CommandLine rounding = flags.only(Effect::rounding), neutral = flags.only(Effect::nothing);
  rounding.choice("--device", device, {"auto", "cpu", "cuda"},
                  "where tensors live; auto: on a GPU if one is available");
  flags.number("--seed", seed, 0, INT64_MAX, "seed of all random numbers");
  if (rows) neutral.flag("--json", json, "print one JSON object per line on standard output");
  rounding.number("--threads", threads, 1, 1024, "compute threads per rank");
}

}  // namespace dist
