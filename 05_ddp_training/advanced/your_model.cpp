// A model of your own under data parallelism (your_model.md): logits = W x + b + V relu(U x +
// c).
#include "05_ddp_training/data_parallel/distributed_data_parallel.hpp"
#include "05_ddp_training/model/gradient_check.hpp"
#include "05_ddp_training/model/kernels.hpp"
#include "05_ddp_training/model/linear.hpp"
#include "05_ddp_training/small_training/small_training.hpp"
#include "common/mpi_environment.hpp"
using namespace dist;

class YourModel : public Module {
 public:
  YourModel(std::size_t features, std::size_t classes, Generator& generator)
      : W(add_parameter("W", {classes, features}, Device{})),
        b(add_parameter("b", {classes}, Device{})),
        U(add_parameter("U", {kHidden, features}, Device{})),
        c(add_parameter("c", {kHidden}, Device{})),
        V(add_parameter("V", {classes, kHidden}, Device{})) {
    init_linear(value(W).span(), value(b).span(), features, generator);
    init_linear(value(U).span(), value(c).span(), features, generator);
  }  // V stays 0: training begins with W x + b
  Tensor forward(const Tensor& input, const Stream& stream) override {
    x_ = input, hidden_ = Tensor({x_.dim(0), value(c).numel()}, Device{});
    linear(stream, x_, value(U), value(c), hidden_);
    for (float& each : hidden_.span()) each = std::max(each, 0.0F);
    const Tensor logits({x_.dim(0), value(b).numel()}, Device{});
    linear(stream, x_, value(W), value(b), logits);
    gemm(stream, Transpose::no, Transpose::yes, hidden_, value(V), 1, logits);  // added to it
    return logits;
  }
  void backward(const Tensor& grad, const Stream& stream, Accumulate accumulate,
                const GradReadyHook& ready) override {
    const bool add = accumulate == Accumulate::yes;
    gemm(stream, Transpose::yes, Transpose::no, grad, hidden_, add, parameters_[V].grad);
    if (ready) ready(V);  // nothing is added to it any more
    const Tensor into_hidden(hidden_.shape(), Device{});
    gemm(stream, Transpose::no, Transpose::no, grad, value(V), 0, into_hidden);
    relu_backward(stream, hidden_.numel(), hidden_.data(), into_hidden.data());
    linear_backward(stream, into_hidden, x_, add, parameters_[U].grad, parameters_[c].grad);
    if (ready) ready(c), ready(U);
    linear_backward(stream, grad, x_, add, parameters_[W].grad, parameters_[b].grad);
    if (ready) ready(b), ready(W);
  }

 private:
  static constexpr std::size_t kHidden = 64;
  const Tensor& value(std::size_t parameter) const { return parameters_[parameter].value; }
  const std::size_t W, b, U, c, V;  // numbers of the parameters
  Tensor x_, hidden_;
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
  const Batch& first = batches.next();
  std::string compared;
  const std::string wrong = wrong_gradient(model, first.inputs, first.targets, &compared);
  if (!comm.all_agree(wrong.empty())) return console.verdict(comm, wrong.empty(), "", wrong);
  console.line("gradient compared: {}", compared);
  auto group = make_process_group(Backend::ours, comm, Device{}, AllReduceAlgorithm::ring);
  DistributedDataParallel ddp(model, *group, stream);
  const auto adam = ddp.make_optimizer({.kind = OptimizerKind::adam}, stream);
  CrossEntropyLoss loss;
  for (std::size_t step = 1; step <= 60; ++step) {
    const Batch& batch = batches.next();
    loss.forward(ddp.forward(batch.inputs, stream), batch, stream);
    ddp.backward(loss.grad(), batch.place, stream);
    adam->step(/*lr=*/1e-3, stream);
    if (step % 20 == 0) console.line("step {}  loss {:.4f}", step, loss.value(stream));
  }
  const std::string bad = wrong_replicas(comm, model.parameters(), stream);
  return console.verdict(comm, bad.empty(), "the replicas are equal, bit for bit", bad);
}
