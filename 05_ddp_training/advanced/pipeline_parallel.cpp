// Pipeline parallelism: every rank has some consecutive layers, a stage. A batch is cut into
// micro-batches, so that the stages work at the same time, each on another micro-batch
// (Huang et al., "GPipe", 2019; Narayanan et al., 2021, for 1F1B).
//
//   mpirun -np 2 build/bin/pipeline_parallel
//   mpirun -np 4 build/bin/pipeline_parallel --schedule gpipe --data-parallel 2
#include "01_send_recv/send_recv.hpp"
#include "05_ddp_training/advanced/train_part.hpp"
#include "05_ddp_training/model/gemm.hpp"
#include "05_ddp_training/model/linear.hpp"
#include "common/mpi_environment.hpp"

#include <map>

namespace dist {
namespace {

struct Task {
  bool forward;
  std::size_t micro_batch;
};

// What a stage does in one step. A schedule is one number: how many forwards a stage runs
// before its first backward. With GPipe, all of them. With 1F1B, as many as there are stages
// from this one on; then one backward and one forward alternate.
std::vector<Task> tasks_of(const std::string& schedule, const Communicator& stages,
                           std::size_t micro_batches) {
  const auto remaining = static_cast<std::size_t>(stages.size() - stages.rank());
  const std::size_t ahead =
      schedule == "gpipe" ? micro_batches : std::min(micro_batches, remaining);
  std::vector<Task> tasks;
  for (std::size_t i = 0; i < micro_batches + ahead - 1; ++i) {
    if (i < micro_batches) tasks.push_back({/*forward=*/true, i});
    if (i + 1 >= ahead) tasks.push_back({/*forward=*/false, i + 1 - ahead});
  }
  return tasks;
}

class Pipeline : public PartOfModel {
 public:
  Pipeline(const Communicator& stages, std::span<const Parameter> whole, const Stream& stream,
           const std::string& schedule, std::size_t micro_batches)
      : stages_(stages),
        layers_(whole.size() / 2),
        tasks_(tasks_of(schedule, stages, micro_batches)),
        micro_batches_(micro_batches),
        stream_(stream) {
    start_from(whole, stages.rank());
  }

  // Layers [rank L / N, (rank + 1) L / N): the last stage, with the cheapest layer, is long.
  std::optional<Held> held(int rank, std::size_t i, std::size_t rows,
                           std::size_t columns) const override {
    const auto n = static_cast<std::size_t>(stages_.size());
    const std::size_t stage = static_cast<std::size_t>(rank) % n, layer = i / 2;
    if (layer < layers_ * stage / n || layer >= layers_ * (stage + 1) / n) return std::nullopt;
    return Held{{0, rows}, {0, columns}};
  }

  double forward_and_backward(const Batch& batch) override {
    for (const Task& task : tasks_) {
      if (task.forward) {
        forward(batch, task.micro_batch);
      } else {
        backward(task.micro_batch);
      }
      most_in_flight_ = std::max(most_in_flight_, in_flight_.size());
    }
    sent_back_.reset();  // waits
    return is_last() ? loss_.value(stream_) : 0;
  }
  std::size_t most_in_flight() const override { return most_in_flight_; }

 private:
  // What is kept of a micro-batch until its backward.
  struct InFlight {
    std::vector<Tensor> activations;  // the input of each layer, and the stage's output
    Tensor grad;                      // last stage: of the logits
    std::optional<Request> sent;      // other stages: the output, on its way
  };

  bool is_last() const { return stages_.rank() + 1 == stages_.size(); }
  const Tensor& weight(std::size_t layer) const { return parameters_[2 * layer].value; }

