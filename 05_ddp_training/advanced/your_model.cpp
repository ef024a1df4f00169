// A model of your own under data parallelism (your_model.md): logits = W x + b + V x^2.
#include "05_ddp_training/data_parallel/distributed_data_parallel.hpp"
#include "05_ddp_training/model/gradient_check.hpp"
#include "05_ddp_training/small_training/small_training.hpp"
#include "common/mpi_environment.hpp"
using namespace dist;

class YourModel : public Module {
 public:
  YourModel(std::size_t features, std::size_t classes, Generator& generator) {
    for (const char* name : {"W", "V"}) add_parameter(name, {classes, features}, Device{});
    add_parameter("b", {classes}, Device{});
    init_linear(parameters_[0].value.span(), parameters_[2].value.span(), features, generator);
  }
  Tensor forward(const Tensor& input, const Stream& stream) override {
    x_ = input, squares_ = Tensor(x_.shape(), Device{});
    std::ranges::transform(x_.span(), squares_.span().begin(), [](float x) { return x * x; });
    const Tensor logits({x_.dim(0), parameters_[2].value.numel()}, Device{});
    linear(stream, x_, parameters_[0].value, parameters_[2].value, logits);
    gemm(stream, Transpose::no, Transpose::yes, squares_, parameters_[1].value, 1, logits);
    return logits;
  }
  void backward(const Tensor& grad, const Stream& stream, Accumulate accumulate,
                const GradReadyHook& ready) override {
    const bool add = accumulate == Accumulate::yes;
    linear_backward(stream, grad, x_, add, parameters_[0].grad, parameters_[2].grad);
    gemm(stream, Transpose::yes, Transpose::no, grad, squares_, add, parameters_[1].grad);
    if (ready) ready(2), ready(1), ready(0);  // nothing is added to them any more
  }

 private:
  Tensor x_, squares_;
};

int main(int argc, char** argv) {
  MpiEnvironment mpi(argc, argv);
  const Communicator comm = Communicator::world();
  const Console console(/*json=*/false, comm.rank() == 0);
  const Stream stream(Device{});
  const IdxDataset digits = digits_dataset(2048, /*seed=*/1);
  Generator generator(static_cast<std::uint64_t>(comm.rank()));
  YourModel model(digits.features(), digits.classes(), generator);
  SmallBatches batches{{digits.size(), comm.size(), comm.rank()}, {digits, 16, true, stream}};
  const Batch& batch = batches.next();
  const std::string wrong = wrong_gradient(model, batch.inputs, batch.targets);
  if (!comm.all_agree(wrong.empty())) return console.verdict(comm, wrong.empty(), "", wrong);
  auto group = make_process_group(Backend::ours, comm, Device{}, AllReduceAlgorithm::ring);
  DistributedDataParallel ddp(model, *group, stream);
  const auto adam = ddp.make_optimizer({.kind = OptimizerKind::adam}, stream);
  CrossEntropyLoss loss;
  for (std::size_t step = 1; step <= 60; ++step) {
    batches.next();  // fills `batch`
    loss.forward(ddp.forward(batch.inputs, stream), batch, stream);
    ddp.backward(loss.grad(), batch.place, stream);
    adam->step(/*lr=*/1e-3, stream);
    if (step % 20 == 0) console.line("step {}  loss {:.4f}", step, loss.value(stream));
  }
  const std::string bad = wrong_replicas(comm, model.parameters(), stream);
  return console.verdict(comm, bad.empty(), "the replicas are equal, bit for bit", bad);
}
