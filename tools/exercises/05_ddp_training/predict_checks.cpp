// Checks of predicted steps. The answer also shows real steps beside predicted ones.
#include "01_send_recv/measure.hpp"
#include "05_ddp_training/data_parallel/reducer.hpp"
#include "05_ddp_training/exercise/step_to_predict.hpp"
#include "05_ddp_training/model/mlp.hpp"
#include "tools/exercises/05_ddp_training/predict_slips.hpp"
#include "tools/exercises/message_checks.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace dist::exercise {
namespace {

// Real steps of a small model on a pretended link, beside predictions from measured parts. Only
// two ranks take them: if ranks must take turns on a core, nothing overlaps.
void compare_with_real_steps(Trial& trial, const Predicts& solution) {
  const Communicator comm = trial.comm().split(/*color=*/trial.rank() / 2, /*key=*/0);
  if (trial.rank() >= 2) return;
  const Stream stream(Device{});
  Generator generator(1);
  Mlp model({512, 512, 512, 512, 10}, generator, stream);
  const Tensor input({512, 512}, Device{}), grad({512, 10}, Device{});
  for (const Tensor& tensor : {input, grad}) fill_uniform(tensor.span(), -1, 1, generator);
  const auto ms = [&](auto run) { return 1e3 * median_of_slowest(comm, 5, run); };
  const auto group = [&](bool overlap) {
    return make_process_group(Backend::ours, comm, Device{}, AllReduceAlgorithm::ring, overlap,
                              /*pretend_link=*/1);
  };
  const auto step_ms = [&](std::size_t cap, bool overlap) {
    const auto with = group(overlap);
    Reducer reducer(model.parameters(), plan_buckets(model.parameters(), {cap, cap}), *with);
    return ms([&] {
      model.forward(input, stream);
      model.backward(grad, stream, Accumulate::no,
                     [&](std::size_t index) { reducer.mark_ready(index, stream); });
      reducer.finalize(stream);
    });
  };
  const Prediction measured{step_ms(0, false), step_ms(1 << 30, false), step_ms(1 << 20, true)};

  const auto link = group(false);
  const auto message_ms = [&](std::size_t numbers) {  // of the messages of an all-reduce
    const Tensor tensor = link->allocate({numbers});
    fill_uniform(tensor.span(), -1, 1, generator);
    return ms([&] { link->all_reduce(tensor, ReduceOp::avg, stream)->wait(stream); }) /
           (2.0 * (comm.size() - 1));
  };
  StepToPredict step{.ranks = comm.size(), .alpha_ms = message_ms(1), .buckets = {2, 1, 1}};
  step.beta_ms_per_byte = (message_ms(1 << 18) - step.alpha_ms) * comm.size() / 0x1p20;
  step.forward_ms = ms([&] { model.forward(input, stream); });
  std::array<std::vector<double>, 4> layers;
  ms([&] {
    auto begin = std::chrono::steady_clock::now();
    model.backward(grad, stream, Accumulate::no, [&](std::size_t index) {
      if (index % 2 == 1) return;  // a layer's weight is ready last
      const auto now = std::chrono::steady_clock::now();
      const std::chrono::duration<double, std::milli> time = now - std::exchange(begin, now);
      layers[index / 2].push_back(time.count());
    });
  });
  for (std::size_t layer = layers.size(); layer-- > 0;) {
    const auto bytes = [&](std::size_t parameter) {
      return static_cast<double>(model.parameters()[parameter].grad.size_bytes());
    };
    step.layers.push_back({median(layers[layer]), bytes(2 * layer), bytes(2 * layer + 1)});
  }
  const Prediction predicted = solution(step);
  const auto both = [&](Ms part) {
    return fmt::format("{:.1f} / {:.1f}", predicted.*part, measured.*part);
  };
  trial.counts() = {{kCountsBegin, "ms of a step on 2 ranks, predicted / measured"},
                    {"by hand", both(kByHand)},
                    {"with one bucket", both(kOneBucket)},
                    {"with overlap", both(kOverlap)}};
}

}  // namespace

