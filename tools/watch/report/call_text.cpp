#include "common/join.hpp"
#include "tools/watch/report/hang_report.hpp"

#include <fmt/format.h>

#include <array>

namespace dist::watch {
static std::string peer_text(std::int32_t peer) {
  if (peer == kAnyone) return "any rank";
  if (peer == kEverybody) return "the others";
  if (peer == kNobody) return "MPI_PROC_NULL";
  return std::to_string(peer);
}

// Uses the largest unit that gives a whole number ("4 MiB"), as in the programs' tables.
static std::string text_of_bytes(std::uint64_t bytes) {
  constexpr std::array kUnits{"B", "KiB", "MiB", "GiB"};
  std::size_t unit = 0;
  while (unit + 1 < kUnits.size() && bytes >= 1024 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", bytes, kUnits[unit]);
}

// Which message or collective it is.
static std::string target_of(const Operation& operation) {
  if (operation.kind == OperationKind::collective) return fmt::format("#{}", +operation.number);
  return (operation.kind == OperationKind::send ? "to " : "from ") + peer_text(operation.peer);
}

static std::string details_of(const Operation& operation) {
  std::vector<std::string> parts;
  if (operation.bytes > 0) parts.push_back(text_of_bytes(operation.bytes));
  if (operation.kind != OperationKind::collective) {
    parts.push_back(text_of_tag(operation.tag));
  } else if (operation.peer >= 0) {
    parts.push_back(fmt::format("root {}", +operation.peer));
  }
  return parts.empty() ? "" : " (" + join(parts, ", ") + ")";
}

static std::string text_of_wait_scope(const RankBoard& board, const ThreadRecord& thread) {
  const std::int32_t peer = thread.operations()[0].peer;
  const std::string label = board.label(thread.wait_label);
  if (peer == kNobody) return label;
  return fmt::format("{}, waiting for {}{}", label, peer >= 0 ? "rank " : "", peer_text(peer));
}

std::string text_of_tag(int tag) {
  return tag == kAnyTag ? "any tag" : fmt::format("tag {}", tag);
}

std::string text_of(const RankBoard& board, const ThreadRecord& thread, bool details) {
  if (thread.call == Call::wait_scope) return text_of_wait_scope(board, thread);
  const std::span<const Operation> operations = thread.operations();
  if (operations.empty()) return name_of(thread.call);
  const bool starts = operations[0].call == thread.call;  // or waits for what others started
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const std::string said = details_of(operations[i]);
    // MPI_Sendrecv says only once what is true of both of its messages.
    const bool again =
        starts && i + 1 < operations.size() && said == details_of(operations[i + 1]);
    parts.push_back((starts ? "" : name_of(operations[i].call) + " ") +
                    target_of(operations[i]) + (details && !again ? said : ""));
  }
  const std::size_t more = thread.operation_count - operations.size();
  if (more > 0) parts.push_back(fmt::format("{} more", more));
  return name_of(thread.call) + (starts ? " " : " for ") + join(parts, " and ");
}

std::string text_of_scope(const RankBoard& board, const ThreadRecord& thread) {
  const std::string subject = board.label(thread.scope.subject);
  return fmt::format("{} #{}{}", board.label(thread.scope.name), +thread.scope.number,
                     subject.empty() ? "" : " (" + subject + ")");
}

std::string sentence_of(const RankView& rank) {
  const std::string who = fmt::format("rank {} ", rank.rank());
  const std::string stopped = rank.stopped ? "is stopped (SIGSTOP) " : "";
  std::vector<std::string> calls;
  for (const ThreadRecord* const call : rank.inside()) {
    if (call->call == Call::MPI_Finalize) return who + "has already finished (MPI_Finalize)";
    std::string text = (call->inside ? "in " : "asking ") + text_of(rank.board, *call);
    if (call->scope.name != 0) text += " of " + text_of_scope(rank.board, *call);
    calls.push_back(text);
  }
  if (!calls.empty()) return who + stopped + join(calls, " and ");
  const ThreadRecord* last = nullptr;
  for (const ThreadRecord& thread : rank.board.threads) {
    if (thread.call == Call::none) continue;
    if (last == nullptr || thread.left_at > last->left_at) last = &thread;
  }
  const std::string now = rank.stopped
                              ? stopped + "outside MPI calls"
                              : fmt::format("has made no MPI call for {:.1f} s", rank.still_s);
  if (last == nullptr) return who + now + ", and none before";
  return who + now + ", last call " + text_of(rank.board, *last, false);
}

}  // namespace dist::watch
