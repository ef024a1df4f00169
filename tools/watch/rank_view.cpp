// Copies what a report needs from a board, so that the rest of the report reads plain values.
#include "tools/watch/hang_report.hpp"

namespace dist::watch {
namespace {

CallView view_of(const RankBoard& board, const ThreadRecord& thread) {
  CallView view;
  view.call = thread.call;
  view.polling = thread.polling && !thread.inside;
  view.operations = thread.operations();
  view.more = thread.operation_count - view.operations.size();
  view.wait = board.label(thread.wait_label);
  view.scope = board.label(thread.scope);
  view.subject = board.label(thread.subject);
  view.scope_number = thread.scope_number;
  return view;
}

}  // namespace

RankView view_of(const RankBoard& board) {
  RankView view;
  view.rank = board.rank;
  std::uint64_t latest = 0;
  for (const ThreadRecord& thread : board.threads) {
    if (thread.taken == 0) continue;
    if (thread.inside || thread.polling) {
      view.inside.push_back(view_of(board, thread));
    } else if (thread.moves > 0 && (view.last.call == Call::none || thread.left_at > latest)) {
      latest = thread.left_at;
      view.last = view_of(board, thread);
    }
  }
  for (const Channel& channel : board.channels) {
    if (channel.key == 0) continue;
    view.channels.push_back(
        {channel.peer, channel.tag, channel.comm, channel.sends, channel.receives});
  }
  for (const CommunicatorRecord& record : board.communicators) {
    if (record.id != 0) view.communicators[record.id] = {record.collectives, record.last};
  }
  for (std::uint32_t i = 1; i <= board.label_count; ++i) {
    if (board.labels[i].uses > 0) view.scopes[board.labels[i].get()] = board.labels[i].uses;
  }
  return view;
}

}  // namespace dist::watch
