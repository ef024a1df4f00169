// Where memory lies and work runs: a CPU, or one of the host's GPUs.
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
  std::string reason;  // one sentence for the reader, such as "no GPU on this host"
};

// "4 ranks, tensors on cpu (no GPU on this host)": the first line of a program.
std::string describe_run(int ranks, const DeviceChoice& choice);

// GPUs that this process can use: 0 in a build without CUDA, without a driver or without a
// card.
int cuda_device_count();

// Makes a GPU the calling thread's current one; nothing for the CPU.
void make_current(Device device);

// Chooses this rank's device. `request` is auto, cpu or cuda; `local_rank` is the rank's place
// on its host: rank k takes GPU k modulo their number, so four ranks can share one GPU. Makes
// the GPU current. Throws Error naming --device when cuda is asked for and there is none.
DeviceChoice choose_device(const std::string& request, int local_rank);

}  // namespace dist
