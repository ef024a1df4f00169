#include "05_ddp_training/explain/explained_step.hpp"

#include "04_distributed_sampler/data_loader.hpp"
#include "04_distributed_sampler/datasets/in_memory_dataset.hpp"
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "05_ddp_training/model/loss.hpp"
#include "05_ddp_training/optimizer/optimizer.hpp"

#include <array>

namespace dist {
namespace {

// Each sample's features are (s, 2 s) for some s. The model turns them into equal logits, so
// softmax is exactly 1/2 and the loss is ln 2. Every gradient is a short binary fraction, so
// sums of gradients are exact in any order. The features of sample 3 are negative, so the ReLU
// sets them to 0.
TensorDataset four_samples() {
  return {{1, 2, 2, 4, 3, 6, -1, -2}, {1, 0, 0, 0}, 2, 2};
}

}  // namespace

Mlp make_explained_model(int rank, const Stream& stream) {
  Generator generator(0);
  Mlp model({2, 2, 2}, generator, stream);
  const std::array<std::vector<float>, 4> of_rank0{
      {{1, 0, 0, 1}, {0, 0}, {2, 0, 0, 1}, {0, 0}}};
  for (std::size_t i = 0; i < of_rank0.size(); ++i) {
    std::vector<float> values = of_rank0[i];
    for (float& value : values) value += static_cast<float>(rank);
    const Tensor& parameter = model.parameters()[i].value;
    copy_bytes(stream, parameter.data(), values.data(), parameter.size_bytes());
    stream.synchronize();  // `values` must live until the copy is done
  }
  return model;
}

ExplainedStep take_explained_step(
    Mlp& model, int ranks, int rank, const Stream& stream,
    const std::function<void(const Tensor& grad_logits)>& backward) {
  const TensorDataset dataset = four_samples();
  const DistributedSampler sampler(dataset.size(), ranks, rank);
  DataLoader loader(dataset, sampler.num_samples(), /*drop_last=*/false, stream);
  OptimizerOptions options;
  options.name = "sgd";
  const auto optimizer = make_optimizer(options, model.parameters(), stream);
  CrossEntropyLoss loss;

  ExplainedStep step;
  step.samples = sampler.indices();
  for (const Batch& batch : loader.over(step.samples)) {
    const Tensor logits = model.forward(batch.inputs, stream);
    loss.forward(logits, batch.targets, stream);
    backward(loss.grad());
    optimizer->step(kExplainedLearningRate, stream);

    step.inputs = snapshot("x", batch.inputs, stream);
    step.labels.resize(batch.rows());
    copy_bytes(stream, step.labels.data(), batch.targets.data(), batch.targets.size_bytes());
    stream.synchronize();
    step.logits = snapshot("logits", logits, stream);
    step.loss = loss.value(stream);
    step.grad_logits = snapshot("grad_logits", loss.grad(), stream);
  }
  step.gradients = gradients_of(model, stream);
  step.parameters = parameters_of(model, stream);
  return step;
}

}  // namespace dist
