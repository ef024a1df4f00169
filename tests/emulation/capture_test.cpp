// What a capture makes of calls: nodes of a graph, which run only when the graph is launched.
#include "tests/support/mpi_test.hpp"

#include <cuda_runtime_api.h>

#include <array>

TEST_CASE("a capture turns calls into nodes, and its events have no time") {
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  void* memory = nullptr;
  cudaMalloc(&memory, 8);
  cudaEvent_t event = nullptr;
  cudaEventCreate(&event);
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

  std::array<cudaGraphNode_t, 3> nodes{};
  std::size_t count = nodes.size();
  cudaGraphGetNodes(graph, nodes.data(), &count);
  REQUIRE(count == 2);
  cudaGraphNodeType type{};
  cudaGraphNodeGetType(nodes[0], &type);
  CHECK(type == cudaGraphNodeTypeKernel);
  cudaGraphNodeGetType(nodes[1], &type);
  CHECK(type == cudaGraphNodeTypeMemcpy);

  CHECK(cudaGetLastError() == cudaErrorCapturedEvent);
  cudaGraphDestroy(graph);
  cudaEventDestroy(event);
  cudaFree(memory);
  cudaStreamDestroy(stream);
}
