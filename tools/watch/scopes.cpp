#include "tools/watch/scopes.hpp"

#include "common/watch.hpp"
#include "tools/watch/communicators.hpp"
#include "tools/watch/observation.hpp"

#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace dist::watch {
namespace {

// The state that a CallScope has replaced.
struct Outer {
  bool in_counted = false;
  bool active = false;
  std::uint32_t operation = 0;
  std::uint32_t subject = 0;
  std::uint32_t number = 0;
  std::uint64_t begin_ns = 0;  // with a trace only
};

std::string counted;  // how counted subjects begin; empty: all messages are counted
thread_local bool in_counted = false;

std::vector<Outer>& calls() {
  thread_local std::vector<Outer> the_calls;
  return the_calls;
}

std::deque<std::optional<Observation>>& waits() {
  thread_local std::deque<std::optional<Observation>> the_waits;
  return the_waits;
}

std::int32_t world_peer(MPI_Comm comm, int peer) {
  if (comm == MPI_COMM_NULL) return kNobody;
  // A report looks up which ranks kEverybody stands for.
  return peer == WaitScope::kAllOthers ? kEverybody : info_of(comm).world_rank(peer);
}

}  // namespace

void begin_call_scope(std::string_view operation, std::string_view subject) {
  Outer& outer = calls().emplace_back();
  outer.in_counted = in_counted;
  if (!subject.empty()) in_counted = subject.starts_with(counted);
  ThreadRecord* const record = is_on(kBoard) ? my_thread() : nullptr;
  if (record == nullptr) return;
  outer = {outer.in_counted, true, record->scope, record->subject, record->scope_number, 0};
  const std::uint16_t label = intern(operation);
  record->scope_number = my_board()->labels[label].uses.fetch_add(1) + 1;
  record->scope = label;
  record->subject = intern(subject);
  if (is_on(kTrace)) outer.begin_ns = now_ns();
}

void end_call_scope() {
  const Outer outer = calls().back();
  calls().pop_back();
  in_counted = outer.in_counted;
  ThreadRecord* const record = my_thread();
  if (!outer.active || record == nullptr) return;  // MPI was finalized within the scope
  if (outer.begin_ns != 0) {
    trace_slice(Call::call_scope, outer.begin_ns, static_cast<std::uint16_t>(record->scope),
                static_cast<std::uint16_t>(record->subject), record->scope_number);
  }
  record->scope = outer.operation;
  record->subject = outer.subject;
  record->scope_number = outer.number;
}

void begin_wait_scope(std::string_view what, MPI_Comm comm, int peer) {
  waits().emplace_back();
  if (!is_on(kBoard)) return;
  Operation wait{};
  wait.kind = OperationKind::shared_memory;
  wait.call = Call::wait_scope;
  wait.peer = world_peer(comm, peer);
  waits().back().emplace(Call::wait_scope, std::span<const Operation>(&wait, 1), intern(what));
}

void end_wait_scope() {
  waits().pop_back();
}

void count_only(std::string_view subject) {
  counted = subject;
}

bool is_counted() {
  return counted.empty() || in_counted;
}

void name_thread(std::string_view name) {
  if (ThreadRecord* const record = my_thread()) record->name = intern(name);
}

}  // namespace dist::watch
