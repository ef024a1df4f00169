// Look at: is_met, which decides whether a rank still waits for another. Without this check,
// two ranks that exchange messages would look like a cycle, even if their messages are on the
// way and a third rank is delaying both.
#include "tools/watch/hang_report.hpp"

#include "common/slowest.hpp"
#include "tools/watch/text.hpp"

#include <algorithm>
#include <set>

namespace dist::watch {
namespace {

using Ranks = std::vector<RankView>;

const RankView* find(const Ranks& ranks, int rank) {
  for (const RankView& view : ranks) {
    if (view.rank == rank) return &view;
  }
  return nullptr;  // it is on a different host
}

const ChannelView* channel(const RankView& rank, int peer, int tag, std::uint32_t comm) {
  for (const ChannelView& one : rank.channels) {
    if (one.peer == peer && one.tag == tag && one.comm == comm) return &one;
  }
  return nullptr;
}

bool accepts_from_anyone(const RankView& rank, const Operation& send) {
  for (const CallView& call : rank.inside) {
    for (const Operation& other : call.operations) {
      if (other.kind == OperationKind::receive && other.comm == send.comm &&
          (other.peer == kAnyone || other.tag == kAnyTag) &&
          (other.tag == kAnyTag || other.tag == send.tag)) {
        return true;
      }
    }
  }
  return false;
}

// Whether `peer` has done its half of what `rank` waits for: whether it has started the
// matching send or posted the matching receive. A stopped rank's half never counts as done.
bool is_met(const RankView& rank, const Operation& waits, const RankView& peer) {
  if (peer.stopped) return false;
  // The board had no room to count this operation, so do not accuse anyone.
  const bool counted = waits.kind != OperationKind::shared_memory && waits.tag != kAnyTag;
  if (counted && waits.number == 0) return true;
  switch (waits.kind) {
    case OperationKind::send: {
      const ChannelView* const theirs = channel(peer, rank.rank, waits.tag, waits.comm);
      return (theirs != nullptr && theirs->receives >= waits.number) ||
             accepts_from_anyone(peer, waits);
    }
    case OperationKind::receive:
    case OperationKind::probe: {
      if (waits.tag != kAnyTag) {
        const ChannelView* const theirs = channel(peer, rank.rank, waits.tag, waits.comm);
        return theirs != nullptr && theirs->sends >= waits.number;
      }
      return std::any_of(
          peer.channels.begin(), peer.channels.end(), [&](const ChannelView& theirs) {
            const ChannelView* const mine = channel(rank, peer.rank, theirs.tag, theirs.comm);
            return theirs.peer == rank.rank && theirs.comm == waits.comm &&
                   theirs.sends > (mine == nullptr ? 0 : mine->receives);
          });
    }
    case OperationKind::collective: {
      const auto theirs = peer.communicators.find(waits.comm);
      return theirs == peer.communicators.end() || theirs->second.collectives >= waits.number;
    }
    case OperationKind::shared_memory: return false;
  }
  return true;
}

// The ranks on this host that `rank` waits for.
std::vector<int> waits_for(const Ranks& ranks, const RankView& rank) {
  std::set<int> found;
  for (const CallView& call : rank.inside) {
    for (const Operation& waits : call.operations) {
      if (waits.kind == OperationKind::collective || waits.peer == kEverybody) {
        for (const RankView& peer : ranks) {
          if (peer.rank != rank.rank && !is_met(rank, waits, peer)) found.insert(peer.rank);
        }
      } else if (const RankView* const peer = find(ranks, waits.peer)) {
        if (!is_met(rank, waits, *peer)) found.insert(peer->rank);
      }
    }
  }
  return {found.begin(), found.end()};
}

// Finds cycles in the wait-for graph. No two of them share a rank, and each begins with its
// lowest rank.
class CycleFinder {
 public:
  explicit CycleFinder(const Ranks& ranks) {
    for (const RankView& rank : ranks) edges_[rank.rank] = waits_for(ranks, rank);
    for (const RankView& rank : ranks) visit(rank.rank);
  }
  const std::vector<std::vector<int>>& cycles() const { return cycles_; }

 private:
  // A rank in done_ leads to no further cycle.
  void visit(int rank) {
    if (done_.count(rank) > 0) return;
    const auto on_path = std::find(path_.begin(), path_.end(), rank);
    if (on_path != path_.end()) {
      std::vector<int> cycle(on_path, path_.end());
      for (const int member : cycle) {
        if (in_cycle_.count(member) > 0) return;
      }
      in_cycle_.insert(cycle.begin(), cycle.end());
      std::rotate(cycle.begin(), std::min_element(cycle.begin(), cycle.end()), cycle.end());
      cycles_.push_back(std::move(cycle));
      return;
    }
    path_.push_back(rank);
    for (const int next : edges_[rank]) visit(next);
    path_.pop_back();
    done_.insert(rank);
  }

  std::map<int, std::vector<int>> edges_;
  std::vector<int> path_;
  std::set<int> done_;
  std::set<int> in_cycle_;
  std::vector<std::vector<int>> cycles_;
};

class Report {
 public:
  explicit Report(const Ranks& ranks) : ranks_(ranks) {}

  std::string write() {
    cycles();
    collectives();
    scopes();
    for (const RankView& rank : ranks_) {
      if (told_.count(rank.rank) == 0) line(sentence_of(rank));
    }
    mismatches();
    return text_;
  }

 private:
  using Groups = std::map<std::string, std::vector<int>>;  // what ranks do, and which do it

  void line(const std::string& text) { text_ += "hang: " + text + "\n"; }

