// Checks of an average that overlaps with computation: is it right, does the host continue, and
// does all work wait for the work it needs? A gate delays the work that must be waited for, so
// a missing wait shows up every time.
#include "01_send_recv/gpu/nccl_communicator.hpp"
#include "02_broadcast/nccl_broadcast.hpp"
#include "common/build_config.hpp"
#include "common/check_cuda.hpp"
#include "common/stream.hpp"
#include "common/tensor.hpp"
#include "tools/exercises/message_checks.hpp"

#if DIST_CUDA_EMULATED
#include "02_broadcast/nccl_broadcast.hpp"
#include "common/check_cuda.hpp"

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

namespace dist::exercise {
namespace {

using NcclAverages =
    std::function<void(NcclCommunicator&, const Tensor&, const Stream&, const Stream&)>;

// Holds up all later work on a stream until the host opens the gate or a time limit is reached.
class Gate {
 public:
  explicit Gate(const Stream& stream) {
    emulation::enqueue(stream.get(), [state = state_] {
      std::unique_lock lock(state->mutex);
      state->waited_in_vain = !state->changed.wait_for(lock, std::chrono::milliseconds(1500),
                                                       [&] { return state->open; });
    });
  }
  // Opens the gate. Returns false if the time limit had already been reached.
  bool open() {
    const std::lock_guard lock(state_->mutex);
    state_->open = true;
    state_->changed.notify_all();
    return !state_->waited_in_vain;
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool open = false;
    bool waited_in_vain = false;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// A rank's GPU (the judge provides one each), with two streams and a tensor that the compute
// stream fills.
class Bench {
 public:
  Bench(Trial& trial, const NcclAverages& solution, std::size_t count = 500)
      : trial_(trial),
        solution_(solution),
        device_(choose_device(trial.comm(), "cuda").device),
        nccl_(connect_nccl(trial.comm(), device_)),
        compute_(device_),
        communication_(device_),
        tensor_({count}, device_) {}

  const Stream& compute() { return compute_; }
  const Stream& communication() { return communication_; }

  void call() { solution_(nccl_, tensor_, compute_, communication_); }

  // Queues the backward pass's work on `compute`.
  void compute_gradients() {
    std::vector<float> values(tensor_.numel());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = trial_.value(trial_.rank(), i);
    emulation::enqueue(compute_.get(), [values = std::move(values), to = tensor_.data()] {
      std::memcpy(to, values.data(), values.size() * sizeof(float));
    });
  }
  // Queues the optimizer's work on `compute`; the result is examined later.
  std::shared_ptr<std::vector<float>> read_gradients() {
    auto seen = std::make_shared<std::vector<float>>(tensor_.numel());
    emulation::enqueue(compute_.get(), [seen, from = tensor_.data()] {
      std::memcpy(seen->data(), from, seen->size() * sizeof(float));
    });
    return seen;
  }

  // Returns true if `stream`, which ought to wait, soon finishes its work all the same.
  bool finishes_early(const Stream& stream) {
    for (int ms = 0; ms < 200; ++ms) {
      if (cudaStreamQuery(stream.get()) == cudaSuccess) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }
  // Queues the gradients and calls the solution while `held` is held up; then calls next().
  // Returns true if `other`, which ought to wait, soon finishes its work all the same.
  template <class Next>
  bool call_while_held(const Stream& held, const Stream& other, const Next& next) {
    Gate gate(held);
    compute_gradients();
    call();
    next();
    const bool early = finishes_early(other);
    gate.open();
    finish();
    return early;
  }
  void finish() {
    compute_.synchronize();
    nccl_.synchronize(communication_);
    compute_.synchronize();
  }

  void expect_average(const std::vector<float>& seen, const std::string& who) {
    expect_values(
        trial_, seen, who, [&](std::size_t i) { return trial_.mean(i); }, 1e-6);
  }

 private:
  Trial& trial_;
  const NcclAverages& solution_;
  Device device_;
  NcclCommunicator nccl_;
  Stream compute_;
  Stream communication_;
  Tensor tensor_;
};

// Calls the solution while one stream is held up. The call must still return.
void expect_host_goes_on(Trial& trial, const NcclAverages& solution, bool hold_compute) {
  Bench bench(trial, solution);
  Gate gate(hold_compute ? bench.compute() : bench.communication());
  bench.compute_gradients();
  bench.call();
  trial.expect(gate.open(), "the call did not return while the {} stream was held up",
               hold_compute ? "compute" : "communication");
  bench.finish();
}

}  // namespace

std::vector<Check> checks_of_nccl_average(const NcclAverages& solution) {
  const std::vector<Check> checks{
      {"values", "the tensor must become the average over the ranks",
       "ncclAvg divides by the number of ranks; after ncclSum, the tensor holds N times the "
       "average",
       [=](Trial& trial) {
         for (const std::size_t count : {997, 1, 4096}) {
           Bench bench(trial, solution, count);
           bench.compute_gradients();
           bench.compute().synchronize();  // so that no ordering is needed yet
           bench.call();
           bench.finish();
           const auto seen = bench.read_gradients();
           bench.finish();
           bench.expect_average(*seen, "the result, ");
         }
       }},
      {"host-goes-on", "the host must queue the work and not wait",
       "synchronize() keeps the host waiting, so it cannot queue the next layer's backward. "
       "The results are still right, but the overlap is lost. With an event, one stream waits "
       "for the other, and the host does not wait",
       [=](Trial& trial) {
         expect_host_goes_on(trial, solution, true);
         expect_host_goes_on(trial, solution, false);
       }},
      {"after-compute", "the all-reduce must wait for the work queued on compute",
       "another stream may still be computing the tensor when ncclAllReduce runs: call "
       "communication.wait(compute.record_event()) first",
       [=](Trial& trial) {
         Bench bench(trial, solution);
         bench.call_while_held(bench.compute(), bench.communication(), [] {});
         const auto seen = bench.read_gradients();
         bench.finish();
         bench.expect_average(*seen, "backward was slow; the result, ");
       }},
      {"before-compute", "work queued on compute after the call must wait for the all-reduce",
       "the optimizer's kernels are queued on compute and may run before the all-reduce is "
       "done: call compute.wait(communication.record_event()) after ncclAllReduce",
       [=](Trial& trial) {
         if (trial.size() == 1) return;
         Bench bench(trial, solution);
         std::shared_ptr<std::vector<float>> seen;
         bench.call_while_held(bench.communication(), bench.compute(),
                               [&] { seen = bench.read_gradients(); });
         bench.expect_average(*seen, "the all-reduce was slow; what the optimizer saw, ");
       }},
      {"communication-stream", "the all-reduce must run on the communication stream",
       "the last argument of ncclAllReduce is its stream: pass communication.get(). On the "
       "compute stream the order is right without any waits, but nothing can be computed at "
       "the same time",
       [=](Trial& trial) {
         if (trial.size() == 1) return;
         Bench bench(trial, solution);
         const bool early =
             bench.call_while_held(bench.communication(), bench.compute(), [] {});
         trial.expect(!early,
                      "the all-reduce ran on the compute stream while the communication stream "
                      "was held up");
       }},
  };
  return with_hang_hint(checks,
                        "every rank must call ncclAllReduce once, and no stream may wait for "
                        "an event that is queued behind the wait");
}

}  // namespace dist::exercise
#endif
