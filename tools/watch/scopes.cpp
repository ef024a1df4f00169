#include "common/call_scope.hpp"
#include "common/wait_scope.hpp"
#include "tools/watch/communicators.hpp"
#include "tools/watch/spy.hpp"

namespace dist {

using namespace diagnostics;

CallScope::CallScope(std::string_view operation, std::string_view subject) {
  if ((mode.load(std::memory_order_relaxed) & kBoard) == 0) return;
  ThreadRecord* const record = my_thread();
  if (record == nullptr) return;
  active_ = true;
  outer_operation_ = static_cast<std::uint16_t>(record->scope);
  outer_subject_ = static_cast<std::uint16_t>(record->subject);
  outer_number_ = record->scope_number;
  const std::uint16_t label = intern(operation);
  record->scope_number = my_board()->labels[label].uses.fetch_add(1) + 1;
  record->scope = label;
  record->subject = intern(subject);
  if ((mode.load(std::memory_order_relaxed) & kTrace) != 0) begin_ns_ = now_ns();
}

CallScope::~CallScope() {
  if (!active_) return;
  ThreadRecord* const record = my_thread();
  if (record == nullptr) return;  // MPI was finalized within the scope
  if (begin_ns_ != 0) {
    trace_slice(Call::call_scope, begin_ns_, static_cast<std::uint16_t>(record->scope),
                static_cast<std::uint16_t>(record->subject), record->scope_number);
  }
  record->scope = outer_operation_;
  record->subject = outer_subject_;
  record->scope_number = outer_number_;
}

void name_this_thread(std::string_view name) {
  if (ThreadRecord* const record = my_thread()) record->name = intern(name);
}

WaitScope::WaitScope(const char* what) {
  enter(what, kNobody);
}

WaitScope::WaitScope(const char* what, const Communicator& comm) {
  // The members are looked up by the communicator: others of the host are not waited for.
  if (my_board() != nullptr && comm.size() > 1) enter(what, kEverybody);
}

WaitScope::WaitScope(const char* what, const Communicator& comm, int peer) {
  if (my_board() != nullptr) enter(what, info_of(comm.get()).world_rank(peer));
}

void WaitScope::enter(const char* what, std::int32_t world_peer) {
  if ((mode.load(std::memory_order_relaxed) & kBoard) == 0) return;
  Operation wait{};
  wait.kind = OperationKind::shared_memory;
  wait.call = Call::wait_scope;
  wait.peer = world_peer;
  observation_.emplace(Call::wait_scope, std::span<const Operation>(&wait, 1), intern(what));
}

}  // namespace dist
