#include "05_ddp_training/trainer/step_graph.hpp"

#include "common/check_cuda.hpp"
#include "common/device.hpp"

namespace dist {
namespace {

constexpr std::size_t kFirstPlain = 3;  // calls before the first capture
constexpr std::size_t kPlainEvery = 100;

}  // namespace

#if DIST_WITH_CUDA

struct StepGraph::Graph {
  cudaGraphExec_t executable = nullptr;

  ~Graph() { cudaGraphExecDestroy(executable); }
};

void StepGraph::capture(const Kind& kind, const std::function<void()>& queue_step) {
  const CurrentDevice current(stream_.device());
  // Other threads, such as a watchdog, may go on calling CUDA.
  CUDA_CHECK(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal));
  queue_step();
  cudaGraph_t graph = nullptr;
  CUDA_CHECK(cudaStreamEndCapture(stream_.get(), &graph));
  CUDA_CHECK(cudaGraphGetNodes(graph, nullptr, &nodes_));
  auto made = std::make_unique<Graph>();
  const cudaError_t status = cudaGraphInstantiate(&made->executable, graph, 0);
  cudaGraphDestroy(graph);
  CUDA_CHECK(status);
  graphs_[kind] = std::move(made);
}

void StepGraph::run(const Batch& batch, const std::function<void()>& queue_step) {
  const std::size_t call = calls_++;
  if (!enabled_ || call < kFirstPlain || call % kPlainEvery == 0) return queue_step();
  const Kind kind{batch.rows(), batch.place.part, batch.place.parts};
  const auto [found, is_new] = graphs_.try_emplace(kind);
  if (is_new) return queue_step();  // allocates what this kind needs
  if (!found->second) capture(kind, queue_step);
  CUDA_CHECK(cudaGraphLaunch(graphs_[kind]->executable, stream_.get()));
}

#else

struct StepGraph::Graph {};

void StepGraph::capture(const Kind&, const std::function<void()>&) {}

void StepGraph::run(const Batch&, const std::function<void()>& queue_step) {
  queue_step();
}

#endif

StepGraph::StepGraph(const Stream& stream, bool enabled)
    : stream_(stream), enabled_(enabled && !stream.device().is_cpu()) {}

// Queued work may still use the graphs, but CUDA keeps a graph that is running.
StepGraph::~StepGraph() = default;

}  // namespace dist
