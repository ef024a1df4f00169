// The emulated runtime's streams, events and graphs.
//
//   EMULATED_EVENTS  0: no event can be created
#include "tests/emulation/runtime.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

using namespace emulation;

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return result();
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  *stream = new_stream(the_device).get();  // the thread owns it until it is closed
  return result();
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  stream->close();
  return result();
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  count_wait();
  if (breaks_capture(resolve(stream)) || breaks_captures()) {
    return result(cudaErrorStreamCaptureUnsupported);
  }
  resolve(stream)->synchronize();
  return result(resolve(stream)->gpu.fault);
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  count_wait();
  CUstream_st* const queue = resolve(stream);
  if (breaks_capture(queue) || breaks_captures()) {
    return result(cudaErrorStreamCaptureUnsupported);
  }
  if (queue->gpu.fault != cudaSuccess) return result(queue->gpu.fault);
  return result(queue->is_idle() ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (event == nullptr) return result(cudaErrorInvalidValue);
  CUstream_st* const queue = resolve(stream);
  if (event->point.capture) {
    CapturePoint& point = queue->point;
    if (point.capture && point.capture != event->point.capture) {
      return result(cudaErrorStreamCaptureIsolation);
    }
    point.capture = event->point.capture;
    point.capture->streams.insert(queue);
    point.after.insert(point.after.end(), event->point.after.begin(), event->point.after.end());
    return result();
  }
  // A captured step may not wait for work that is not part of it.
  if (event->latest && breaks_capture(queue)) return result(cudaErrorStreamCaptureIsolation);
  if (const auto recording = event->latest) queue->push([=] { recording->wait(); });
  return result();
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  if (environment_number("EMULATED_EVENTS", 1) == 0) {
    return result(cudaErrorMemoryAllocation);
  }
  ++counters.events;
  *event = new CUevent_st{.device = the_device};
  return result();
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return result();
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  CUstream_st* const queue = resolve(stream);
  if (event->device != queue->device) return result(cudaErrorInvalidResourceHandle);
  event->point = queue->point;
  if (queue->point.capture) return result();
  const auto recording = std::make_shared<Recording>();
  event->latest = recording;
  queue->push([recording] { recording->finish(); });
  return result();
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  count_wait();
  if (event->point.capture) return result(cudaErrorCapturedEvent);
  if (breaks_captures()) return result(cudaErrorStreamCaptureUnsupported);
  if (const auto recording = event->latest) recording->wait();
  return result();
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  if (begin->point.capture || end->point.capture) return result(cudaErrorCapturedEvent);
  if (!begin->latest || !end->latest) return result(cudaErrorInvalidValue);
  if (!begin->latest->is_done() || !end->latest->is_done()) return result(cudaErrorNotReady);
  *milliseconds =
      std::chrono::duration<float, std::milli>(end->latest->time - begin->latest->time).count();
  return result();
}

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
