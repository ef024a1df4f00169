// Emulates the CUDA runtime: every stream is a thread with a queue, and an event is a mark in
// that queue (runtime.hpp).
//
// The emulation makes CUDA's promises and no others. Before each piece of work a stream may
// pause for a random time, so work without an explicit order may run out of order, and a
// missing event wait then leads to a wrong number. A call waits only where CUDA promises that
// it does: cudaFree, cudaStreamDestroy and copies from or to pageable memory do not.
//
//   EMULATED_SEED    the seed of the pauses and of the order of a kernel's indices; each rank
//                    derives its own from it
//   EMULATED_GPUS    the number of GPUs on this host (4)
//   EMULATED_DRIVER  the driver's CUDA version, for example 12040
//   EMULATED_OLD     1: the GPUs are older than the kernels
//   EMULATED_START_MS  how long the start of CUDA takes, as well as of a cuBLAS handle, of
//                    an NCCL communicator, and of its connections
//   EMULATED_COUNTS  1: print the counters at the end
//   EMULATED_FAULT   "R:N" makes the N-th kernel of rank R read an illegal address
#include "tests/emulation/runtime.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace emulation {
constexpr std::size_t kMostGpus = kPinned;

// Never destroyed, because streams may still run when the program ends.
static auto& gpus = *new std::array<Gpu, kMostGpus>;
// Which GPUs this process has a context on. CUDA makes one when a GPU becomes current.
static std::array<std::atomic<bool>, kMostGpus> has_context{};
// Whether a host that waits for the GPU sleeps. By default, CUDA spins.
static std::array<std::atomic<bool>, kMostGpus> sleeps{};
static thread_local cudaError_t last_error = cudaSuccess;

static std::mutex streams_mutex;
static auto& streams = *new std::vector<std::weak_ptr<CUstream_st>>;

static Gpu& gpu(int device) {
  return gpus[static_cast<std::size_t>(device)];
}

static int driver_version() {
  return environment_number("EMULATED_DRIVER", CUDART_VERSION);
}

static int device_count() {
  return environment_number("EMULATED_GPUS", 4);
}

static void print_counts() {
  const auto contexts =
      std::ranges::count_if(has_context, [](const auto& has) { return has.load(); });
  std::fprintf(stderr,
               "waits %ld, pageable copies %ld, allocations %ld, events %ld, contexts %ld, "
               "spinning %ld\n",
               counters.waits.load(), counters.pageable_copies.load(),
               counters.allocations.load(), counters.events.load(), static_cast<long>(contexts),
               counters.spinning.load());
}

void count_wait() {
  ++counters.waits;
  if (!sleeps[static_cast<std::size_t>(the_device)]) ++counters.spinning;
}

int environment_number(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : otherwise;
}

int my_rank() {
  static const int rank = environment_number("OMPI_COMM_WORLD_RANK", 0);
  return rank;
}

void start_slowly() {
  std::this_thread::sleep_for(
      std::chrono::milliseconds(environment_number("EMULATED_START_MS", 0)));
}

bool is_chosen(const char* variable, std::atomic<int>& calls) {
  int rank = -1;
  int number = 0;
  const char* text = std::getenv(variable);
  if (text == nullptr || std::sscanf(text, "%d:%d", &rank, &number) != 2) return false;
  return rank == my_rank() && ++calls == number;
}

