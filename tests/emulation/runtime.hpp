// What the files of the emulated CUDA runtime share.
#pragma once

#include "tests/emulation/stream_thread.hpp"

#include <cuda_runtime_api.h>

#include <atomic>
#include <memory>
#include <vector>

namespace emulation {

int environment_number(const char* name, int otherwise);
int my_rank();
// Takes as long as a library's start may take: EMULATED_START_MS milliseconds (0).
void start_slowly();
// "R:N" in the environment: counts its calls and returns true for the N-th on rank R. Each
// caller has a counter of its own.
bool is_chosen(const char* variable, std::atomic<int>& calls);

// Returns `error`, or the current GPU's fault, which every call reports from then on.
cudaError_t result(cudaError_t error = cudaSuccess);

// The stream itself, or for null the legacy default stream of the current GPU.
CUstream_st* resolve(cudaStream_t stream);
std::shared_ptr<CUstream_st> new_stream(int device);
std::vector<std::shared_ptr<CUstream_st>> streams_of(int device);

// What the program has called so far. A query of a stream counts as a wait.
struct Counters {
  std::atomic<long> waits, pageable_copies, allocations, events;
};
inline Counters counters;

inline thread_local int the_device = 0;  // the calling thread's current GPU
// Those that the thread has begun and not ended.
inline thread_local std::vector<std::shared_ptr<Capture>> captures;

// A call that a capture does not allow, because it would wait or has an effect only once.
// Returns true if `stream` captures; its capture is then invalid.
bool breaks_capture(CUstream_st* stream);

// A call that CUDA forbids to a thread that captures in thread-local mode, because it waits, or
// may have to. Returns true if the thread captures; its captures are then invalid.
bool breaks_captures();

// Ends the program with a sentence.
[[noreturn]] void stop(const char* user, const char* mistake);

}  // namespace emulation
