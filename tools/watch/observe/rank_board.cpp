#include "tools/watch/observe/rank_board.hpp"

namespace dist::watch {

std::string name_of(Call call) {
#define DIST_NAME(name) #name,
  static constexpr std::array kNames = std::to_array({DIST_WATCHED_CALLS(DIST_NAME)});
#undef DIST_NAME
  return kNames[static_cast<std::size_t>(call)];
}

void ThreadRecord::set(Call new_call, std::span<const Operation> operations,
                       std::uint16_t new_wait_label) {
  call = new_call;
  wait_label = new_wait_label;
  operation_count = static_cast<std::uint32_t>(operations.size());
  std::copy_n(operations.begin(), this->operations().size(), first_operations.begin());
}

Event ThreadRecord::slice() const {
  Event event{.begin_ns = entered_ns, .call = call, .label = wait_label};
  if (event.label == 0) {
    event.label = scope.name;
    event.subject = scope.subject;
  }
  for (const Operation& operation : operations()) {
    (operation.kind == OperationKind::send ? event.peer : event.from) = operation.peer;
  }
  if (operations().empty()) return event;
  const Operation& first = first_operations[0];
  event.bytes = first.bytes;
  event.comm = first.comm;
  event.tag = first.tag;
  if (first.kind == OperationKind::collective) event.number = first.number;
  return event;
}

void Label::set(std::string_view name) {
  const std::size_t length = std::min(name.size(), kLength - 1);
  for (std::size_t i = 0; i < length; ++i) text[i] = name[i];
  text[length] = '\0';
  if (length < name.size()) {  // a truncated name ends in dots
    for (std::size_t i = length - 3; i < length; ++i) text[i] = '.';
  }
}

std::string Label::get() const {
  std::string name;
  for (std::size_t i = 0; i < kLength && text[i] != '\0'; ++i) name += text[i];
  return name;
}

std::uint64_t RankBoard::moves() const {
  std::uint64_t sum = starts;
  for (const ThreadRecord& thread : threads) sum += thread.moves;
  return sum;
}

Channel* RankBoard::channel(std::int32_t peer, std::int32_t tag, std::uint32_t comm) {
  // The search must stay cheap even if a program with one tag per message fills the board.
  constexpr std::size_t kProbes = 16;
  const std::uint64_t ends = (std::uint64_t{comm} << 32) + static_cast<std::uint32_t>(peer);
  const std::uint64_t key = mix(mix(ends) + static_cast<std::uint32_t>(tag)) | 1;
  for (std::size_t step = 0; step < kProbes; ++step) {
    Channel& channel = channels[(key + step) % kChannels];
    if (channel.key == 0 && channel.key.claim(0, key)) {
      channel.peer = peer;
      channel.tag = tag;
      channel.comm = comm;
    }
    if (channel.key == key) return &channel;
  }
  return nullptr;
}

CommunicatorRecord* RankBoard::communicator(std::uint32_t id) {
  for (CommunicatorRecord& record : communicators) {
    if (record.id == 0) record.id.claim(0, id);
    if (record.id == id) return &record;
  }
  return nullptr;
}

void RankBoard::record(Event event, const ThreadRecord& thread) {
  event.thread = static_cast<std::uint8_t>(&thread - threads.data());
  const std::uint64_t index = events_written.fetch_add(1);
  RecordedEvent& place = events()[index % event_capacity];
  place.written = 0;
  static_cast<Event&>(place) = event;
  place.written.publish(index + 1);
}

void RankBoard::reset() {
  for (ThreadRecord& thread : threads) thread.call = Call::none;
  for (Channel& channel : channels) channel.sends = channel.receives = 0;
  for (CommunicatorRecord& record : communicators) record.collectives = 0;
  for (Label& label : labels) label.uses = 0;
  events_written = computed_ns = 0;
}

std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace dist::watch