cudaError_t result(cudaError_t error) {
  const cudaError_t fault = gpu(the_device).fault;
  if (fault != cudaSuccess) error = fault;
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

std::shared_ptr<CUstream_st> new_stream(int device) {
  auto stream = std::make_shared<CUstream_st>(device, gpu(device), next_seed());
  stream->start();
  const std::lock_guard lock(streams_mutex);
  std::erase_if(streams, [](const auto& each) { return each.expired(); });
  streams.push_back(stream);
  return stream;
}

std::vector<std::shared_ptr<CUstream_st>> streams_of(int device) {
  std::vector<std::shared_ptr<CUstream_st>> found;
  const std::lock_guard lock(streams_mutex);
  for (const auto& each : streams) {
    const auto stream = each.lock();
    if (stream && stream->device == device) found.push_back(stream);
  }
  return found;
}

// Our streams are non-blocking, so the legacy default stream is no different from the others.
CUstream_st* resolve(cudaStream_t stream) {
  static std::mutex mutex;
  static auto& defaults = *new std::array<std::shared_ptr<CUstream_st>, kMostGpus>;
  if (stream != nullptr) return stream;
  const std::lock_guard lock(mutex);
  auto& mine = defaults[static_cast<std::size_t>(the_device)];
  if (!mine) mine = new_stream(the_device);
  return mine.get();
}

bool breaks_capture(CUstream_st* stream) {
  if (stream->point.capture) stream->point.capture->valid = false;
  return stream->point.capture != nullptr;
}

bool breaks_captures() {
  for (const auto& capture : captures) capture->valid = false;
  return !captures.empty();
}

void stop(const char* user, const char* mistake) {
  std::fprintf(stderr, "emulated CUDA: %s got %s\n", user, mistake);
  std::_Exit(1);
}

int current_device() {
  return the_device;
}

int device_of_stream(cudaStream_t stream) {
  return resolve(stream)->device;
}

unsigned next_seed() {
  static std::atomic<unsigned> count = 0;
  const auto seed = static_cast<unsigned>(environment_number("EMULATED_SEED", 1));
  return seed * 1000003U + static_cast<unsigned>(my_rank()) * 7919U + count++;
}

void enqueue(cudaStream_t stream, std::function<void()> work, cudaGraphNodeType type) {
  CUstream_st* const queue = resolve(stream);
  if (queue->point.capture) return queue->point.add(type, std::move(work));
  queue->push([queue, work = std::move(work)] {
    if (queue->gpu.fault == cudaSuccess) work();
  });
}

bool may_launch(cudaStream_t stream) {
  CUstream_st* const queue = resolve(stream);
  if (queue->device != the_device) {
    result(cudaErrorInvalidResourceHandle);
    return false;
  }
  return result() == cudaSuccess;
}

bool survives(int device) {
  static std::atomic<int> kernels = 0;
  if (!is_chosen("EMULATED_FAULT", kernels)) return true;
  // The host learns of the fault later: from whichever call comes after it.
  gpu(device).fault = cudaErrorIllegalAddress;
  return false;
}

}  // namespace emulation

using namespace emulation;

cudaError_t cudaGetDeviceCount(int* count) {
  static const bool prints =
      environment_number("EMULATED_COUNTS", 0) != 0 && std::atexit(print_counts) == 0;
  static_cast<void>(prints);
  *count = 0;
  if (driver_version() < CUDART_VERSION) return result(cudaErrorInsufficientDriver);
  *count = device_count();
  return result(*count > 0 ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaGetDevice(int* device) {
  *device = the_device;
  return result();
}

cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= device_count()) return result(cudaErrorInvalidDevice);
  static const bool started = (start_slowly(), true);  // creates the GPU's context
  static_cast<void>(started);
  has_context[static_cast<std::size_t>(device)] = true;
  the_device = device;
  return result();
}

cudaError_t cudaInitDevice(int device, unsigned device_flags, unsigned flags) {
  if (device < 0 || device >= device_count()) return result(cudaErrorInvalidDevice);
  has_context[static_cast<std::size_t>(device)] = true;
  sleeps[static_cast<std::size_t>(device)] =
      (flags & cudaInitDeviceFlagsAreValid) != 0 &&
      (device_flags & cudaDeviceScheduleBlockingSync) != 0;
  return result();
}

cudaError_t cudaDeviceGetPCIBusId(char* name, int length, int device) {
  if (device < 0 || device >= device_count()) return result(cudaErrorInvalidDevice);
  std::snprintf(name, static_cast<std::size_t>(length), "0000:%02x:00.0", device);
  return result();
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = driver_version();
  return result();
}

// The major number.
static int compute_capability() {
  return environment_number("EMULATED_CAPABILITY", 9);
}
bool emulation::has_bf16() {
  return compute_capability() >= 8;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = compute_capability();
  return result();
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes*, const void*) {
  const bool old = environment_number("EMULATED_OLD", 0) != 0;
  return result(old ? cudaErrorNoKernelImageForDevice : cudaSuccess);
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = result();  // a GPU's fault stays
  return error != cudaSuccess ? error : std::exchange(last_error, cudaSuccess);
}

const char* cudaGetErrorName(cudaError_t error) {
  static thread_local std::string name;
  name = "emulated error " + std::to_string(static_cast<int>(error));
  return name.c_str();
}

// Of the errors that tests read; the numbers of the others are in cuda_runtime_api.h.
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorNoKernelImageForDevice:
      return "no kernel image is available for execution on the device";
    case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
    default: return "see the number";
  }
}

cudaError_t cudaDeviceReset() {
  return result();  // there are no contexts
}

cudaError_t cudaDeviceSynchronize() {
  count_wait();
  if (breaks_captures()) return result(cudaErrorStreamCaptureUnsupported);
  for (const auto& stream : streams_of(the_device)) stream->synchronize();
  return result();
}
