// NCCL_CHECK throws Error with NCCL's own message. Only files named *nccl* include this header.
#pragma once

#include "01_send_recv/gpu/nccl_communicator.hpp"

#if DIST_WITH_NCCL
#include <nccl.h>

namespace dist {

// Our communicators are non-blocking (ncclConfig_t): a call may return ncclInProgress, and
// until it completes, no other call may use the communicator. This function therefore waits for
// the call, and throws Error if NCCL reports an error or the communicator's time limit has
// passed.
void check_nccl(NcclCommunicator& nccl, ncclResult_t status, const char* call, const char* file,
                int line);

}  // namespace dist

#define NCCL_CHECK(nccl, call) ::dist::check_nccl((nccl), (call), #call, __FILE__, __LINE__)
#endif
