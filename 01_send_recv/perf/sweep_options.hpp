// The flags of a measurement: the sizes of messages, and whether NCCL can be chosen.
#pragma once

#include "01_send_recv/gpu/nccl_communicator.hpp"
#include "01_send_recv/measure.hpp"
#include "common/check.hpp"
#include "common/program.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace dist {

struct SweepOptions {
  std::size_t min_bytes;
  std::size_t max_bytes;

  // Adds --min-bytes and --max-bytes (at least `smallest`), which must be in order and hold
  // whole floats. If only one is given, the other limit is adjusted to it where necessary.
  void declare(CommandLine& command_line, std::size_t smallest) {
    constexpr std::int64_t kLargest = std::int64_t{1} << 30;
    const auto least = static_cast<std::int64_t>(smallest);
    command_line.number("--min-bytes", min_bytes, least, kLargest,
                        "smallest message; 1K, 1M and 1G are powers of 2", "KMG");
    command_line.number("--max-bytes", max_bytes, least, kLargest, "largest message", "KMG");
    command_line.check([&command_line, this] {
      for (const std::string flag : {"--min-bytes", "--max-bytes"}) {
        const std::size_t bytes = flag == "--min-bytes" ? min_bytes : max_bytes;
        if (bytes % sizeof(float) == 0) continue;
        throw Error(flag + ": " + std::to_string(bytes) + " is not a whole number of floats");
      }
      if (!command_line.given("--max-bytes")) max_bytes = std::max(max_bytes, min_bytes);
      if (!command_line.given("--min-bytes")) min_bytes = std::min(min_bytes, max_bytes);
      if (min_bytes > max_bytes) throw Error("--min-bytes: larger than --max-bytes");
    });
  }

  std::vector<std::size_t> sizes() const { return sweep(min_bytes, max_bytes); }
};

// Called on all ranks, once the device is chosen: why they cannot use NCCL; empty if they can.
inline std::string why_no_nccl_here(const Program& program) {
  const NcclSupport choice = can_use_nccl(program.comm, program.device.device);
  return choice.possible ? "" : choice.reason;
}

// Once the flags are parsed, `no_nccl` is why_no_nccl_here(). If this is not empty, `flag` may
// not be "nccl". `wanted`, which is its value, and `no_nccl` must outlive the parsing.
inline void check_nccl_flag(Program& program, const std::string& flag,
                            const std::string& wanted, std::string& no_nccl) {
  program.flags.check_together([&program, flag, &wanted, &no_nccl] {
    no_nccl = why_no_nccl_here(program);
    if (wanted == "nccl" && !no_nccl.empty()) throw Error(flag + ": nccl: " + no_nccl);
  });
}

}  // namespace dist
