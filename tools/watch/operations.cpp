// Numbers the messages of each channel and the collectives of each communicator. The same
// message has the same number on both of its ends, so that a report can match them.
#include "tools/watch/call_hooks.hpp"
#include "tools/watch/communicators.hpp"

namespace dist::watch {
namespace {

// Returns nullptr if the channel is not known yet, or there is no room for it.
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

Operation start_send(Call call, int dest, int tag, int count, MPI_Datatype type,
                     MPI_Comm comm) {
  const CommunicatorInfo& info = info_of(comm);
  Operation send{OperationKind::send, call, info.world_rank(dest), tag, info.id};
  send.bytes = bytes_of_message(count, type);
  if (send.peer == kNobody) return send;
  send.count_id = count_start(send);
  if (Channel* const channel = channel_of(send)) {
    send.number = channel->sends.fetch_add(1) + 1;
  }
  return send;
}

Operation start_receive(Call call, int source, int tag, int count, MPI_Datatype type,
                        MPI_Comm comm) {
  Operation receive = probe(call, source, tag, comm);
  receive.kind = OperationKind::receive;
  receive.bytes = bytes_of_message(count, type);
  if (receive.peer == kNobody) return receive;
  receive.count_id = count_start(receive);
  // A receive from any rank or of any tag is numbered when it finishes.
  if (Channel* const channel = channel_of(receive)) {
    receive.number = channel->receives.fetch_add(1) + 1;
  }
  return receive;
}

Operation probe(Call call, int source, int tag, MPI_Comm comm) {
  const CommunicatorInfo& info = info_of(comm);
  Operation probe{OperationKind::probe, call, info.world_rank(source), tag, info.id};
  if (tag == MPI_ANY_TAG) probe.tag = kAnyTag;
  // The number of the message that it waits for.
  if (const Channel* const channel = channel_of(probe)) probe.number = channel->receives + 1;
  return probe;
}

Operation start_collective(Call call, MPI_Comm comm, std::uint64_t bytes, int root) {
  const CommunicatorInfo& info = info_of(comm);
  Operation collective = start_collective(call, info.id, bytes);
  if (root != kNoRoot) collective.peer = info.world_rank(root);
  return collective;
}

Operation start_collective(Call call, std::uint32_t comm, std::uint64_t bytes) {
  Operation collective{OperationKind::collective, call, kEverybody, 0, comm};
  collective.bytes = bytes;
  collective.count_id = count_start(collective);
  if (RankBoard* const board = my_board()) {
    if (CommunicatorRecord* const record = board->communicator(comm)) {
      collective.number = record->collectives.fetch_add(1) + 1;
      record->last = call;
    }
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
