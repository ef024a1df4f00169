// What every program of the course begins with: its ranks, the common flags, a device to
// compute on, and a console. Acts and experiments receive all of it.
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
  // Called on all ranks, after MPI has started.
  Program(const std::string& name, const std::string& description);

  void declare_common();  // --device, --seed, --json and --threads

  // Called on all ranks, after all flags are declared. Reads them and sets up device, stream
  // and console. Returns the status with which all ranks must exit, if they must.
  std::optional<int> start(int argc, char** argv);

  Communicator comm;
  CommandLine flags;
  CommonOptions common;

  // Valid after start().
  DeviceChoice device;
  Console console{/*json=*/false, /*speaks=*/false};
  Stream stream{Device{}};
};

}  // namespace dist
