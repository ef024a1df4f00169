// The scopes of each thread, innermost last: CallScope and WaitScope of common/watch.hpp. They
// must end in the reverse of the order in which they began.
#pragma once

#include <mpi.h>

#include <string_view>

namespace dist::watch {

void begin_call_scope(std::string_view operation, std::string_view subject);
void end_call_scope();
void begin_wait_scope(std::string_view what, MPI_Comm comm, int peer);
void end_wait_scope();
void name_thread(std::string_view name);

// Called while no thread sends: from now on, count_traffic counts only messages in a scope
// whose subject begins with `subject`. A scope without a subject counts like the one around it.
void count_only(std::string_view subject);
// Whether a message of this thread is counted.
bool is_counted();

}  // namespace dist::watch
