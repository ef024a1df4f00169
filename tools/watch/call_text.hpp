// Describes calls and ranks in words.
#pragma once

#include "tools/watch/hang_report.hpp"

#include <string>
#include <vector>

namespace dist::watch {

// "MPI_Send to 1 (4 MiB, tag 0)", "MPI_Wait for MPI_Irecv from 2 (16 B, tag 0)",
// "MPI_Allreduce #7 (16 B)". Without details, the text in parentheses is left out.
std::string text_of(const CallView& call, bool details = true);

// "rank 3", "ranks 0, 1, 3".
std::string text_of_ranks(const std::vector<int>& ranks);

// "rank 0 in MPI_Send to 1 (4 MiB, tag 0)", "rank 2 has made no MPI call for 3 s, last call
// MPI_Send to 3", "rank 1 has already finished (MPI_Finalize)".
std::string sentence_of(const RankView& rank);

}  // namespace dist::watch
