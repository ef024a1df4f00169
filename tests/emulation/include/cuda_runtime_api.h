// Emulates the part of the CUDA runtime that this project calls, for tests. The emulation runs
// on the CPU, is always labelled "emulated", and proves nothing about a GPU.
//
// The names, meanings and error codes are those of the CUDA Runtime API reference.
#pragma once

#include <cstddef>
#include <functional>
#include <numeric>

#define CUDART_VERSION 13000

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
  cudaErrorStreamCaptureUnmatched = 903,
  cudaErrorStreamCaptureUnjoined = 904,
  cudaErrorStreamCaptureIsolation = 905,
  cudaErrorCapturedEvent = 907,
};
enum cudaMemcpyKind { cudaMemcpyDefault = 4 };
// The other capture modes also forbid calls of other threads; nothing here may use them.
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1 };
enum cudaGraphNodeType {
  cudaGraphNodeTypeKernel = 0,
  cudaGraphNodeTypeMemcpy = 1,
  cudaGraphNodeTypeMemset = 2,
};
struct CUstream_st;
struct CUevent_st;
struct CUgraph_st;
struct CUgraphExec_st;
struct CUgraphNode_st;
using cudaStream_t = CUstream_st*;
using cudaEvent_t = CUevent_st*;
using cudaGraph_t = CUgraph_st*;
using cudaGraphExec_t = CUgraphExec_st*;
using cudaGraphNode_t = CUgraphNode_st*;

struct cudaFuncAttributes {};
enum cudaDeviceAttr { cudaDevAttrComputeCapabilityMajor = 75 };
constexpr unsigned cudaStreamNonBlocking = 1;

cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
constexpr unsigned cudaDeviceScheduleBlockingSync = 4;
constexpr unsigned cudaInitDeviceFlagsAreValid = 1;
cudaError_t cudaInitDevice(int device, unsigned device_flags, unsigned flags);
cudaError_t cudaDeviceGetPCIBusId(char* name, int length, int device);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaDeviceReset();
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel);
cudaError_t cudaGetLastError();
const char* cudaGetErrorString(cudaError_t error);
const char* cudaGetErrorName(cudaError_t error);

cudaError_t cudaMalloc(void** memory, std::size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaMallocHost(void** memory, std::size_t bytes);
cudaError_t cudaFreeHost(void* memory);
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total);
cudaError_t cudaMemset(void* memory, int value, std::size_t bytes);
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);

cudaError_t cudaEventCreate(cudaEvent_t* event);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end);

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* number);
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type);
constexpr unsigned long long cudaGraphInstantiateFlagUseNodePriority = 8;
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable);

namespace emulation {

int current_device();
int device_of_stream(cudaStream_t stream);

// Queues `work` on `stream` (null: the legacy default stream of the current GPU). The emulated
// cuBLAS and NCCL also queue their work with this function.
void enqueue(cudaStream_t stream, std::function<void()> work,
             cudaGraphNodeType type = cudaGraphNodeTypeKernel);

// What a launch and a library call check first. Each ends the program with a sentence if the
// work could not run on the GPU of `stream`: if `memory`, or a pointer among the arguments of a
// kernel, leads to pageable host memory or to another GPU's memory.
void check_memory(cudaStream_t stream, const void* memory, const char* user);
void check_arguments(cudaStream_t stream, const void* arguments, std::size_t bytes);
// A launch on a stream of a GPU that is not current fails; cudaGetLastError then says so.
bool may_launch(cudaStream_t stream);
// Called on the GPU, before a kernel runs. Returns false if it faults (EMULATED_FAULT).
bool survives(int device);

// Calls body(i) for each i < n, in an order that depends on `seed`: blocks of indices in any
// order, and each block forwards or backwards.
template <class Body>
void in_any_order(std::size_t n, unsigned seed, const Body& body) {
  constexpr std::size_t kBlock = 64;
  const std::size_t blocks = (n + kBlock - 1) / kBlock;
  std::size_t stride = seed % blocks | 1;
  while (std::gcd(stride, blocks) != 1) ++stride;
  std::size_t block = seed % blocks;
  for (std::size_t count = 0; count < blocks; ++count, block = (block + stride) % blocks) {
    const std::size_t begin = block * kBlock;
    const std::size_t size = n - begin < kBlock ? n - begin : kBlock;
    const bool backwards = ((seed >> 16) + count) % 2 == 0;
    for (std::size_t k = 0; k < size; ++k) body(begin + (backwards ? size - 1 - k : k));
  }
}

unsigned next_seed();

// A kernel: calls body(i) for each i < n, then last() once.
template <class Body, class... Last>
void launch(cudaStream_t stream, std::size_t n, Body body, Last... last) {
  __builtin_clear_padding(&body);
  check_arguments(stream, &body, sizeof body);
  ((__builtin_clear_padding(&last), check_arguments(stream, &last, sizeof last)), ...);
  if (!may_launch(stream)) return;
  enqueue(stream, [device = device_of_stream(stream), n, body, last..., seed = next_seed()] {
    if (!survives(device)) return;
    in_any_order(n, seed, body);
    (last(), ...);
  });
}

}  // namespace emulation
