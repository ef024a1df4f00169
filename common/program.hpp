// What every program of the course sets up first: its ranks, the common flags, a device to
// compute on, and a console. Acts and experiments receive the whole Program.
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
  // Called on all ranks, after MPI has started. `why_no_kernel`: see choose_device.
  Program(const std::string& name, const std::string& description,
          std::string (*why_no_kernel)() = nullptr)
      : comm(Communicator::world()), flags(name, description) {
    flags.check_together(
        [this, why_no_kernel] { device = choose_device(comm, common.device, why_no_kernel); });
  }

  // Adds --device, --seed, --threads and, for a program that prints `rows`, --json.
  void declare_common(bool rows = true) { common.declare(flags, rows); }

  // Called on all ranks, after all flags are declared. Reads the flags and sets up the device,
  // stream and console. If all ranks must exit, returns their exit status; otherwise nullopt.
  std::optional<int> start(int argc, char** argv) {
    if (const auto exit = parse(flags, comm, argc, argv)) return exit;
    console = Console(common.json, comm.rank() == 0);
    stream = Stream(device.device, common.threads);
    return std::nullopt;
  }

  Communicator comm;
  CommandLine flags;
  CommonOptions common;

  // Valid after start().
  DeviceChoice device;
  Console console{/*json=*/false, /*speaks=*/false};
  Stream stream{Device{}};
};

}  // namespace dist
