#include "tools/watch/board.hpp"

#include <algorithm>

namespace dist::watch {
namespace {

// Spreads nearby numbers over 64 bits (the finalizer of splitmix64).
std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// The search for a place must stay cheap even if a program with one tag per message fills the
// board.
constexpr std::size_t kProbes = 16;

}  // namespace

void Label::set(std::string_view name) {
  const std::size_t length = std::min(name.size(), kLength - 1);
  for (std::size_t i = 0; i < length; ++i) text[i] = name[i];
  text[length] = '\0';
  // A truncated name ends in dots, and is never cut within a multi-byte character.
  if (length < name.size()) {
    for (std::size_t i = length - 3; i < length; ++i) text[i] = '.';
    for (std::size_t i = length - 3; i-- > 0 && (text[i] & 0x80) != 0;) text[i] = '.';
  }
}

std::string Label::get() const {
  std::string name;
  for (const auto& character : text) {
    if (character == '\0') break;
    name += character;
  }
  return name;
}

std::uint64_t RankBoard::moves() const {
  std::uint64_t sum = other_moves;
  for (const ThreadRecord& thread : threads) sum += thread.moves;
  return sum;
}

void RankBoard::reset() {
  for (ThreadRecord& thread : threads) thread.call = Call::none;
  for (Channel& channel : channels) {
    channel.sends = 0;
    channel.receives = 0;
  }
  for (CommunicatorRecord& record : communicators) record.collectives = 0;
  for (Label& label : labels) label.uses = 0;
  events_written = 0;
  computed_ns = 0;
}

Channel* find_channel(RankBoard& board, std::int32_t peer, std::int32_t tag,
                      std::uint32_t comm) {
  const std::uint64_t key =
      mix(mix((std::uint64_t{comm} << 32) + static_cast<std::uint32_t>(peer)) +
          static_cast<std::uint32_t>(tag)) |
      1;
  for (std::size_t step = 0; step < kProbes; ++step) {
    Channel& channel = board.channels[(key + step) % RankBoard::kChannels];
    if (channel.key == key) return &channel;
    if (channel.key != 0) continue;
    if (channel.key.claim(0, key)) {
      channel.peer = peer;
      channel.tag = tag;
      channel.comm = comm;
      return &channel;
    }
    if (channel.key == key) return &channel;  // another thread was first
  }
  return nullptr;
}

CommunicatorRecord* find_communicator(RankBoard& board, std::uint32_t id) {
  for (CommunicatorRecord& record : board.communicators) {
    if (record.id == id) return &record;
    if (record.id == 0 && record.id.claim(0, id)) return &record;
    if (record.id == id) return &record;
  }
  return nullptr;
}

}  // namespace dist::watch
