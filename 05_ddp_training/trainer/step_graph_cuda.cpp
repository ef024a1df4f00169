#include "05_ddp_training/trainer/step_graph.hpp"
#include "common/check_cuda.hpp"
#include "common/device.hpp"

#include <algorithm>
#include <vector>

namespace dist {

#if DIST_WITH_CUDA

// Kernels only: NCCL and events may add nodes of other types, which cost little.
static std::size_t count_kernels(cudaGraph_t graph) {
  std::size_t count = 0;
  CUDA_CHECK(cudaGraphGetNodes(graph, nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  CUDA_CHECK(cudaGraphGetNodes(graph, nodes.data(), &count));
  return static_cast<std::size_t>(std::ranges::count_if(nodes, [](cudaGraphNode_t node) {
    cudaGraphNodeType type{};
    CUDA_CHECK(cudaGraphNodeGetType(node, &type));
    return type == cudaGraphNodeTypeKernel;
  }));
}

std::shared_ptr<void> StepGraph::capture(const std::function<void()>& queue_step) {
  const CurrentDevice current(stream_.device());
  // Other threads, such as a watchdog, may go on calling CUDA.
  CUDA_CHECK(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal));
  cudaGraph_t graph = nullptr;
  try {
    queue_step();
  } catch (...) {
    cudaStreamEndCapture(stream_.get(), &graph);  // otherwise the stream accepts nothing else
    if (graph != nullptr) cudaGraphDestroy(graph);
    throw;
  }
  CUDA_CHECK(cudaStreamEndCapture(stream_.get(), &graph));
  kernels_ = count_kernels(graph);
  cudaGraphExec_t executable = nullptr;
  // Otherwise all kernels would have the priority of the stream that launches them.
  const cudaError_t status =
      cudaGraphInstantiate(&executable, graph, cudaGraphInstantiateFlagUseNodePriority);
  cudaGraphDestroy(graph);
  CUDA_CHECK(status);
  return {executable, cudaGraphExecDestroy};
}

bool StepGraph::run(const Batch& batch, const std::function<void()>& queue_step) {
  constexpr std::size_t kFirstPlain = 3;  // steps before the first capture
  constexpr std::size_t kPlainEvery = 100;
  const std::size_t step = steps_;
  if (batch.place.ends_step()) ++steps_;
  bool plain = !enabled_ || step < kFirstPlain || step % kPlainEvery == 0;
  const Batch::Place& place = batch.place;
  const Kind kind{batch.rows(), place.parts, place.part == 0, place.ends_step()};
  // The first step of a kind allocates what the kind needs.
  if (!plain) plain = graphs_.try_emplace(kind).second;
  if (plain) {
    queue_step();
    return true;
  }
  std::shared_ptr<void>& graph = graphs_[kind];
  if (!graph) graph = capture(queue_step);
  CUDA_CHECK(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph.get()), stream_.get()));
  return false;
}

#else

bool StepGraph::run(const Batch&, const std::function<void()>& queue_step) {
  queue_step();
  return true;
}

#endif

}  // namespace dist
