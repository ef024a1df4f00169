// One name per file of wrappers, for the linker. The wrappers lie in a static library, and a
// static library's file is linked only if somebody asks for one of its names; MPI's own library
// has all the names MPI_*, so without this a program could get some of ours and some of theirs.
#pragma once

namespace dist::diagnostics {

void link_point_to_point_wrappers();
void link_request_wrappers();
void link_collective_wrappers();
void link_communicator_wrappers();
void link_window_wrappers();

}  // namespace dist::diagnostics
