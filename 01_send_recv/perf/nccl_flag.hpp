// Checks the flag that selects NCCL.
#pragma once

#include "01_send_recv/gpu/nccl_communicator.hpp"
#include "common/check.hpp"
#include "common/program.hpp"

#include <string>

namespace dist {

// Returns why the ranks of `program`, whose device is already chosen, cannot use NCCL; empty if
// they can. Called on all ranks.
inline std::string why_no_nccl_here(const Program& program) {
  const NcclSupport choice = can_use_nccl(program.comm, program.device.device);
  return choice.possible ? "" : choice.reason;
}

// Once the flags are parsed, `no_nccl` holds the result of why_no_nccl_here. `flag` is refused
// if its value, `wanted`, is "nccl" and the ranks cannot use NCCL. Both `wanted` and `no_nccl`
// must outlive the parsing.
inline void check_nccl_flag(Program& program, const std::string& flag,
                            const std::string& wanted, std::string& no_nccl) {
  program.flags.check_together([&program, flag, &wanted, &no_nccl] {
    no_nccl = why_no_nccl_here(program);
    if (wanted == "nccl" && !no_nccl.empty()) throw Error(flag + ": nccl: " + no_nccl);
  });
}

}  // namespace dist