std::vector<Check> checks_of_predict(const Predicts& solution) {
  const auto expect = [=](std::vector<StepToPredict> steps, std::vector<Ms> times) {
    return [=](Trial& trial) {
      for (const StepToPredict& step : steps) {
        for (const Ms ms : times) {
          const double right = predict_reference(step).*ms, yours = solution(step).*ms;
          if (std::abs(yours - right) <= 1e-9 * right) continue;
          const std::string slip = slip_of(solution, ms);
          trial.expect(
              slip.empty() ? Seen::something_else : Seen::explained, false,
              "{} rank{}, alpha {:g} ms, beta {:g} ms per byte, forward 7.5 ms, backward 2.25 "
              "+ 6.5 + 5.75 + 9.625 ms, buckets of 2, 1 and 1 layers: {} is {:.9g}, yours "
              "{:.9g}{}",
              step.ranks, step.ranks == 1 ? "" : "s", step.alpha_ms, step.beta_ms_per_byte,
              ms == kByHand      ? "by_hand_ms"
              : ms == kOneBucket ? "one_bucket_ms"
                                 : "overlap_ms",
              right, yours, slip);
        }
      }
    };
  };
  return {
      {"on-paper",
       "the contract's example must come out",
       "work it out with a pencil. By hand, each weight and each bias has an all-reduce. With "
       "overlap, a bucket starts when it is full and the link is free. A bucket's layers "
       "follow those of the bucket before it",
       [=](Trial& trial) {
         const StepToPredict step{2, 3, 0, 1, {{2, 8, 4}, {4, 8, 4}}, {1, 1}};
         const Prediction yours = solution(step), ours = predict_reference(step);
         std::string slip;
         for (const Ms ms : {kByHand, kOneBucket, kOverlap}) {
           if (slip.empty() && yours.*ms != ours.*ms) slip = slip_of(solution, ms);
         }
         const bool others = yours.*kByHand == 31 && yours.*kOneBucket == 13;
         trial.expect(others && yours.*kOverlap == 17   ? Seen::elsewhere
                      : others && yours.*kOverlap == 13 ? Seen::too_few
                      : slip.empty()                    ? Seen::something_else
                                                        : Seen::explained,
                      others && yours.*kOverlap == 15,
                      "expected 31, 13 and 15 ms, but got {}, {} and {}{}", yours.*kByHand,
                      yours.*kOneBucket, yours.*kOverlap, slip);
       },
       {{Seen::too_few,
         "the first bucket is full at 3 ms and leaves the link at 9; before 3 ms, there is "
         "nothing to send. The second one is full at 7 ms, but its all-reduce cannot start "
         "then: the first one is still on the link"},
        {Seen::elsewhere,
         "that is so if the second layer is ready first. The layers are in the order of "
         "backward already: begin with the first"}}},
      {"one-rank", "a single rank must only compute",
       "one rank sends nothing, so 2 (N - 1) is 0",
       expect({with(1, 1e-6, 1)}, {kByHand, kOneBucket, kOverlap})},
      {"one-bucket", "one all-reduce of all gradients must follow backward",
       "each of the 2 (N - 1) messages takes alpha + S / N beta. S counts weights and biases. "
       "Compute with doubles: (N - 1) / N of whole numbers is 0",
       expect({with(0, 1e-6), with(3, 0), with(0.02, 2e-6, 7)}, {kOneBucket})},
      {"by-hand", "one all-reduce per gradient must follow backward",
       "every weight and every bias pays 2 (N - 1) alpha for an all-reduce of its own bytes",
       expect({with(3, 0), with(0.02, 2e-6, 7)}, {kByHand})},
      {"one-at-a-time", "on a slow link, each all-reduce must wait for the previous one",
       "a bucket starts when the link is free again, or when it is full if that is later",
       expect({with(1, 1e-5), with(5, 0)}, {kOverlap})},
      {"idle-link", "the link must be able to wait for backward, too",
       "a link that waits for a bucket loses time: end = max(end, full) + took, in order",
       [=](Trial& trial) {
         expect({with(0.02, 1e-6), with(0.02, 2e-6)}, {kOverlap})(trial);
         if (trial.size() == 4 && trial.mistake().empty()) {
           compare_with_real_steps(trial, solution);  // only informs
         }
       }},
  };
}

}  // namespace dist::exercise
