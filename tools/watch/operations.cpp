#include "tools/watch/operations.hpp"

#include "tools/watch/communicators.hpp"
#include "tools/watch/observation.hpp"
#include "tools/watch/scopes.hpp"
#include "tools/watch/traffic_log.hpp"

#include <algorithm>
#include <mutex>
#include <unordered_map>

namespace dist::watch {
namespace {

struct Requests {
  std::mutex mutex;
  // Several operations may have the same request (keep_request).
  std::unordered_multimap<MPI_Request, Operation> operations;
};

Requests& requests() {
  static auto* const the_requests = new Requests;
  return *the_requests;
}

std::uint64_t log_if_on(const LogEntry& entry) {
  return is_on(kTraffic) && is_counted() ? append_to_log(entry) : 0;
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
  Operation send{.kind = OperationKind::send,
                 .call = call,
                 .peer = info.world_rank(dest),
                 .tag = tag,
                 .comm = info.id,
                 .number = 0,
                 .bytes = bytes_of_message(count, type),
                 .log_id = 0};
  if (send.peer == kNobody) return send;
  send.log_id = log_if_on({LogEntry::Type::send, info.id, send.peer, tag, send.bytes, 0});
  if (RankBoard* const board = my_board()) {
    if (Channel* const channel = find_channel(*board, send.peer, tag, info.id)) {
      send.number = channel->sends.fetch_add(1) + 1;
    }
  }
  return send;
}

Operation start_receive(Call call, int source, int tag, int count, MPI_Datatype type,
                        MPI_Comm comm) {
  Operation receive = probe(call, source, tag, comm);
  receive.kind = OperationKind::receive;
  receive.bytes = bytes_of_message(count, type);
  if (receive.peer == kNobody) return receive;
  receive.number = 0;
  receive.log_id =
      log_if_on({LogEntry::Type::receive, receive.comm, receive.peer, tag, receive.bytes, 0});
  if (receive.peer == kAnyone || receive.tag == kAnyTag) return receive;  // counted by finish()
  if (RankBoard* const board = my_board()) {
    if (Channel* const channel = find_channel(*board, receive.peer, tag, receive.comm)) {
      receive.number = channel->receives.fetch_add(1) + 1;
    }
  }
  return receive;
}

Operation probe(Call call, int source, int tag, MPI_Comm comm) {
  const CommunicatorInfo& info = info_of(comm);
  Operation probe{.kind = OperationKind::probe,
                  .call = call,
                  .peer = info.world_rank(source),
                  .tag = tag == MPI_ANY_TAG ? kAnyTag : tag,
                  .comm = info.id,
                  .number = 0,
                  .bytes = 0,
                  .log_id = 0};
  if (probe.peer >= 0 && probe.tag != kAnyTag) {
    if (RankBoard* const board = my_board()) {
      if (Channel* const channel = find_channel(*board, probe.peer, tag, info.id)) {
        probe.number = channel->receives + 1;  // the message that it waits for
      }
    }
  }
  return probe;
}

Operation start_collective(Call call, MPI_Comm comm, std::uint64_t bytes, int root) {
  const CommunicatorInfo& info = info_of(comm);
  return start_collective(call, info.id, bytes, root < 0 ? kEverybody : info.world_rank(root));
}

Operation start_collective(Call call, std::uint32_t comm, std::uint64_t bytes,
                           std::int32_t root_in_world) {
  Operation collective{.kind = OperationKind::collective,
                       .call = call,
                       .peer = root_in_world,
                       .tag = 0,
                       .comm = comm,
                       .number = 0,
                       .bytes = bytes,
                       .log_id = 0};
  collective.log_id =
      log_if_on({LogEntry::Type::collective, comm, collective.peer, 0, bytes, 0});
  if (RankBoard* const board = my_board()) {
    if (CommunicatorRecord* const record = find_communicator(*board, comm)) {
      collective.number = record->collectives.fetch_add(1) + 1;
      record->last = call;
    }
  }
  return collective;
}

void finish(const Operation& operation, const MPI_Status& status) {
  Operation done = operation;
  if (done.kind == OperationKind::receive && done.peer != kNobody) {
    const bool resolved = done.peer != kAnyone && done.tag != kAnyTag;
    if (done.peer == kAnyone) done.peer = world_rank_in(done.comm, status.MPI_SOURCE);
    done.tag = status.MPI_TAG;
    if (!resolved && my_board() != nullptr) {
      if (Channel* const channel = find_channel(*my_board(), done.peer, done.tag, done.comm)) {
        done.number = channel->receives.fetch_add(1) + 1;
      }
    }
    if (is_on(kTrace)) trace_arrow(TraceEvent::Type::arrival, now_ns(), done);
  }
  if (done.log_id != 0 && is_on(kTraffic)) {
    append_to_log(
        {LogEntry::Type::finish, done.comm, done.peer, done.tag, done.bytes, done.log_id});
  }
}

void keep_request(MPI_Request request, const Operation& operation) {
  if (request == MPI_REQUEST_NULL) return;
  const std::lock_guard lock(requests().mutex);
  requests().operations.emplace(request, operation);
}

std::optional<Operation> find_request(MPI_Request request, std::size_t skip) {
  if (request == MPI_REQUEST_NULL) return std::nullopt;
  const std::lock_guard lock(requests().mutex);
  auto [found, end] = requests().operations.equal_range(request);
  for (; found != end && skip > 0; --skip) ++found;
  if (found == end) return std::nullopt;
  return found->second;
}

void forget_request(MPI_Request request, const Operation& operation) {
  const std::lock_guard lock(requests().mutex);
  const auto [begin, end] = requests().operations.equal_range(request);
  const auto found =
      std::find_if(begin, end, [&](const auto& each) { return each.second == operation; });
  if (found != end) requests().operations.erase(found);
}

}  // namespace dist::watch
