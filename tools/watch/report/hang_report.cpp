// Look at: is_met, which decides whether a rank still waits for another. Without this check,
// two ranks that exchange messages would look like a cycle, even if their messages are on the
// way and a third rank is delaying both.
#include "tools/watch/report/hang_report.hpp"

#include "common/join.hpp"
#include "common/slowest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace dist::watch {
namespace {

using Ranks = std::vector<RankView>;

const RankView* find(const Ranks& ranks, int rank) {
  const auto found = std::ranges::find(ranks, rank, &RankView::rank);
  return found == ranks.end() ? nullptr : &*found;  // nullptr: it is on a different host
}

// What `rank` has exchanged with `peer`.
const Channel& channel(const RankView& rank, int peer, int tag, std::uint32_t comm) {
  static const Channel nothing{};
  const auto found = std::ranges::find_if(rank.board.channels, [=](const Channel& one) {
    return one.peer == peer && one.tag == tag && one.comm == comm;
  });
  return found == rank.board.channels.end() ? nothing : *found;
}

// Returns nullptr if the rank is no member of the communicator.
const CommunicatorRecord* membership(const RankView& rank, std::uint32_t comm) {
  const auto found = std::ranges::find_if(
      rank.board.communicators, [=](const CommunicatorRecord& one) { return one.id == comm; });
  return found == rank.board.communicators.end() ? nullptr : &*found;
}

std::uint32_t scopes_entered(const RankView& rank, const std::string& name) {
  const auto label = std::ranges::find(rank.board.labels, name, &Label::get);
  return label == rank.board.labels.end() ? 0 : std::uint32_t{label->uses};
}

// What all threads of the rank wait for.
std::vector<Operation> operations_of(const RankView& rank) {
  std::vector<Operation> operations;
  for (const ThreadRecord* const call : rank.inside()) {
    operations.insert(operations.end(), call->operations().begin(), call->operations().end());
  }
  return operations;
}

// Whether a peer has sent messages on this channel of its own that `rank` has not asked for.
bool has_left(const RankView& rank, int peer, const Channel& sent) {
  return sent.peer == rank.rank() &&
         sent.sends > channel(rank, peer, sent.tag, sent.comm).receives;
}

bool accepts_from_anyone(const RankView& rank, const Operation& send) {
  return std::ranges::any_of(operations_of(rank), [&](const Operation& other) {
    return other.kind == OperationKind::receive && other.comm == send.comm &&
           (other.peer == kAnyone || other.tag == kAnyTag) &&
           (other.tag == kAnyTag || other.tag == send.tag);
  });
}

// Whether `peer` has done its half of what `rank` waits for: whether it has started the
// matching send or posted the matching receive. A stopped rank's half never counts as done.
bool is_met(const RankView& rank, const Operation& waits, const RankView& peer) {
  if (peer.stopped) return false;
  // The board had no room to count this operation, so do not accuse anyone.
  const bool counted = waits.kind != OperationKind::shared_memory && waits.tag != kAnyTag;
  if (counted && waits.number == 0) return true;
  const Channel& theirs = channel(peer, rank.rank(), waits.tag, waits.comm);
  switch (waits.kind) {
    case OperationKind::send:
      return theirs.receives >= waits.number || accepts_from_anyone(peer, waits);
    case OperationKind::receive:
    case OperationKind::probe:
      if (waits.tag != kAnyTag) return theirs.sends >= waits.number;
      return std::ranges::any_of(peer.board.channels, [&](const Channel& sent) {
        return sent.comm == waits.comm && has_left(rank, peer.rank(), sent);
      });
    case OperationKind::collective: {
      const CommunicatorRecord* const member = membership(peer, waits.comm);
      return member == nullptr || member->collectives >= waits.number;
    }
    case OperationKind::shared_memory: return false;
  }
  return true;
}

// The ranks on this host that `rank` waits for.
std::set<int> waits_for(const Ranks& ranks, const RankView& rank) {
  std::set<int> found;
  for (const Operation& waits : operations_of(rank)) {
    const bool all = waits.kind == OperationKind::collective || waits.peer == kEverybody;
    for (const RankView& peer : ranks) {
      const bool asked = all ? peer.rank() != rank.rank() : peer.rank() == waits.peer;
      if (asked && !is_met(rank, waits, peer)) found.insert(peer.rank());
    }
  }
  return found;
}

// False for a wait for any rank, for one on a different host, for more operations than the
// board has room for, or for one that it could not count: each may be in vain.
bool knows_whom_it_waits_for(const Ranks& ranks, const RankView& rank) {
  for (const ThreadRecord* const call : rank.inside()) {
    if (call->operation_count > ThreadRecord::kOperations) return false;
    for (const Operation& one : call->operations()) {
      const bool collective = one.kind == OperationKind::collective;
      if (one.number == 0 && one.kind != OperationKind::shared_memory) return false;
      if (!collective && find(ranks, one.peer) == nullptr) return false;
    }
  }
  return true;
}

// Whether two ranks are in different collectives of the same number, or have different roots.
bool collectives_differ(const Ranks& ranks) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::pair<Call, int>> places;
  for (const RankView& rank : ranks) {
    for (const Operation& one : operations_of(rank)) {
      if (one.kind != OperationKind::collective || one.number == 0) continue;
      const std::pair<Call, int> call(one.call, one.peer);
      const auto [place, is_first] = places.try_emplace({one.comm, one.number}, call);
      if (place->second != call) return true;
    }
  }
  return false;
}

