// The emulated runtime's graphs (capture.hpp).
#include "tests/emulation/runtime.hpp"

#include <algorithm>
#include <memory>
#include <utility>

using namespace emulation;

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (stream == nullptr || stream->point.capture) {
    return result(cudaErrorStreamCaptureUnsupported);
  }
  stream->point.capture = std::make_shared<Capture>(Capture{stream, {stream}, {}});
  captures.push_back(stream->point.capture);
  return result();
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  const auto [capture, end] = stream->point;
  if (!capture || capture->origin != stream) return result(cudaErrorStreamCaptureUnmatched);
  for (CUstream_st* each : capture->streams) each->point = {};
  std::erase(captures, capture);
  if (!capture->valid) return result(cudaErrorStreamCaptureInvalidated);
  if (!capture->is_joined(end)) return result(cudaErrorStreamCaptureUnjoined);
  *graph = new CUgraph_st(std::move(capture->graph));
  return result();
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* number) {
  const std::size_t all = graph->nodes.size();
  if (nodes != nullptr) {
    *number = std::min(*number, all);
    for (std::size_t n = 0; n < *number; ++n) nodes[n] = &graph->nodes[n];
  } else {
    *number = all;
  }
  return result();
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  *type = node->type;
  return result();
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  *executable = new CUgraphExec_st{std::make_shared<const CUgraph_st>(*graph)};
  return result();
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  if (resolve(stream)->point.capture) return result(cudaErrorStreamCaptureUnsupported);
  enqueue(stream, [graph = executable->graph, seed = next_seed()] { graph->run(seed); });
  return result();
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return result();
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return result();
}
