// Where memory is located and work runs: on the CPU or one of the host's GPUs.
#pragma once

#include "common/communicator.hpp"

#include <string>

// A function that a kernel may call, too.
#if defined(__CUDACC__)
#define DIST_HOST_DEVICE __host__ __device__
#else
#define DIST_HOST_DEVICE
#endif

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

// Makes a GPU the current one of the calling thread, which is ours, until it ends.
void make_current(Device device);

// A program's first line, such as "4 ranks, tensors on cpu (no GPU on this host)".
std::string describe_run(int ranks, const DeviceChoice& choice);

// Makes a GPU the calling thread's current one for as long as the object lives. CUDA allocates
// memory and creates streams and events on the current GPU, and each thread has its own.
//
// Not for the whole life of a thread, which begins with GPU 0: to return there at its end would
// make a context on that GPU (from CUDA 12 on), of some 500 MB and for whatever rank.
class CurrentDevice {
 public:
  explicit CurrentDevice(Device device);
  ~CurrentDevice();
  CurrentDevice(CurrentDevice&&) = delete;

 private:
  [[maybe_unused]] int before_ = -1;  // or the number of the GPU to return to
};

// Called on all ranks; returns a GPU on each of them or the CPU on each, because messages,
// memory and algorithms depend on the kind of device. `request` is auto, cpu or cuda. If a
// single rank cannot use a GPU or was not to, the reason names it. Throws Error on all ranks,
// naming --device, if cuda is requested but not possible.
DeviceChoice choose_device(const Communicator& comm, const std::string& request,
                           std::string (*why_no_kernel)() = nullptr);

// The GPU of the rank with this place on its host, or the CPU if that GPU cannot be used. Rank
// k takes GPU k modulo the number of GPUs, so four ranks can share one GPU. Makes the GPU
// current, then calls `why_no_kernel`, which says why the program's kernels cannot run there
// (empty if they can). Sends no message: what a single rank may not decide.
DeviceChoice find_gpu(int local_rank, std::string (*why_no_kernel)() = nullptr);

}  // namespace dist
