// Where memory is and work runs: the CPU, or one of the host's GPUs.
#pragma once

#include <string>

namespace dist {

enum class DeviceType { cpu, cuda };

struct Device {
  DeviceType type = DeviceType::cpu;
  int index = 0;  // which GPU of this host; 0 on the CPU

  bool is_cpu() const { return type == DeviceType::cpu; }
  bool operator==(const Device&) const = default;
};

// "cpu" or "cuda:0".
std::string to_string(Device device);

struct DeviceChoice {
  Device device;
  std::string reason;  // a few words for the reader, such as "no GPU on this host"
};

// "4 ranks, tensors on cpu (no GPU on this host)": the first line of a program.
std::string describe_run(int ranks, const DeviceChoice& choice);

// The number of GPUs that this process can use: 0 if there is no CUDA in this build, no driver
// or no card.
int cuda_device_count();

// Makes a GPU the calling thread's current one. Does nothing for the CPU.
void make_current(Device device);

// Chooses this rank's device. `request` is auto, cpu or cuda; `local_rank` is the rank's place
// on its host. Rank k takes GPU k modulo the number of GPUs, so four ranks can share one GPU.
// Makes the GPU current. Throws Error naming --device if `request` is cuda and there is no GPU.
DeviceChoice choose_device(const std::string& request, int local_rank);

}  // namespace dist
