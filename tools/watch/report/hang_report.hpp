// Finds out which rank waits for which on a host's boards, and describes it in sentences.
#pragma once

#include "tools/watch/observe/rank_board.hpp"

#include <string>
#include <vector>

namespace dist::watch {

// A rank as a report sees it. The board is a copy, because a rank that polls changes its own.
struct RankView {
  RankBoard board;
  bool stopped = false;
  double still_s = 0;

  int rank() const { return board.rank; }
  // Its threads that are in a call, or poll.
  std::vector<const ThreadRecord*> inside() const;
};

// call_text.cpp describes calls and ranks in words.
//
// "MPI_Send to 1 (4 MiB, tag 0)", "MPI_Wait for MPI_Irecv from 2 (16 B, tag 0)",
// "MPI_Allreduce #7 (16 B)". Without details, the text in parentheses is left out.
std::string text_of(const RankBoard& board, const ThreadRecord& thread, bool details = true);
std::string text_of_tag(int tag);  // "tag 0" or "any tag"
// "all_reduce #7 (bucket 2: 2.weight)": the CallScope around the call.
std::string text_of_scope(const RankBoard& board, const ThreadRecord& thread);
// "rank 0 in MPI_Send to 1 (4 MiB, tag 0)", "rank 2 has made no MPI call for 3 s, last call
// MPI_Send to 3", "rank 1 has already finished (MPI_Finalize)".
std::string sentence_of(const RankView& rank);

// Whether no rank is stopped, in a call, polls, starts or ends MPI or NCCL, and none runs code
// whose computing is limited, too (WatchTable::limit_computing). Such ranks wait for nobody,
// however long they compute.
bool all_compute(const std::vector<RankView>& ranks);

// Whether every rank is in a call, and everyone whom it waits for has made the matching call.
// MPI itself then has to finish, which takes long on a busy machine. `ranks` are all of the
// job.
bool all_have_come(const std::vector<RankView>& ranks);

// `ranks` are the ranks of one host, in ascending order. Writes one line "hang: ..." per
// finding: first cycles, then collectives that some ranks did not enter, then every other rank,
// then messages whose tags or communicators do not match.
std::string describe_hang(const std::vector<RankView>& ranks);

// Writes one more line if the ranks spent their time before the hang waiting for a single rank.
std::string describe_slowest(const std::vector<RankView>& ranks);

}  // namespace dist::watch