// "rank 3", "ranks 0, 1, 3".
std::string text_of_ranks(const std::vector<int>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + join(ranks, ", ");
}

class Report {
 public:
  explicit Report(const Ranks& ranks) : ranks_(ranks) {}

  std::string write() {
    for (const RankView& rank : ranks_) follow(rank.rank());
    meetings();
    for (const RankView& rank : ranks_) {
      if (told_.count(rank.rank()) == 0) line(sentence_of(rank));
    }
    mismatches();
    return text_;
  }

 private:
  using Groups = std::map<std::string, std::vector<int>>;  // what ranks do, and which do it

  void line(const std::string& text) { text_ += "hang: " + text + "\n"; }

  // Finds the cycles among the ranks that `rank` waits for, directly or not.
  void follow(int rank) {
    const auto on_path = std::ranges::find(path_, rank);
    if (on_path != path_.end()) return cycle({on_path, path_.end()});
    if (!followed_.insert(rank).second) return;
    path_.push_back(rank);
    for (const int next : waits_for(ranks_, *find(ranks_, rank))) follow(next);
    path_.pop_back();
  }

  // A cycle begins with its lowest rank, and no two cycles share a rank.
  void cycle(std::vector<int> ranks) {
    const auto told = [this](int rank) { return told_.count(rank) > 0; };
    if (std::ranges::any_of(ranks, told)) return;
    told_.insert(ranks.begin(), ranks.end());
    std::ranges::rotate(ranks, std::ranges::min_element(ranks));
    std::vector<std::string> sentences;
    for (const int rank : ranks) sentences.push_back(sentence_of(*find(ranks_, rank)));
    line(fmt::format("{}: cycle {} -> {}", join(sentences, "; "), join(ranks, " -> "),
                     ranks[0]));
  }

  // "ranks 0, 1 are in MPI_Bcast #1; rank 2 is in MPI_Barrier #1; rank 3 never entered it"
  void meeting(const Groups& present, const Groups& absent) {
    std::vector<std::string> parts;
    for (const auto& [call, ranks] : present) {
      const char* const verb = ranks.size() == 1 ? " is in " : " are in ";
      parts.push_back(text_of_ranks(ranks) + verb + call);
    }
    for (const auto& [last, ranks] : absent) {
      parts.push_back(text_of_ranks(ranks) + " never entered it" + last);
    }
    line(join(parts, "; "));
  }

