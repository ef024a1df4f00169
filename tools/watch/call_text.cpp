#include "tools/watch/hang_report.hpp"
#include "tools/watch/text.hpp"

#include <array>

namespace dist::watch {
namespace {

std::string peer_text(std::int32_t peer) {
  if (peer == kAnyone) return "any rank";
  if (peer == kEverybody) return "the others";
  if (peer == kNobody) return "MPI_PROC_NULL";
  return std::to_string(peer);
}

// Uses the largest unit that gives a whole number ("4 MiB"), as in the programs' tables.
std::string text_of_bytes(std::uint64_t bytes) {
  constexpr std::array kUnits{" B", " KiB", " MiB", " GiB"};
  std::size_t unit = 0;
  while (unit + 1 < kUnits.size() && bytes >= 1024 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return concat(bytes, kUnits[unit]);
}

std::string direction(const Operation& operation) {
  return concat(operation.kind == OperationKind::send ? "to " : "from ",
                peer_text(operation.peer));
}

std::string details_of(const Operation& operation) {
  const std::string tag =
      operation.tag == kAnyTag ? std::string("any tag") : concat("tag ", operation.tag);
  switch (operation.kind) {
    case OperationKind::send:
    case OperationKind::receive:
      return concat(" (", text_of_bytes(operation.bytes), ", ", tag, ")");
    case OperationKind::probe: return concat(" (", tag, ")");
    case OperationKind::collective: break;
    case OperationKind::shared_memory: return "";
  }
  std::string text = operation.bytes > 0 ? text_of_bytes(operation.bytes) : "";
  if (operation.peer >= 0) {
    text += concat(text.empty() ? "" : ", ", "root ", operation.peer);
  }
  return text.empty() ? "" : concat(" (", text, ")");
}

// Describes an operation by the call that started it.
std::string text_of(const Operation& operation, bool details) {
  std::string text = name_of(operation.call);
  if (operation.kind == OperationKind::collective) {
    text += concat(" #", operation.number);
  } else {
    text += concat(" ", direction(operation));
  }
  return text + (details ? details_of(operation) : "");
}

std::string text_of_sendrecv(const CallView& call, bool details) {
  const Operation& send = call.operations[0];
  const Operation& receive = call.operations[1];
  const bool alike = send.bytes == receive.bytes && send.tag == receive.tag;
  const std::string middle = details && !alike ? details_of(send) : "";
  return concat(name_of(call.call), " ", direction(send), middle, " and ", direction(receive),
                details ? details_of(receive) : "");
}

std::string text_of_wait_scope(const CallView& call) {
  const std::int32_t peer = call.operations.empty() ? kNobody : call.operations[0].peer;
  if (peer == kNobody) return call.wait;
  return concat(call.wait, ", waiting for ", peer >= 0 ? "rank " : "", peer_text(peer));
}

}  // namespace

std::string text_of(const CallView& call, bool details) {
  if (call.call == Call::wait_scope) return text_of_wait_scope(call);
  if (call.operations.empty()) return name_of(call.call);
  if (call.operations[0].call == call.call) {
    if (call.operations.size() == 2) return text_of_sendrecv(call, details);
    return text_of(call.operations[0], details);
  }
  std::vector<std::string> waited;
  for (const Operation& operation : call.operations) {
    waited.push_back(text_of(operation, details));
  }
  if (call.more > 0) waited.push_back(concat(call.more, " more"));
  return concat(name_of(call.call), " for ", join(waited, " and "));
}

std::string text_of_scope(const CallView& call) {
  const std::string subject = call.subject.empty() ? "" : concat(" (", call.subject, ")");
  return concat(call.scope, " #", call.scope_number, subject);
}

std::string text_of_ranks(const std::vector<int>& ranks) {
  return concat(ranks.size() == 1 ? "rank " : "ranks ", join(ranks, ", "));
}

std::string sentence_of(const RankView& rank) {
  std::vector<std::string> calls;
  for (const CallView& call : rank.inside) {
    if (call.call == Call::MPI_Finalize) {
      return concat("rank ", rank.rank, " has already finished (MPI_Finalize)");
    }
    std::string text = (call.polling ? "asking " : "in ") + text_of(call);
    if (!call.scope.empty()) text += concat(" of ", text_of_scope(call));
    calls.push_back(text);
  }
  const std::string stopped = rank.stopped ? "is stopped (SIGSTOP) " : "";
  if (!calls.empty()) {
    return concat("rank ", rank.rank, " ", stopped, join(calls, " and "));
  }
  std::string last = "and none before";
  if (rank.last.call != Call::none) last = concat("last call ", text_of(rank.last, false));
  if (rank.stopped) {
    return concat("rank ", rank.rank, " is stopped (SIGSTOP) outside MPI calls, ", last);
  }
  return concat("rank ", rank.rank, " has made no MPI call for ",
                format_number("%.1f", rank.still_s), " s, ", last);
}

}  // namespace dist::watch
