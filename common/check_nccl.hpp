// NCCL_CHECK: throws Error with NCCL's own text. Included only by files named *nccl*.
#pragma once

#include "common/check.hpp"

#if DIST_WITH_NCCL
#include <nccl.h>

namespace dist {

void check_nccl(ncclResult_t status, const char* call, const char* file, int line);

}  // namespace dist

#define NCCL_CHECK(call) ::dist::check_nccl((call), #call, __FILE__, __LINE__)
#endif
