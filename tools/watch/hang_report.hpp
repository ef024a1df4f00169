// Finds out which rank waits for which: reads a host's board into plain values and describes
// them in sentences.
#pragma once

#include "tools/watch/rank_board.hpp"

#include <map>
#include <string>
#include <vector>

namespace dist::watch {

struct CallView {
  Call call = Call::none;
  bool polling = false;
  std::vector<Operation> operations;
  std::size_t more = 0;  // operations that did not fit on the board
  std::string wait;      // what a WaitScope waits for
  std::string scope;     // the name of the CallScope around the call
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
  std::vector<CallView> inside;  // current calls; more than one if several threads call MPI
  CallView last;                 // the last call, if the rank is not in a call
  std::vector<ChannelView> channels;
  std::map<std::uint32_t, CommunicatorView> communicators;  // of which the rank is a member
  std::map<std::string, std::uint32_t> scopes;              // how often each was entered
};

RankView view_of(const RankBoard& board);  // rank_view.cpp

// call_text.cpp describes calls and ranks in words.
//
// "MPI_Send to 1 (4 MiB, tag 0)", "MPI_Wait for MPI_Irecv from 2 (16 B, tag 0)",
// "MPI_Allreduce #7 (16 B)". Without details, the text in parentheses is left out.
std::string text_of(const CallView& call, bool details = true);
// "all_reduce #7 (bucket 2: 2.weight)": the CallScope around the call.
std::string text_of_scope(const CallView& call);
// "rank 3", "ranks 0, 1, 3".
std::string text_of_ranks(const std::vector<int>& ranks);
// "rank 0 in MPI_Send to 1 (4 MiB, tag 0)", "rank 2 has made no MPI call for 3 s, last call
// MPI_Send to 3", "rank 1 has already finished (MPI_Finalize)".
std::string sentence_of(const RankView& rank);

// `ranks` are the ranks of one host, in ascending order. Writes one line "hang: ..." per
// finding: first cycles, then collectives that some ranks did not enter, then every other rank,
// then messages whose tags or communicators do not match.
std::string describe_hang(const std::vector<RankView>& ranks);

// Writes one more line if the ranks spent their time before the hang waiting for a single rank.
std::string describe_slowest(const std::vector<RankView>& ranks);

}  // namespace dist::watch