  // The ranks of a communicator meet in MPI's collectives; all ranks, in our own, which consist
  // of messages and are named by CallScope.
  void meetings() {
    // The scope or the communicator, and the number. Ranks may have entered different
    // collectives with the same number.
    std::map<std::tuple<std::string, std::uint32_t, std::uint32_t>, Groups> places;
    for (const RankView& rank : ranks_) {
      for (const ThreadRecord* const call : rank.inside()) {
        if (call->scope.name != 0) {
          places[{rank.board.label(call->scope.name), 0, call->scope.number}]
                [text_of_scope(rank.board, *call)]
                    .push_back(rank.rank());
        }
        if (call->operation_count == 0) continue;
        const Operation& first = call->operations()[0];
        if (first.kind != OperationKind::collective) continue;
        places[{"", first.comm, first.number}][text_of(rank.board, *call)].push_back(
            rank.rank());
      }
    }
    for (const auto& [place, present] : places) {
      const auto& [scope, comm, number] = place;
      std::set<int> here;
      for (const auto& [call, ranks] : present) here.insert(ranks.begin(), ranks.end());
      Groups absent;
      for (const RankView& rank : ranks_) {
        const CommunicatorRecord* const member = membership(rank, comm);
        if (here.count(rank.rank()) > 0 || (scope.empty() && member == nullptr)) continue;
        std::uint32_t entered = scopes_entered(rank, scope);
        if (scope.empty()) entered = member->collectives;
        if (entered >= number) continue;
        std::string last = entered == 0 ? "" : fmt::format(", last seen in #{}", entered);
        if (entered > 0 && scope.empty()) last += " (" + name_of(member->last) + ")";
        absent[last].push_back(rank.rank());
      }
      if (scope.empty() || !absent.empty()) meeting(present, absent);
      for (const int rank : here) {
        if (scope.empty() && !find(ranks_, rank)->stopped) told_.insert(rank);
      }
    }
  }

  // Reports messages sent to a rank that waits for a different message from the same sender.
  void mismatches() {
    for (const RankView& rank : ranks_) {
      for (const Operation& waits : operations_of(rank)) {
        const bool receives =
            waits.kind == OperationKind::receive || waits.kind == OperationKind::probe;
        const RankView* const peer = find(ranks_, waits.peer);
        if (!receives || peer == nullptr || is_met(rank, waits, *peer)) continue;
        for (const Channel& sent : peer->board.channels) {
          if (!has_left(rank, peer->rank(), sent)) continue;
          line(fmt::format("rank {} waits for {} from rank {}; rank {} has sent {}{}",
                           rank.rank(), text_of_tag(waits.tag), peer->rank(), peer->rank(),
                           text_of_tag(sent.tag),
                           sent.comm == waits.comm ? "" : " on a different communicator"));
        }
      }
    }
  }

  const Ranks& ranks_;
  std::vector<int> path_;
  std::set<int> followed_;
  std::set<int> told_;  // ranks about which a line says what they do
  std::string text_;
};

}  // namespace

std::vector<const ThreadRecord*> RankView::inside() const {
  std::vector<const ThreadRecord*> threads;
  for (const ThreadRecord& thread : board.threads) {
    if (thread.taken != 0 && (thread.inside || thread.polling)) threads.push_back(&thread);
  }
  return threads;
}

bool all_compute(const std::vector<RankView>& ranks) {
  return std::ranges::all_of(ranks, [](const RankView& rank) {
    return rank.board.working && !rank.stopped && rank.inside().empty() &&
           !rank.board.computing_is_limited;
  });
}

bool all_have_come(const std::vector<RankView>& ranks) {
  return !collectives_differ(ranks) && std::ranges::all_of(ranks, [&](const RankView& rank) {
    return !rank.stopped && !operations_of(rank).empty() &&
           knows_whom_it_waits_for(ranks, rank) && waits_for(ranks, rank).empty();
  });
}

std::string describe_hang(const std::vector<RankView>& ranks) {
  return Report(ranks).write();
}

std::string describe_slowest(const std::vector<RankView>& ranks) {
  constexpr double kEnough_s = 1.0;  // samples over a shorter time may be misleading
  std::vector<double> busy;
  for (const RankView& rank : ranks) {
    busy.push_back(1e-9 * static_cast<double>(rank.board.computed_ns));
  }
  const std::optional<Slowest> found = slowest(busy);
  if (!found || busy[static_cast<std::size_t>(found->rank)] < kEnough_s) return "";
  return fmt::format(
      "hang: before that, the others waited for rank {}, which computed {:.1f} times as long "
      "as they did\n",
      ranks[static_cast<std::size_t>(found->rank)].rank(), found->ratio);
}

}  // namespace dist::watch
