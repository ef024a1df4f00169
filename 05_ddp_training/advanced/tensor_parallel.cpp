// Tensor parallelism: every rank has a part of every layer (Shoeybi et al., "Megatron-LM",
// 2019). All ranks read the same batch.
//
//   mpirun -np 2 build/bin/tensor_parallel
//   mpirun -np 4 build/bin/tensor_parallel --data-parallel 2
#include "02_broadcast/chunks.hpp"
#include "05_ddp_training/advanced/train_part.hpp"
#include "05_ddp_training/model/gemm.hpp"
#include "05_ddp_training/model/linear.hpp"
#include "common/mpi_environment.hpp"

namespace dist {
namespace {

// The layers in pairs. In a pair, the first layer is divided by its outputs, and the second one
// by its inputs, so that what a rank computes in the first is just what it needs in the second:
//
//   hidden = ReLU(x W1^T + b1)     a rank has some columns of hidden: some rows of W1 and b1
//   y      = hidden W2^T + b2      and the same columns of W2: its product is one summand of y
//
// One all-reduce per pair adds up y, and in backward another one adds up the gradient of x
// (the first pair's x are images, which need none).
class TensorParallel : public PartOfModel {
 public:
  TensorParallel(const Communicator& ranks, std::span<const Parameter> whole,
                 const Stream& stream)
      : ranks_(ranks), stream_(stream) {
    start_from(whole, ranks.rank());
  }

  std::optional<Held> held(int rank, std::size_t i, std::size_t rows,
                           std::size_t columns) const override {
    const int size = ranks_.size();
    const bool is_weight = i % 2 == 0, second = i / 2 % 2 == 1;
    if (!second) return Held{chunk_range(rows, size, rank), {0, columns}};
    if (is_weight) return Held{{0, rows}, chunk_range(columns, size, rank)};
    return Held{{0, rows}, {0, 1}};  // b2 is added after the all-reduce: every rank needs it
  }

  double forward_and_backward(const Batch& batch) override {
    // [1] Forward.
    std::vector<Tensor> inputs{batch.inputs}, hiddens;
    for (std::size_t pair = 0; pair < pairs(); ++pair) {
      const auto [w1, b1, w2, b2] = values(pair);
      const Tensor hidden = product(Transpose::no, inputs[pair], Transpose::yes, w1);
      add_bias(stream_, hidden.dim(0), hidden.dim(1), b1.data(), hidden.data(), /*relu=*/true);
      const Tensor y = product(Transpose::no, hidden, Transpose::yes, w2);
      all_reduce_ring(ranks_, y.span(), ReduceOp::sum);
      const bool last = pair + 1 == pairs();
      add_bias(stream_, y.dim(0), y.dim(1), b2.data(), y.data(), /*relu=*/!last);
      hiddens.push_back(hidden);
      inputs.push_back(y);
    }
    loss_.forward(inputs.back(), batch, stream_);
    // [2] Backward. `grad` is the gradient of y, which all ranks have.
    Tensor grad = loss_.grad();
    for (std::size_t pair = pairs(); pair-- > 0;) {
      const auto [w1, b1, w2, b2] = values(pair);
      const Tensor& hidden = hiddens[pair];
      const Tensor& x = inputs[pair];
      layer_backward(2 * pair + 1, grad, hidden);
      const Tensor grad_hidden = product(Transpose::no, grad, Transpose::no, w2);
      relu_backward(stream_, hidden.numel(), hidden.data(), grad_hidden.data());
      layer_backward(2 * pair, grad_hidden, x);
      if (pair == 0) break;  // images need no gradient
      grad = product(Transpose::no, grad_hidden, Transpose::no, w1);
      all_reduce_ring(ranks_, grad.span(), ReduceOp::sum);
      relu_backward(stream_, x.numel(), x.data(), grad.data());
    }
    return ranks_.rank() == 0 ? loss_.value(stream_) : 0;
  }

 private:
  std::size_t pairs() const { return parameters_.size() / 4; }
  std::array<Tensor, 4> values(std::size_t pair) const {
    const auto value = [&](std::size_t i) { return parameters_[4 * pair + i].value; };
    return {value(0), value(1), value(2), value(3)};
  }
  // op(a) op(b), with the rows of op(a) and the columns of op(b).
  Tensor product(Transpose of_a, const Tensor& a, Transpose of_b, const Tensor& b) const {
    const Tensor c({a.dim(of_a == Transpose::no ? 0 : 1), b.dim(of_b == Transpose::no ? 1 : 0)},
                   Device{});
    gemm(stream_, of_a, of_b, a, b, 0, c);
    return c;
  }
  // The gradients of a layer's weight and bias, from those of its output.
  void layer_backward(std::size_t layer, const Tensor& grad, const Tensor& input) {
    linear_backward(stream_, grad, input, /*add=*/false, parameters_[2 * layer].grad,
                    parameters_[2 * layer + 1].grad);
  }

  const Communicator& ranks_;
  const Stream& stream_;
  CrossEntropyLoss loss_;
};

}  // namespace
}  // namespace dist

int main(int argc, char** argv) {
  using namespace dist;
  MpiEnvironment mpi(argc, argv);
  Program program("tensor_parallel", "Every rank has a part of every layer.");
  PartOptions options(program);
  program.flags.check([&] {
    check_usage(options.layers.size() % 2 == 1, "--layers: needs an odd number of widths");
  });
  if (const auto exit = program.start(argc, argv)) return *exit;

  return train<TensorParallel>(program, options);
}
