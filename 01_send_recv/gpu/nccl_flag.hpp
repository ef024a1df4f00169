// The flag with which a reader asks for NCCL.
#pragma once

#include "01_send_recv/gpu/why_no_nccl.hpp"
#include "common/check.hpp"
#include "common/program.hpp"

#include <string>

namespace dist {

// Called on all ranks, when `program` has started: why its ranks cannot use NCCL; empty if they
// can.
inline std::string why_no_nccl_here(const Program& program) {
  return why_no_nccl(program.comm, program.device.device);
}

// `flag` is refused if `wanted`, its value, is "nccl" where NCCL cannot run.
inline void refuse_impossible_nccl(Program& program, const std::string& flag,
                                   const std::string& wanted) {
  program.flags.check_together([&program, flag, &wanted] {
    if (wanted != "nccl") return;
    const std::string obstacle = why_no_nccl_here(program);
    if (!obstacle.empty()) throw Error(flag + ": nccl: " + obstacle);
  });
}

}  // namespace dist
