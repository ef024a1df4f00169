// NCCL_CHECK: throws Error with NCCL's own text. Included only by files named *nccl*.
#pragma once

#include "01_send_recv/gpu/nccl_communicator.hpp"

#if DIST_WITH_NCCL
#include <nccl.h>

namespace dist {

// Our communicators are non-blocking (ncclConfig_t): a call may return ncclInProgress, and
// nothing else may be asked of the communicator until that is over. So this waits, watching for
// errors and for the communicator's time limit. Throws Error.
void check_nccl(NcclCommunicator& nccl, ncclResult_t status, const char* call, const char* file,
                int line);

}  // namespace dist

#define NCCL_CHECK(nccl, call) ::dist::check_nccl((nccl), (call), #call, __FILE__, __LINE__)
#endif
