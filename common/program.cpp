#include "common/program.hpp"

namespace dist {

Program::Program(const std::string& name, const std::string& description,
                 std::string (*why_no_kernel)())
    : comm(Communicator::world()), flags(name, description) {
  flags.check([this, why_no_kernel] {
    device = choose_device(common.device, comm.local_rank(), why_no_kernel);
  });
}

std::optional<int> Program::start(int argc, char** argv) {
  if (const auto exit = parse(flags, comm, argc, argv)) return exit;
  console = Console(common.json, comm.rank() == 0);
  stream = Stream(device.device, common.threads);
  return std::nullopt;
}

}  // namespace dist
