// What every program of the course begins with: its ranks, the flags that all programs have, a
// device to compute on, and one voice. Acts and experiments are handed the whole.
#pragma once

#include "common/command_line.hpp"
#include "common/communicator.hpp"
#include "common/console.hpp"
#include "common/device.hpp"
#include "common/stream.hpp"

#include <optional>
#include <string>

namespace dist {

struct Program {
  // Called on all ranks, when MPI has started.
  Program(const std::string& name, const std::string& description);

  void declare_common();  // --device, --seed, --json and --threads

  // Called on all ranks, when all flags are declared: reads them and makes device, stream and
  // console. The status with which all ranks must leave, if they must.
  std::optional<int> start(int argc, char** argv);

  Communicator comm;
  CommandLine flags;
  CommonOptions common;

  // From start() on.
  DeviceChoice device;
  Console console{/*json=*/false, /*speaks=*/false};
  Stream stream{Device{}};
};

}  // namespace dist
