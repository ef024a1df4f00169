// Where solutions are judged in one run of a program: by which ranks, and where the verdict
// goes.
#pragma once

#include "common/check.hpp"
#include "common/communicator.hpp"
#include "common/join.hpp"
#include "tools/exercises/exercise.hpp"

#include <mpi.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

namespace dist::exercise {

// The ranks that call a solution: all of the world's or, of several groups, this rank's. They
// are not numbered as in the world, so that a solution that uses its numbers is found out.
struct Group {
  Communicator comm;
  int number, of;

  // From four ranks on, in an order that no rotation of the world's ranks gives, and no
  // reversal.
  static Group shuffled(const Communicator& world, int groups) {
    constexpr std::array kKeys{4, 1, 5, 0, 6, 3, 2};
    const auto place = static_cast<std::size_t>(world.rank());
    const auto turn = static_cast<int>(place / kKeys.size() * kKeys.size());
    const int number = world.rank() % groups;
    return {world.split(number, turn + kKeys[place % kKeys.size()]), number, groups};
  }
  // Rank 0 alone and, beside it, the others in the reverse order.
  static Group without_rank_0(const Communicator& world) {
    const int number = world.rank() == 0 ? 0 : 1;
    return {world.split(number, -world.rank()), number, 2};
  }
};

// One run of the program. Called, made and asked on all ranks, except for end_job().
class Panel {
 public:
  Panel(const Communicator& all, Group members, std::string file)
      : world(all), group(std::move(members)), file_(std::move(file)) {
    struct Place {
      int group, rank;
    };
    std::string text;
    for (const Place& each : world.all_gather(Place{group.number, group.comm.rank()})) {
      text += fmt::format("{} {}\n", each.group, each.rank);
      places_.emplace_back(each.group, each.rank);
    }
    if (!file_.empty() && world.rank() == 0) std::ofstream(file_ + ".places") << text;
  }

  const Communicator& world;
  const Group group;

  // "on 4 ranks", of which a pure function knows nothing.
  std::string where(const Solution& solution) const {
    if (solution.pure) return "";
    const int size = world.size();
    if (group.of == 1) return fmt::format(" on {} rank{}", size, size == 1 ? "" : "s");
    std::vector<int> sizes(static_cast<std::size_t>(group.of));
    for (const auto& [number, rank] : places_) ++sizes[static_cast<std::size_t>(number)];
    return fmt::format(" on groups of {} ranks beside each other", join(sizes, " and "));
  }
  // The ranks of the world, in the order in which answers name them: by group, then by rank.
  std::vector<std::size_t> order() const {
    std::vector<std::size_t> all(places_.size());
    std::iota(all.begin(), all.end(), 0);
    std::ranges::sort(all, {}, [&](std::size_t rank) { return places_[rank]; });
    return all;
  }
  std::string name_of(std::size_t world_rank) const {
    const auto& [number, rank] = places_[world_rank];
    return group.of == 1 ? fmt::format("rank {}", rank)
                         : fmt::format("group {}, rank {}", number, rank);
  }
  std::string my_name() const { return name_of(static_cast<std::size_t>(world.rank())); }

  // Replaces the file's content atomically, because several ranks may write a verdict at once.
  void write(const std::string& text) const {
    if (file_.empty()) {
      std::fputs(text.c_str(), stdout);
      return;
    }
    const std::string part = fmt::format("{}.{}", file_, ::getpid());
    std::ofstream out(part);
    out << text;
    out.close();
    // The solution may have changed how large a file may be.
    if (!out)
      throw Error("the verdict cannot be written: " + std::generic_category().message(errno));
    std::filesystem::rename(part, file_);
  }
  // Notes this rank's `number`-th call of a check (judge.py shows the one at which the slowest
  // rank is).
  void note_call(std::size_t number, const std::string& arguments) const {
    if (file_.empty()) return;
    std::ofstream(fmt::format("{}.call{}", file_, world.rank()))
        << number << ' ' << arguments << '\n';
  }
  // Keeps the verdict on this rank's mistake, in case that the check never comes to its end.
  void note_mistake(const std::string& verdict) const {
    if (!file_.empty())
      std::ofstream(fmt::format("{}.mistake{}", file_, world.rank())) << verdict;
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
  std::vector<std::pair<int, int>> places_;  // group and rank, of each rank of the world
};

}  // namespace dist::exercise
