// The scopes of each thread, innermost last. They end in the opposite order of their begins.
#include "common/watch.hpp"
#include "tools/watch/communicators.hpp"
#include "tools/watch/spy.hpp"

#include <deque>
#include <optional>
#include <vector>

namespace dist {

using namespace diagnostics;

namespace {

// What a CallScope has replaced.
struct Outer {
  bool active = false;
  std::uint32_t operation = 0;
  std::uint32_t subject = 0;
  std::uint32_t number = 0;
  std::uint64_t begin_ns = 0;  // with a trace only
};

std::vector<Outer>& calls() {
  thread_local std::vector<Outer> the_calls;
  return the_calls;
}

std::deque<std::optional<Observation>>& waits() {
  thread_local std::deque<std::optional<Observation>> the_waits;
  return the_waits;
}

void begin_wait(std::string_view what, std::int32_t world_peer) {
  waits().emplace_back();
  if ((mode.load(std::memory_order_relaxed) & kBoard) == 0) return;
  Operation wait{};
  wait.kind = OperationKind::shared_memory;
  wait.call = Call::wait_scope;
  wait.peer = world_peer;
  waits().back().emplace(Call::wait_scope, std::span<const Operation>(&wait, 1), intern(what));
}

}  // namespace

CallScope::CallScope(std::string_view operation, std::string_view subject) {
  Outer& outer = calls().emplace_back();
  if ((mode.load(std::memory_order_relaxed) & kBoard) == 0) return;
  ThreadRecord* const record = my_thread();
  if (record == nullptr) return;
  outer = {true, record->scope, record->subject, record->scope_number, 0};
  const std::uint16_t label = intern(operation);
  record->scope_number = my_board()->labels[label].uses.fetch_add(1) + 1;
  record->scope = label;
  record->subject = intern(subject);
  if ((mode.load(std::memory_order_relaxed) & kTrace) != 0) outer.begin_ns = now_ns();
}

CallScope::~CallScope() {
  const Outer outer = calls().back();
  calls().pop_back();
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

WaitScope::WaitScope(std::string_view what) {
  begin_wait(what, kNobody);
}

WaitScope::WaitScope(std::string_view what, const Communicator& comm) {
  // The members are looked up by the communicator: others of the host are not waited for.
  begin_wait(what, comm.size() > 1 ? kEverybody : kNobody);
}

WaitScope::WaitScope(std::string_view what, const Communicator& comm, int peer) {
  begin_wait(what, my_board() != nullptr ? info_of(comm.get()).world_rank(peer) : kNobody);
}

WaitScope::~WaitScope() {
  waits().pop_back();
}

void name_this_thread(std::string_view name) {
  if (ThreadRecord* const record = my_thread()) record->name = intern(name);
}

}  // namespace dist
