// Emulates the CUDA runtime: every stream is a thread with a queue, and an event is a mark in
// that queue (stream_thread.hpp).
//
// The emulation makes CUDA's promises about order and no others. Before each piece of work a
// stream may pause for a random time, so work that is not explicitly ordered runs out of order,
// and a missing event wait leads to a wrong number. EMULATED_SEED is the seed of the pauses.
#include "tests/emulation/device_memory.hpp"
#include "tests/emulation/stream_thread.hpp"

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace {

int environment_number(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : otherwise;
}

std::mutex streams_mutex;
// Shared pointers, as a stream may be destroyed while another thread waits for it (cudaFree).
// The map is never destroyed: the default stream's thread may still run when the program ends.
auto& streams = *new std::map<CUstream_st*, std::shared_ptr<CUstream_st>>;
std::map<const char*, std::size_t> pinned;  // begin -> bytes
thread_local cudaError_t last_error = cudaSuccess;
thread_local int the_device = 0;

cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

CUstream_st* new_stream() {
  static unsigned seed = static_cast<unsigned>(environment_number("EMULATED_SEED", 1));
  auto stream = std::make_shared<CUstream_st>(seed++);
  const std::lock_guard lock(streams_mutex);
  return streams.emplace(stream.get(), stream).first->first;
}

// Our streams are non-blocking, so the legacy default stream is no different from the others.
CUstream_st* resolve(cudaStream_t stream) {
  static CUstream_st* const the_default = new_stream();
  return stream != nullptr ? stream : the_default;
}

bool is_pageable(const void* memory) {
  if (emulation::is_device(memory)) return false;
  const auto* const address = static_cast<const char*>(memory);
  const std::lock_guard lock(streams_mutex);
  auto after = pinned.upper_bound(address);
  if (after == pinned.begin()) return true;
  --after;
  return address >= after->first + after->second;
}

int driver_version() {
  return environment_number("EMULATED_DRIVER", CUDART_VERSION);
}

int device_count() {
  return environment_number("EMULATED_GPUS", 4);
}

}  // namespace

namespace emulation {
void enqueue(cudaStream_t stream, std::function<void()> work) {
  resolve(stream)->push(std::move(work));
}
int current_device() {
  return the_device;
}
}  // namespace emulation

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  if (driver_version() < CUDART_VERSION) return remember(cudaErrorInsufficientDriver);
  *count = device_count();
  return remember(*count > 0 ? cudaSuccess : cudaErrorNoDevice);
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= device_count()) return remember(cudaErrorInvalidDevice);
  the_device = device;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* name, int length, int device) {
  if (device < 0 || device >= device_count()) return remember(cudaErrorInvalidDevice);
  std::snprintf(name, static_cast<std::size_t>(length), "0000:%02x:00.0", device);
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = driver_version();
  return cudaSuccess;
}
cudaError_t cudaGetLastError() {
  return std::exchange(last_error, cudaSuccess);
}
const char* cudaGetErrorName(cudaError_t) {
  return "emulated";
}
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInsufficientDriver: return "CUDA driver version is insufficient";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorNotReady: return "device not ready";
  }
  return "unknown error";
}

// The emulated card has only 1 GiB, so that running out of memory can be tested.
constexpr std::size_t kTotal = std::size_t{1} << 30;

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  if (bytes > kTotal) return remember(cudaErrorMemoryAllocation);
  *memory = emulation::allocate_device(bytes);
  return remember(*memory != nullptr ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void* memory) {
  // As in CUDA, cudaFree first waits for all queued work.
  std::vector<std::shared_ptr<CUstream_st>> all;
  {
    const std::lock_guard lock(streams_mutex);
    for (const auto& [key, stream] : streams) all.push_back(stream);
  }
  for (const auto& stream : all) stream->synchronize();
  if (memory != nullptr) emulation::free_device(memory);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  *memory = std::malloc(bytes);
  const std::lock_guard lock(streams_mutex);
  pinned[static_cast<const char*>(*memory)] = bytes;
  return remember(*memory != nullptr ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaFreeHost(void* memory) {
  {
    const std::lock_guard lock(streams_mutex);
    pinned.erase(static_cast<const char*>(memory));
  }
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = kTotal;
  *total = kTotal;
  return cudaSuccess;
}
cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  resolve(nullptr)->push([=] { std::memset(memory, value, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  resolve(stream)->push([=] { std::memcpy(to, from, bytes); });
  // With pageable host memory, the call returns when the memory may be used again. (CUDA may
  // return a little earlier from a copy to the device, but the program cannot tell.)
  if (is_pageable(to) || is_pageable(from)) resolve(stream)->synchronize();
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new_stream();
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  std::shared_ptr<CUstream_st> last;  // destroyed, with its thread, after unlocking
  const std::lock_guard lock(streams_mutex);
  const auto found = streams.find(stream);
  if (found == streams.end()) return remember(cudaErrorInvalidValue);
  last = std::move(found->second);
  streams.erase(found);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  resolve(stream)->synchronize();
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return resolve(stream)->is_idle() ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (event == nullptr) return remember(cudaErrorInvalidValue);
  if (const auto recording = event->latest) resolve(stream)->push([=] { recording->wait(); });
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const auto recording = std::make_shared<Recording>();
  event->latest = recording;
  resolve(stream)->push([recording] { recording->finish(); });
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return !event->latest || event->latest->is_done() ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (const auto recording = event->latest) recording->wait();
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  if (!begin->latest || !end->latest) return remember(cudaErrorInvalidValue);
  if (!begin->latest->is_done() || !end->latest->is_done()) return remember(cudaErrorNotReady);
  *milliseconds =
      std::chrono::duration<float, std::milli>(end->latest->time - begin->latest->time).count();
  return cudaSuccess;
}
