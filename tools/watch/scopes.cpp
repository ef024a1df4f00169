// The scopes of each thread. They begin and end through C functions (common/watch.hpp), so they
// are kept on stacks instead of in the caller's objects.
#include "common/watch.hpp"
#include "tools/watch/call_hooks.hpp"
#include "tools/watch/communicators.hpp"

#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace dist::watch {
namespace {

// The state that a CallScope has replaced.
struct Outer {
  bool in_counted = false;
  bool noted = false;  // on the board
  std::uint16_t scope = 0;
  std::uint16_t subject = 0;
  std::uint32_t number = 0;
  std::int64_t begin_ns = 0;  // of the new scope; with a trace only
};

std::string counted_subject;  // how counted subjects begin; empty: all messages are counted
thread_local bool in_counted = false;
thread_local std::vector<Outer> call_scopes;
thread_local std::deque<std::optional<Observation>> wait_scopes;

}  // namespace

void begin_call_scope(std::string_view operation, std::string_view subject) {
  Outer& outer = call_scopes.emplace_back();
  outer.in_counted = in_counted;
  if (!subject.empty()) in_counted = subject.starts_with(counted_subject);
  ThreadRecord* const record = is_on(kBoard) ? my_thread() : nullptr;
  if (record == nullptr) return;
  outer = {outer.in_counted, true, record->scope, record->subject, record->scope_number, 0};
  if (is_on(kTrace)) outer.begin_ns = now_ns();
  record->scope = intern(operation);
  record->scope_number = my_board()->labels[record->scope].uses.fetch_add(1) + 1;
  record->subject = intern(subject);
}

void end_call_scope() {
  const Outer outer = call_scopes.back();
  call_scopes.pop_back();
  in_counted = outer.in_counted;
  ThreadRecord* const record = my_thread();
  if (!outer.noted || record == nullptr) return;  // MPI was finalized within the scope
  if (outer.begin_ns != 0 && is_on(kTrace)) {
    my_board()->record({.begin_ns = outer.begin_ns,
                        .end_ns = now_ns(),
                        .number = record->scope_number,
                        .call = Call::call_scope,
                        .label = record->scope,
                        .subject = record->subject},
                       *record);
  }
  record->scope = outer.scope;
  record->subject = outer.subject;
  record->scope_number = outer.number;
}

void begin_wait_scope(std::string_view what, MPI_Comm comm, int peer) {
  std::optional<Observation>& observation = wait_scopes.emplace_back();
  if (!is_on(kBoard)) return;
  Operation wait{OperationKind::shared_memory, Call::wait_scope, kNobody};
  if (comm != MPI_COMM_NULL) {
    // A report looks up which ranks kEverybody stands for.
    wait.peer = peer == WaitScope::kAllOthers ? kEverybody : info_of(comm).world_rank(peer);
  }
  observation.emplace(Call::wait_scope, std::span<const Operation>(&wait, 1), intern(what));
}

void end_wait_scope() {
  wait_scopes.pop_back();
}

void count_only(std::string_view subject) {
  counted_subject = subject;
}

bool is_counted() {
  return counted_subject.empty() || in_counted;
}

}  // namespace dist::watch
