#include "tools/watch/call_text.hpp"

#include "common/console.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace dist::diagnostics {
namespace {

std::string peer_text(std::int32_t peer) {
  if (peer == kAnyone) return "any rank";
  if (peer == kEverybody) return "the others";
  if (peer == kNobody) return "MPI_PROC_NULL";
  return std::to_string(peer);
}

std::string direction(const OperationView& operation) {
  return fmt::format("{} {}", operation.kind == OperationKind::send ? "to" : "from",
                     peer_text(operation.peer));
}

std::string details_of(const OperationView& operation) {
  const std::string tag =
      operation.tag == kAnyTag ? std::string("any tag") : fmt::format("tag {}", operation.tag);
  switch (operation.kind) {
    case OperationKind::send:
    case OperationKind::receive:
      return fmt::format(" ({}, {})", format_bytes(operation.bytes), tag);
    case OperationKind::probe: return fmt::format(" ({})", tag);
    case OperationKind::collective: break;
    case OperationKind::shared_memory: return "";
  }
  std::string text = operation.bytes > 0 ? format_bytes(operation.bytes) : "";
  if (operation.peer >= 0) {
    text += fmt::format("{}root {}", text.empty() ? "" : ", ", operation.peer);
  }
  return text.empty() ? "" : fmt::format(" ({})", text);
}

// An operation by its own call: what a wait waits for.
std::string text_of(const OperationView& operation, bool details) {
  std::string text = name_of(operation.call);
  if (operation.kind == OperationKind::collective) {
    text += fmt::format(" #{}", operation.number);
  } else {
    text += fmt::format(" {}", direction(operation));
  }
  return text + (details ? details_of(operation) : "");
}

std::string text_of_sendrecv(const CallView& call, bool details) {
  const OperationView& send = call.operations[0];
  const OperationView& receive = call.operations[1];
  const bool alike = send.bytes == receive.bytes && send.tag == receive.tag;
  const std::string middle = details && !alike ? details_of(send) : "";
  return fmt::format("{} {}{} and {}{}", name_of(call.call), direction(send), middle,
                     direction(receive), details ? details_of(receive) : "");
}

std::string text_of_wait_scope(const CallView& call) {
  const std::int32_t peer = call.operations.empty() ? kNobody : call.operations[0].peer;
  if (peer == kNobody) return call.wait;
  return fmt::format("{}, waiting for {}{}", call.wait, peer >= 0 ? "rank " : "",
                     peer_text(peer));
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
  for (const OperationView& operation : call.operations) {
    waited.push_back(text_of(operation, details));
  }
  if (call.more > 0) waited.push_back(fmt::format("{} more", call.more));
  return fmt::format("{} for {}", name_of(call.call), fmt::join(waited, " and "));
}

std::string text_of_ranks(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

std::string sentence_of(const RankView& rank) {
  std::vector<std::string> calls;
  for (const CallView& call : rank.inside) {
    if (call.call == Call::MPI_Finalize) {
      return fmt::format("rank {} has already finished (MPI_Finalize)", rank.rank);
    }
    std::string text = fmt::format("{} {}", call.polling ? "asking" : "in", text_of(call));
    if (!call.scope.empty()) {
      text += fmt::format(" of {} #{}", call.scope, call.scope_number);
      if (!call.subject.empty()) text += fmt::format(" ({})", call.subject);
    }
    calls.push_back(text);
  }
  const std::string stopped = rank.stopped ? "is stopped (SIGSTOP) " : "";
  if (!calls.empty()) {
    return fmt::format("rank {} {}{}", rank.rank, stopped, fmt::join(calls, " and "));
  }
  std::string last = "and none before";
  if (rank.last.call != Call::none)
    last = fmt::format("last call {}", text_of(rank.last, false));
  if (rank.stopped) {
    return fmt::format("rank {} is stopped (SIGSTOP) outside MPI calls, {}", rank.rank, last);
  }
  return fmt::format("rank {} has made no MPI call for {:.1f} s, {}", rank.rank, rank.still_s,
                     last);
}

}  // namespace dist::diagnostics