  // Messages need no tag: each way, they are of one kind and in the order of the micro-batches.
  void forward(const Batch& batch, std::size_t micro_batch) {
    const std::size_t rows = batch.rows() / micro_batches_, begin = micro_batch * rows;
    InFlight& mine = in_flight_[micro_batch];
    Tensor x({rows, weight(0).dim(1)}, Device{});
    if (stages_.rank() == 0) {
      x = batch.inputs.narrow(begin * x.dim(1), x.numel()).view(x.shape());
    } else {
      recv(stages_, x.span(), stages_.left());
    }
    const CallScope phase("forward", fmt::format("micro-batch {}", micro_batch));
    mine.activations.push_back(x);
    for (std::size_t layer = 0; 2 * layer < parameters_.size(); ++layer) {
      const Tensor y({rows, weight(layer).dim(0)}, Device{});
      gemm(stream_, Transpose::no, Transpose::yes, x, weight(layer), 0, y);
      add_bias(stream_, rows, y.dim(1), parameters_[2 * layer + 1].value.data(), y.data(),
               /*relu=*/!is_last() || 2 * layer + 2 < parameters_.size());
      mine.activations.push_back(x = y);
    }
    if (!is_last()) {
      mine.sent.emplace(isend<float>(stages_, x.span(), stages_.right()));
      return;
    }
    const Batch part{
        {}, batch.targets.subspan(begin, rows), {micro_batch, micro_batches_, micro_batches_}};
    loss_.forward(x, part, stream_);  // adds loss / micro-batches; its gradient is that of this
    mine.grad = Tensor(loss_.grad().shape(), Device{});
    copy(stream_, mine.grad, loss_.grad());
  }

  void backward(std::size_t micro_batch) {
    InFlight mine = std::move(in_flight_.extract(micro_batch).mapped());
    Tensor grad = is_last() ? mine.grad : Tensor(mine.activations.back().shape(), Device{});
    if (!is_last()) recv(stages_, grad.span(), stages_.right());
    const CallScope phase("backward", fmt::format("micro-batch {}", micro_batch));
    const bool add = micro_batch > 0;  // to the gradients of earlier micro-batches
    for (std::size_t layer = parameters_.size() / 2; layer-- > 0;) {
      const Tensor& x = mine.activations[layer];
      linear_backward(stream_, grad, x, add, parameters_[2 * layer].grad,
                      parameters_[2 * layer + 1].grad);
      if (stages_.rank() == 0 && layer == 0) return;  // images need no gradient
      const Tensor grad_x(x.shape(), Device{});
      gemm(stream_, Transpose::no, Transpose::no, grad, weight(layer), 0, grad_x);
      relu_backward(stream_, x.numel(), x.data(), grad_x.data());  // x came out of a ReLU
      grad = grad_x;
    }
    // As in forward, isend: with 1F1B, neighbours send to each other. Waits for the one before.
    sent_back_.emplace(grad, isend<float>(stages_, grad.span(), stages_.left()));
  }

  const Communicator& stages_;
  std::size_t layers_;  // of the whole model
  std::vector<Task> tasks_;
  std::size_t micro_batches_;
  const Stream& stream_;
  CrossEntropyLoss loss_;
  std::map<std::size_t, InFlight> in_flight_;            // by micro-batch
  std::optional<std::pair<Tensor, Request>> sent_back_;  // the last gradient, on its way
  std::size_t most_in_flight_ = 0;
};

}  // namespace
}  // namespace dist

int main(int argc, char** argv) {
  using namespace dist;
  MpiEnvironment mpi(argc, argv);
  Program program("pipeline_parallel", "Every rank has some consecutive layers.");
  PartOptions options(program);
  std::string schedule = "1f1b";
  std::size_t micro_batches = 8;
  program.flags.choice("--schedule", schedule, {"gpipe", "1f1b"},
                       "order of forwards and backwards");
  program.flags.number("--micro-batches", micro_batches, 1, 1000,
                       "parts of each replica's batch");
  program.flags.check([&] {
    const int stages = program.comm.size() / options.replicas;
    check_usage(std::cmp_less(stages, options.layers.size()),
                "--layers: fewer layers than the {} stages", stages);
    const std::size_t rows = options.batch_size / static_cast<std::size_t>(options.replicas);
    check_usage(rows % micro_batches == 0, "--micro-batches: {} does not divide {} samples",
                micro_batches, rows);
  });
  if (const auto exit = program.start(argc, argv)) return *exit;
  return train<Pipeline>(program, options, schedule, micro_batches);
}
