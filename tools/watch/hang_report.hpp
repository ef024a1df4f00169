// Who waits for whom: a host's board, read into plain values and put into sentences.
#pragma once

#include "tools/watch/board.hpp"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace dist::watch {

struct OperationView {
  OperationKind kind;
  Call call;
  std::int32_t peer;
  std::int32_t tag;
  std::uint32_t comm;
  std::uint32_t number;
  std::uint64_t bytes;
};

struct CallView {
  Call call = Call::none;
  bool polling = false;
  std::vector<OperationView> operations;
  std::size_t more = 0;  // operations that the board had no place for
  std::string wait;      // of a WaitScope: what it waits for
  std::string scope;     // of a CallScope around it
  std::string subject;
  std::uint32_t scope_number = 0;
};

struct ChannelView {
  std::int32_t peer;
  std::int32_t tag;
  std::uint32_t comm;
  std::uint32_t sends;
  std::uint32_t receives;
};

struct CommunicatorView {
  std::uint32_t collectives;
  Call last;
};

struct RankView {
  int rank = 0;
  bool stopped = false;
  double still_s = 0;
  double computed_s = 0;
  std::vector<CallView> inside;  // by thread; more than one if several threads call MPI
  CallView last;                 // of a rank that is in no call
  std::vector<ChannelView> channels;
  std::map<std::uint32_t, CommunicatorView> communicators;  // that it is a member of
  std::map<std::string, std::uint32_t> scopes;              // how often each was entered
};

RankView view_of(const RankBoard& board);

// `ranks` are those of one host, ascending. One line "hang: ..." per finding: first cycles,
// then collectives that not all entered, then every other rank, then messages whose tags or
// communicators do not match.
std::string describe_hang(const std::vector<RankView>& ranks);

// One more line if the others spent their time waiting for one of them, before the hang.
std::string describe_slowest(const std::vector<RankView>& ranks);

}  // namespace dist::watch
