// Where memory is located and work runs: on the CPU or one of the host's GPUs.
#pragma once

#include <string>

namespace dist {

enum class DeviceType { cpu, cuda };

struct Device {
  DeviceType type = DeviceType::cpu;
  int index = 0;  // the number of the GPU on this host; 0 for the CPU

  bool is_cpu() const { return type == DeviceType::cpu; }
  bool operator==(const Device&) const = default;
};

// "cpu" or "cuda:0".
std::string to_string(Device device);

struct DeviceChoice {
  Device device;
  std::string reason;  // for display, such as "no GPU on this host"
};

// A program's first line, such as "4 ranks, tensors on cpu (no GPU on this host)".
std::string describe_run(int ranks, const DeviceChoice& choice);

// The number of GPUs that this process can use: 0 if the build lacks CUDA, or the host lacks a
// driver or a card.
int cuda_device_count();

// Makes a GPU the calling thread's current one. Does nothing for the CPU.
void make_current(Device device);

// Chooses this rank's device. `request` is auto, cpu or cuda; `local_rank` is the rank's place
// on its host. Rank k takes GPU k modulo the number of GPUs, so four ranks can share one GPU.
// Makes the GPU current. Throws Error naming --device if `request` is cuda and there is no GPU.
DeviceChoice choose_device(const std::string& request, int local_rank);

}  // namespace dist
