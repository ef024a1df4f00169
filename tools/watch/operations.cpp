// Numbers the messages of each channel and the collectives of each communicator. The same
// message has the same number on both of its ends, so that a report can match them.
#include "tools/watch/call_hooks.hpp"
#include "tools/watch/communicators.hpp"

namespace dist::watch {
namespace {

// Returns nullptr if the board has no room for the channel, or it is not known yet: a receive
// from any rank or of any tag is numbered when it finishes.
Channel* channel_of(const Operation& message) {
  RankBoard* const board = my_board();
  if (board == nullptr || message.peer < 0 || message.tag == kAnyTag) return nullptr;
  return board->channel(message.peer, message.tag, message.comm);
}

}  // namespace

std::uint64_t bytes_of_message(int count, MPI_Datatype type) {
  int size = 0;
  PMPI_Type_size(type, &size);
  return static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(size);
}

Operation start_message(OperationKind kind, Call call, int peer, int tag, int count,
                        MPI_Datatype type, MPI_Comm comm) {
  const CommunicatorInfo& info = info_of(comm);
  Operation message{kind, call, info.world_rank(peer), tag == MPI_ANY_TAG ? kAnyTag : tag,
                    info.id};
  message.bytes = bytes_of_message(count, type);
  const bool probes = kind == OperationKind::probe;
  if (!probes && message.peer != kNobody) message.count_id = count_start(message);
  if (Channel* const channel = channel_of(message)) {
    auto& counter = kind == OperationKind::send ? channel->sends : channel->receives;
    message.number = (probes ? std::uint32_t{counter} : counter.fetch_add(1)) + 1;
  }
  return message;
}

Operation start_collective(Call call, MPI_Comm comm, std::uint64_t bytes, int root) {
  const CommunicatorInfo& info = info_of(comm);
  return start_collective(call, info.id, bytes, info.world_rank(root));
}

Operation start_collective(Call call, std::uint32_t comm, std::uint64_t bytes,
                           std::int32_t root) {
  Operation collective{OperationKind::collective, call, root, 0, comm};
  collective.bytes = bytes;
  collective.count_id = count_start(collective);
  RankBoard* const board = my_board();
  CommunicatorRecord* const record = board == nullptr ? nullptr : board->communicator(comm);
  if (record != nullptr) {
    collective.number = record->collectives.fetch_add(1) + 1;
    record->last = call;
  }
  return collective;
}

void finish(const Operation& operation, const MPI_Status& status) {
  Operation done = operation;
  if (done.kind == OperationKind::receive && done.peer != kNobody) {
    const bool known = done.peer != kAnyone && done.tag != kAnyTag;
    if (done.peer == kAnyone) done.peer = world_rank_in(done.comm, status.MPI_SOURCE);
    done.tag = status.MPI_TAG;
    if (Channel* const channel = known ? nullptr : channel_of(done)) {
      done.number = channel->receives.fetch_add(1) + 1;
    }
    trace_end_of_arrow(Event::Type::arrival, now_ns(), done);
  }
  count_finish(done);
}

void trace_end_of_arrow(Event::Type type, std::int64_t at_ns, const Operation& message) {
  const ThreadRecord* const record = is_on(kTrace) ? my_thread() : nullptr;
  if (record == nullptr || message.number == 0) return;
  my_board()->record({.begin_ns = at_ns,
                      .end_ns = at_ns,
                      .number = message.number,
                      .comm = message.comm,
                      .peer = message.peer,
                      .tag = message.tag,
                      .type = type},
                     *record);
}

}  // namespace dist::watch
