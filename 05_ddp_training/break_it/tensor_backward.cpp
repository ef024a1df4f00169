// Belief:  a rank that has its own weights needs only its own gradients.
// Predict: two layers are divided among the ranks (advanced/tensor_parallel.cpp), but the layer
//          before them is on every rank. In backward, nobody adds up what the ranks' parts send
//          back to that layer. Does the loss fall?
// You see: it falls. But the copies of the first layer, equal at first, differ afterwards.
// Why:     every part of the second layer reads all outputs of the first, so their gradient is
//          the sum of what all parts send back. A copy without the sum learns from one part.
#include "02_broadcast/chunks.hpp"
#include "03_all_reduce/ring.hpp"
#include "05_ddp_training/small_training/small_training.hpp"

namespace dist {
namespace {

constexpr std::size_t kWidth = 32;

struct Outcome {
  double first_loss = 0, last_loss = 0;
  std::string difference;  // between the ranks' first layers
};

// To be short, a rank's part is a whole model in which the other ranks' parts are 0. These stay
// 0, since their gradients are 0, too.
Outcome train(const Program& program, bool adds_up) {
  SmallTraining job = one_process(program, {.layers = {784, kWidth, kWidth, 10}});
  const std::span<Parameter> p = job.model.parameters();
  const ChunkRange mine = chunk_range(kWidth, program.comm.size(), program.comm.rank());
  for (std::size_t unit = 0; unit < kWidth; ++unit) {
    if (unit - mine.begin < mine.count) continue;
    std::ranges::fill(p[2].value.span().subspan(unit * kWidth, kWidth), 0.0F);
    p[3].value.span()[unit] = 0;
    for (std::size_t row = 0; row < 10; ++row) p[4].value.span()[row * kWidth + unit] = 0;
  }
  const auto only_on_rank_0 = [&](const Tensor& bias) {
    if (program.comm.rank() > 0) std::ranges::fill(bias.span(), 0.0F);
  };
  only_on_rank_0(p[5].value);

  Outcome outcome;
  for (std::size_t step = 0; step < kSmallSteps; ++step) {
    const Batch& batch = job.batches.next();
    const Tensor logits = job.model.forward(batch.inputs, job.stream);
    all_reduce_ring(program.comm, logits.span(), ReduceOp::sum);
    job.loss.forward(logits, batch.targets, job.stream);
    job.model.backward(job.loss.grad(), job.stream);
    only_on_rank_0(p[5].grad);
    // The gradients of the first layer's parameters add up just as those of its outputs do.
    for (const Parameter& first : p.first(adds_up ? 2 : 0)) {
      all_reduce_ring(program.comm, first.grad.span(), ReduceOp::sum);
    }
    job.step();
    (step == 0 ? outcome.first_loss : outcome.last_loss) = job.loss.value(job.stream);
  }
  outcome.difference = first_difference(program.comm, p.first(2), job.stream);
  return outcome;
}

}  // namespace

bool break_tensor_backward(const Program& program) {
  const Outcome right = train(program, true), wrong = train(program, false);
  for (const auto& [way, outcome] : {std::pair{"with", right}, std::pair{"without", wrong}}) {
    const std::string& other = outcome.difference;
    say(program, "  {:7} the sum in backward: loss {:.3f} -> {:.3f}; {}", way,
        outcome.first_loss, outcome.last_loss,
        other.empty() ? "the first layers are equal, bit for bit"
                      : "first to differ: " + other);
  }
  return right.difference.empty() && right.last_loss < 0.9 * right.first_loss &&
         wrong.difference.starts_with("0.weight of ") &&
         wrong.last_loss < 0.9 * wrong.first_loss && wrong.first_loss == right.first_loss;
}

}  // namespace dist
