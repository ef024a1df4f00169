// What a capture makes of calls: nodes of a graph, which run only when the graph is launched.
#include "tests/support/mpi_test.hpp"

#include <cuda_runtime_api.h>

#include <array>
#include <functional>
#include <vector>

TEST_CASE("a capture turns calls into nodes, and its events have no time") {
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  void* memory = nullptr;
  cudaMalloc(&memory, 8);
  cudaEvent_t event = nullptr;
  cudaEventCreate(&event);
  cudaEvent_t other = nullptr;
  cudaEventCreate(&other);
  cudaEventRecord(event, stream);
  cudaStreamSynchronize(stream);

  cudaGraph_t graph = nullptr;
  bool done = false;
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  emulation::enqueue(stream, [&] { done = true; });
  cudaMemcpyAsync(memory, static_cast<char*>(memory) + 4, 4, cudaMemcpyDefault, stream);
  cudaEventRecord(event, stream);
  CHECK(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  cudaStreamSynchronize(stream);
  CHECK_FALSE(done);
  float milliseconds = 0;
  CHECK(cudaEventElapsedTime(&milliseconds, event, event) == cudaErrorCapturedEvent);
  CHECK(cudaGetLastError() == cudaErrorCapturedEvent);

  // A call that may wait is forbidden to the thread that captures, whatever its stream is.
  void* pinned = nullptr;
  cudaMallocHost(&pinned, 4);
  const std::vector<std::function<cudaError_t()>> waiting{
      [&] { return cudaFreeHost(pinned); }, [&] { return cudaMemset(memory, 0, 4); },
      [] { return cudaDeviceSynchronize(); }, [] { return cudaStreamSynchronize(nullptr); },
      [&] { return cudaEventSynchronize(other); }};
  for (const auto& call : waiting) {
    cudaGraph_t none = nullptr;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    CHECK(call() == cudaErrorStreamCaptureUnsupported);
    CHECK(cudaStreamEndCapture(stream, &none) == cudaErrorStreamCaptureInvalidated);
    cudaGetLastError();
    CHECK(call() == cudaSuccess);
  }

  std::array<cudaGraphNode_t, 3> nodes{};
  std::size_t count = nodes.size();
  cudaGraphGetNodes(graph, nodes.data(), &count);
  REQUIRE(count == 2);
  cudaGraphNodeType type{};
  cudaGraphNodeGetType(nodes[0], &type);
  CHECK(type == cudaGraphNodeTypeKernel);
  cudaGraphNodeGetType(nodes[1], &type);
  CHECK(type == cudaGraphNodeTypeMemcpy);

  cudaGraphDestroy(graph);
  cudaEventDestroy(event);
  cudaEventDestroy(other);
  cudaFree(memory);
  cudaStreamDestroy(stream);
}
