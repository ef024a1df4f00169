#include "common/program.hpp"

#include "common/check.hpp"
#include "common/why_no_nccl.hpp"

namespace dist {

Program::Program(const std::string& name, const std::string& description)
    : comm(Communicator::world()), flags(name, description) {
  flags.check([this] { device = choose_device(common.device, comm.local_rank()); });
}

void Program::declare_common() {
  common.declare(flags);
}

void Program::declare_common(const std::string& nccl_flag, const std::string& wanted) {
  declare_common();
  flags.check_together([this, nccl_flag, &wanted] {
    no_nccl = why_no_nccl(comm, device.device);
    if (wanted == "nccl" && !no_nccl.empty()) throw Error(nccl_flag + ": nccl: " + no_nccl);
  });
}

std::optional<int> Program::start(int argc, char** argv) {
  if (const auto exit = parse(flags, comm, argc, argv)) return exit;
  console = Console(common.json, comm.rank() == 0);
  stream = Stream(device.device, common.threads);
  return std::nullopt;
}

}  // namespace dist
