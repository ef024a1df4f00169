// NCCL_CHECK throws Error with NCCL's own message. Only files named *nccl* include this header.
#pragma once

#include "01_send_recv/gpu/nccl_communicator.hpp"

#if DIST_WITH_NCCL
#include <nccl.h>

namespace dist {

// Ends the call that begin_call began. Throws Error if NCCL reports an error, or if
// NcclWatchdog has ended the call.
void check_nccl(NcclCommunicator& nccl, ncclResult_t status, const char* call, const char* file,
                int line);

}  // namespace dist

#define NCCL_CHECK(nccl, call) \
  ::dist::check_nccl((nccl), ((nccl).begin_call(), (call)), #call, __FILE__, __LINE__)
#endif
