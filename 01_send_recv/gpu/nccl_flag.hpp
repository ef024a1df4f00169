// The flag with which a reader asks for NCCL.
#pragma once

#include "01_send_recv/gpu/why_no_nccl.hpp"
#include "common/check.hpp"
#include "common/program.hpp"

#include <string>

namespace dist {

// Called on all ranks: why those of `program`, whose device is chosen, cannot use NCCL; empty
// if they can.
inline std::string why_no_nccl_here(const Program& program) {
  return why_no_nccl(program.comm, program.device.device);
}

// When the flags are read, `no_nccl` holds the answer; and `flag` is refused if `wanted`, its
// value, is "nccl" all the same. Both must outlive the reading.
inline void check_nccl_flag(Program& program, const std::string& flag,
                            const std::string& wanted, std::string& no_nccl) {
  program.flags.check_together([&program, flag, &wanted, &no_nccl] {
    no_nccl = why_no_nccl_here(program);
    if (wanted == "nccl" && !no_nccl.empty()) throw Error(flag + ": nccl: " + no_nccl);
  });
}

}  // namespace dist
