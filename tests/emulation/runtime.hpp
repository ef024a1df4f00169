// What the files of the emulated CUDA runtime share. A stream is a thread with a queue, and an
// event is a mark in that queue. While a stream captures, its work becomes nodes of a graph
// instead, and events become dependencies between the nodes.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace emulation {

// Whose memory an address is: a GPU's number, or kPinned for host memory that any GPU may read
// and write. nullopt: pageable host memory.
constexpr int kPinned = 8;
std::optional<int> owner_of(const void* memory);

// Called once by each stream's thread, which may touch device memory from then on.
void allow_device_memory();

}  // namespace emulation

using Nodes = std::vector<std::size_t>;  // their places in the graph

struct CUgraphNode_st {
  cudaGraphNodeType type;
  std::function<void()> work;
  Nodes after;
};

struct CUgraph_st {
  std::vector<CUgraphNode_st> nodes;

  // Runs each node after the nodes that it depends on. Otherwise the order is random.
  void run(unsigned seed) const {
    std::vector<bool> done(nodes.size());
    for (std::size_t left = nodes.size(); left > 0; --left) {
      Nodes ready;
      for (std::size_t n = 0; n < nodes.size(); ++n) {
        const auto is_done = [&](std::size_t earlier) { return done[earlier]; };
        if (!done[n] && std::ranges::all_of(nodes[n].after, is_done)) ready.push_back(n);
      }
      seed = seed * 1664525U + 1013904223U;
      const std::size_t next = ready[(seed >> 8) % ready.size()];
      nodes[next].work();
      done[next] = true;
    }
  }
};

struct CUgraphExec_st {
  std::shared_ptr<const CUgraph_st> graph;  // CUDA keeps it while it runs
};

struct Capture {
  cudaStream_t origin;
  std::set<cudaStream_t> streams;  // the origin, and those that have waited for it
  CUgraph_st graph;
  bool valid = true;

  // Whether `end` comes after every node.
  bool is_joined(const Nodes& end) const {
    std::set<std::size_t> seen;
    Nodes open = end;
    while (!open.empty()) {
      const std::size_t node = open.back();
      open.pop_back();
      if (!seen.insert(node).second) continue;
      const Nodes& after = graph.nodes[node].after;
      open.insert(open.end(), after.begin(), after.end());
    }
    return seen.size() == graph.nodes.size();
  }
};

// A point in a capturing stream: what the next node there comes after.
struct CapturePoint {
  std::shared_ptr<Capture> capture;  // null: none
  Nodes after;

  void add(cudaGraphNodeType type, std::function<void()> work) {
    capture->graph.nodes.push_back({type, std::move(work), std::exchange(after, {})});
    after = {capture->graph.nodes.size() - 1};
  }
};

// One recording of an event. As in CUDA, a wait refers to the recording that it saw: recording
// the event again does not affect earlier waits.
struct Recording {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::chrono::steady_clock::time_point time;

  void finish() {
    const std::lock_guard lock(mutex);
    done = true;
    time = std::chrono::steady_clock::now();
    changed.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return done; });
  }
  bool is_done() {
    const std::lock_guard lock(mutex);
    return done;
  }
};

struct CUevent_st {
  int device = 0;
  std::shared_ptr<Recording> latest{};  // null until recorded
  CapturePoint point{};                 // set if it was last recorded in a capturing stream
};

// What one GPU's streams have in common. After a fault, as after CUDA's "illegal address", no
// queued work runs any more, and every call reports the fault.
struct Gpu {
  std::atomic<cudaError_t> fault = cudaSuccess;
};

// The thread owns the stream together with its user, so that work that is queued when the
// stream is destroyed still runs: cudaStreamDestroy does not wait.
struct CUstream_st : std::enable_shared_from_this<CUstream_st> {
  CUstream_st(int device_, Gpu& gpu_, unsigned seed)
      : device(device_), gpu(gpu_), random_(seed) {}

  void start() {
    std::thread([self = shared_from_this()] { self->run(); }).detach();
  }
  void push(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
    changed_.notify_all();
  }
  // The thread ends after the work queued so far.
  void close() {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    changed_.notify_all();
  }
  bool is_idle() {
    const std::lock_guard lock(mutex_);
    return queue_.empty() && !busy_;
  }
  void synchronize() {
    const auto mark = std::make_shared<Recording>();
    {
      const std::lock_guard lock(mutex_);
      if (ended_) return;
      queue_.push_back([mark] { mark->finish(); });
      changed_.notify_all();
    }
    mark->wait();
  }

  const int device;
  Gpu& gpu;
  CapturePoint point;  // set while the stream captures

 private:
  void run() {
    emulation::allow_device_memory();
    for (;;) {
      std::function<void()> work;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return closing_ || !queue_.empty(); });
        if (queue_.empty()) {
          ended_ = true;
          return;
        }
        work = std::move(queue_.front());
        queue_.pop_front();
        busy_ = true;
      }
      pause();
      work();
      work = nullptr;  // what it owned is free before the stream is idle
      const std::lock_guard lock(mutex_);
      busy_ = false;
    }
  }
  // One piece of work in eight starts up to 200 microseconds late.
  void pause() {
    if (random_() % 8 != 0) return;
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % 200));
  }

  std::mt19937 random_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool busy_ = false;
  bool closing_ = false;
  bool ended_ = false;
};

namespace emulation {

int environment_number(const char* name, int otherwise);
int my_rank();
// Whether the GPUs multiply bfloat16: EMULATED_CAPABILITY is 8 or above (9).
bool has_bf16();
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
  std::atomic<long> spinning;  // of the waits, those that do not sleep
};
inline Counters counters;
void count_wait();

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