  void cycles() {
    const CycleFinder finder(ranks_);
    for (const std::vector<int>& cycle : finder.cycles()) {
      std::vector<std::string> sentences;
      for (const int rank : cycle) {
        sentences.push_back(sentence_of(*find(ranks_, rank)));
        told_.insert(rank);
      }
      line(concat(join(sentences, "; "), ": cycle ", join(cycle, " -> "), " -> ",
                  cycle.front()));
    }
  }

  // "ranks 0, 1 are in MPI_Bcast #1; rank 2 is in MPI_Barrier #1; rank 3 never entered it"
  void meeting(const Groups& present, const Groups& absent) {
    std::vector<std::string> parts;
    for (const auto& [call, ranks] : present) {
      const char* const verb = ranks.size() == 1 ? " is in " : " are in ";
      parts.push_back(concat(text_of_ranks(ranks), verb, call));
    }
    for (const auto& [text, ranks] : absent) {
      parts.push_back(concat(text_of_ranks(ranks), " ", text));
    }
    line(join(parts, "; "));
  }

  void collectives() {
    // Ranks may have entered different collectives with the same number.
    std::map<std::pair<std::uint32_t, std::uint32_t>, Groups> places;
    for (const RankView& rank : ranks_) {
      for (const CallView& call : rank.inside) {
        if (call.operations.empty()) continue;
        const Operation& first = call.operations.front();
        if (first.kind != OperationKind::collective) continue;
        places[{first.comm, first.number}][text_of(call)].push_back(rank.rank);
      }
    }
    for (const auto& [place, present] : places) {
      const auto [comm, number] = place;
      std::set<int> here;
      for (const auto& [call, ranks] : present) here.insert(ranks.begin(), ranks.end());
      Groups absent;
      for (const RankView& rank : ranks_) {
        const auto member = rank.communicators.find(comm);
        if (member == rank.communicators.end() || here.count(rank.rank) > 0) continue;
        const auto& [entered, last] = member->second;
        std::string text = entered >= number ? "already left it" : "never entered it";
        if (entered > 0 && entered < number) {
          text += concat(", last seen in #", entered, " (", name_of(last), ")");
        }
        absent[text].push_back(rank.rank);
      }
      meeting(present, absent);
      for (const int rank : here) {
        if (!find(ranks_, rank)->stopped) told_.insert(rank);
      }
    }
  }

  // Like collectives(), but for our own collectives, which consist of messages and are named by
  // CallScope.
  void scopes() {
    std::map<std::pair<std::string, std::uint32_t>, std::pair<std::string, std::vector<int>>>
        places;  // with the description and the ranks that are there
    for (const RankView& rank : ranks_) {
      for (const CallView& call : rank.inside) {
        if (call.scope.empty()) continue;
        auto& [text, ranks] = places[{call.scope, call.scope_number}];
        text = text_of_scope(call);
        ranks.push_back(rank.rank);
      }
    }
    for (const auto& [place, present] : places) {
      const auto& [scope, number] = place;
      Groups absent;
      for (const RankView& rank : ranks_) {
        const auto found = rank.scopes.find(scope);
        const std::uint32_t entered = found == rank.scopes.end() ? 0 : found->second;
        if (entered >= number) continue;
        const std::string last = entered == 0 ? "" : concat(", last seen in #", entered);
        absent["never entered it" + last].push_back(rank.rank);
      }
      if (!absent.empty()) meeting({present}, absent);
    }
  }

  // Reports messages sent to a rank that waits for a different message from the same sender.
  void mismatches() {
    for (const RankView& rank : ranks_) {
      for (const CallView& call : rank.inside) {
        for (const Operation& waits : call.operations) {
          if (waits.kind != OperationKind::receive && waits.kind != OperationKind::probe) {
            continue;
          }
          const RankView* const peer = find(ranks_, waits.peer);
          if (peer == nullptr || is_met(rank, waits, *peer)) continue;
          for (const ChannelView& sent : peer->channels) mismatch(rank, waits, *peer, sent);
        }
      }
    }
  }

  void mismatch(const RankView& rank, const Operation& waits, const RankView& peer,
                const ChannelView& sent) {
    if (sent.peer != rank.rank) return;
    const ChannelView* const got = channel(rank, peer.rank, sent.tag, sent.comm);
    if (sent.sends <= (got == nullptr ? 0 : got->receives)) return;
    const std::string wanted = waits.tag == kAnyTag ? "any tag" : concat("tag ", waits.tag);
    line(concat("rank ", rank.rank, " waits for ", wanted, " from rank ", peer.rank, "; rank ",
                peer.rank, " has sent tag ", sent.tag,
                sent.comm == waits.comm ? "" : " on a different communicator"));
  }

  const Ranks& ranks_;
  std::set<int> told_;
  std::string text_;
};

}  // namespace

std::string describe_hang(const std::vector<RankView>& ranks) {
  return Report(ranks).write();
}

std::string describe_slowest(const std::vector<RankView>& ranks) {
  constexpr double kEnough_s = 1.0;  // samples over a shorter time may be misleading
  std::vector<double> busy;
  for (const RankView& rank : ranks) busy.push_back(rank.computed_s);
  const std::optional<Slowest> found = slowest(busy);
  if (!found || busy[static_cast<std::size_t>(found->rank)] < kEnough_s) return "";
  return concat("hang: before that, the others waited for rank ",
                ranks[static_cast<std::size_t>(found->rank)].rank, ", which computed ",
                format_number("%.1f", found->ratio), " times as long as they did\n");
}

}  // namespace dist::watch
