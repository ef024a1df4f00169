// Look at: explain(), part 4. DDP's backward is called as in any step. The process group that
// it sends through keeps a copy of each bucket that it is given.
#include "05_ddp_training/explain/explain.hpp"

#include "01_send_recv/gpu/host_copy.hpp"
#include "03_all_reduce/all_reduce.hpp"
#include "04_distributed_sampler/data_loader.hpp"
#include "04_distributed_sampler/datasets/in_memory_dataset.hpp"
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "05_ddp_training/data_parallel/distributed_data_parallel.hpp"
#include "05_ddp_training/model/loss.hpp"
#include "05_ddp_training/optimizer/optimizer.hpp"
#include "common/hash.hpp"
#include "common/join.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <utility>

namespace dist {
namespace {

constexpr double kLearningRate = 0.5;
constexpr std::size_t kWidth = 2;  // of every layer, and of the rows of every tensor
// 2.bias and 2.weight take 24 bytes, and so do 0.bias and 0.weight, so there are two buckets.
constexpr BucketCaps kCaps{.first_bytes = 24, .bytes = 24};

// Each sample's features are (s, 2 s) for some s. The model turns them into equal logits, so
// softmax is exactly 1/2 and the loss is ln 2. Every gradient is a short binary fraction, so
// sums of gradients are exact in any order. The features of sample 3 are negative, so the ReLU
// sets them to 0.
TensorDataset four_samples() {
  return {{1, 2, 2, 4, 3, 6, -1, -2}, {1, 0, 0, 0}, kWidth, 2};
}

// Linear(2, 2), ReLU, Linear(2, 2) with numbers that make hidden = ReLU(x) and
// logits = (2 hidden_0, hidden_1). The other ranks start with different numbers, which rank 0's
// must replace.
Mlp make_model(int rank, const Stream& stream) {
  Generator generator(0);
  Mlp model({kWidth, kWidth, kWidth}, generator, stream);
  const std::array<std::vector<float>, 4> of_rank0{
      {{1, 0, 0, 1}, {0, 0}, {2, 0, 0, 1}, {0, 0}}};
  for (std::size_t i = 0; i < of_rank0.size(); ++i) {
    on_host(stream, model.parameters()[i].value, [&](std::span<float> values) {
      std::ranges::copy(of_rank0[i], values.begin());
      for (float& value : values) value += static_cast<float>(rank);
    });
  }
  return model;
}

// One process with its share of the samples, as one batch.
struct Process {
  Process(int ranks, int rank, const Stream& stream)
      : samples(DistributedSampler(data.size(), ranks, rank).indices()),
        loader(data, samples.size(), /*drop_last=*/false, stream),
        batch(*loader.over(samples).begin()),
        model(make_model(rank, stream)) {}

  void forward(const Stream& stream) {
    logits = model.forward(batch.inputs, stream);
    loss.forward(logits, batch.targets, stream);
  }

  const TensorDataset data = four_samples();
  std::vector<std::size_t> samples;
  DataLoader loader;
  Batch batch;
  Mlp model;
  Tensor logits;
  CrossEntropyLoss loss;
};

using Numbers = std::vector<float>;
using NamedNumbers = nlohmann::ordered_map<std::string, Numbers>;

// The parameters, or their gradients, in registration order. Waits for the stream.
NamedNumbers copies(const Mlp& model, Tensor Parameter::*part, const Stream& stream) {
  NamedNumbers all;
  for (const Parameter& parameter : model.parameters()) {
    all[parameter.name] = to_host(stream, parameter.*part);
  }
  return all;
}

// Passes everything on to another group, and keeps what each all-reduce was given.
struct ObservedGroup : ProcessGroup {
  explicit ObservedGroup(ProcessGroup& group)
      : ProcessGroup(group.comm(), group.overlaps(), group.description()), real(group) {}
  Tensor allocate(Shape shape) override { return real.allocate(std::move(shape)); }
  std::unique_ptr<Work> start(const Collective& collective, const Stream& producer) override {
    if (collective.kind == Collective::Kind::all_reduce) {
      all_reduces.push_back({collective, to_host(producer, collective.tensor)});
    }
    return real.start(collective, producer);
  }
  void synchronize(const Event& event) override { real.synchronize(event); }
  ProcessGroup& real;
  std::vector<std::pair<Collective, Numbers>> all_reduces;
};

// Takes a step of SGD, and returns the new parameters.
NamedNumbers update(Mlp& model, const Stream& stream) {
  Optimizer optimizer({.kind = OptimizerKind::sgd}, model.parameters(), stream);
  optimizer.step(kLearningRate, stream);
  return copies(model, &Parameter::value, stream);
}

// Numbers as rows: "[1 0; 0 1]".
std::string text_of(std::span<const float> numbers, std::size_t columns = kWidth) {
  std::string text = "[";
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0) text += i % columns == 0 ? "; " : " ";
    text += fmt::format("{:g}", numbers[i]);
  }
  return text + "]";
}

// "0.weight [1 0; 0 1]  0.bias [0 0]".
std::string text_of(const NamedNumbers& all) {
  std::string text;
  for (const auto& [name, numbers] : all) {
    text += (text.empty() ? "" : "  ") + name + " " + text_of(numbers);
  }
  return text;
}

std::string hash_of(const NamedNumbers& all) {
  std::uint64_t hash = 0;
  for (const auto& [name, numbers] : all) hash = dist::hash_of(numbers, hash);
  return fmt::format("{:016x}", hash);
}

// A line for each of this rank's samples.
std::string forward_text(const Process& process, int rank, const Stream& stream) {
  const Numbers logits = to_host(stream, process.logits);
  const Numbers grad_logits = to_host(stream, process.loss.grad());
  std::string text;
  for (std::size_t i = 0; i < process.samples.size(); ++i) {
    Numbers x(kWidth);
    const std::int32_t label = process.data.get(process.samples[i], x);
    text += fmt::format("  rank {}  sample {}: x {}, label {}, logits {}, dloss/dlogits {}\n",
                        rank, process.samples[i], text_of(x), label,
                        text_of(std::span(logits).subspan(kWidth * i, kWidth)),
                        text_of(std::span(grad_logits).subspan(kWidth * i, kWidth)));
  }
  return text;
}

}  // namespace

int explain(const Program& program, ProcessGroup& real_group) {
  const Communicator& comm = program.comm;
  const Console& console = program.console;
  const Stream& stream = program.stream;
  const int rank = comm.rank();
  ObservedGroup group(real_group);
  const auto say = [&](const std::string& text) { lines_in_rank_order(console, comm, text); };
  console.line("one step of {} ranks, model 2-2-2 on {} ({}), gradients by {}", comm.size(),
               to_string(stream.device()), program.device.reason, group.description());

  console.line("1. parameters: each rank makes its own, then all ranks receive rank 0's");
  Process process(comm.size(), rank, stream);
  Mlp& model = process.model;
  const NamedNumbers made = copies(model, &Parameter::value, stream);
  say(fmt::format("  rank {} made  {}  hash {}", rank, text_of(made), hash_of(made)));
  DistributedDataParallel ddp(model, group, stream, kCaps);
  const NamedNumbers received = copies(model, &Parameter::value, stream);
  say(fmt::format("  rank {} has   {}  hash {}", rank, text_of(received), hash_of(received)));

  Process lone(1, 0, stream);  // on every rank
  console.line("2. sampler: epoch 0's order is {}, and the ranks take turns",
               join(lone.samples, " "));
  say(fmt::format("  rank {}  samples {}", rank, join(process.samples, " ")));

  console.line("3. forward: logits = 2.weight ReLU(0.weight x + 0.bias) + 2.bias");
  process.forward(stream);
  std::array loss{process.loss.value(stream)};
  say(forward_text(process, rank, stream) +
      fmt::format("  rank {}  mean loss {:.6f}", rank, loss[0]));
  all_reduce<double>(comm, loss, ReduceOp::avg);
  console.line("  mean over the ranks {:.6f}", loss[0]);

  console.line("4. backward: each rank's own gradients, in the order they became ready");
  ddp.backward(process.loss.grad(), {}, stream);
  group.synchronize(stream.record_event());
  const NamedNumbers averaged = copies(model, &Parameter::grad, stream);
  std::string own;
  for (std::size_t b = 0; b < ddp.buckets().size(); ++b) {
    std::span<const float> left = group.all_reduces.at(b).second;
    for (const std::string& name : ddp.buckets()[b].names) {
      const std::size_t count = averaged.at(name).size();
      own += fmt::format("{}  rank {}  {:8} {}", own.empty() ? "" : "\n", rank, name,
                         text_of(left.first(count)));
      left = left.subspan(count);
    }
    own += fmt::format("  -> bucket {} is full; its all-reduce starts", b);
  }
  say(own);

  console.line("5. all-reduce: each rank's numbers in the bucket -> their average");
  for (const auto& [bucket, given] : group.all_reduces) {
    console.line("  {}, {} bytes", bucket.name, bucket.tensor.size_bytes());
    say(fmt::format("    rank {}  {} -> {}", rank, text_of(given, given.size()),
                    text_of(to_host(stream, bucket.tensor), given.size())));
  }

  console.line("6. optimizer: parameter - learning rate x averaged gradient");
  const NamedNumbers updated = update(model, stream);
  for (const auto& [name, before] : received) {  // rank 0's, which all ranks make
    console.line("  {:8} {} - {:g} x {} = {}", name, text_of(before), kLearningRate,
                 text_of(averaged.at(name)), text_of(updated.at(name)));
  }
  say(fmt::format("  rank {} has   hash {}", rank, hash_of(updated)));

  console.line("7. the same step taken by one process, with all samples in one batch");
  lone.forward(stream);
  lone.model.backward(lone.loss.grad(), stream);
  const double lone_loss = lone.loss.value(stream);
  const NamedNumbers gradients = copies(lone.model, &Parameter::grad, stream);
  const NamedNumbers parameters = update(lone.model, stream);
  console.line("  samples {}, mean loss {:.6f}, hash {}", join(lone.samples, " "), lone_loss,
               hash_of(parameters));
  console.line("  gradients   " + text_of(gradients));
  console.line("  parameters  " + text_of(parameters));

  console.row({{"explain", "one step"}, {"loss", lone_loss}, {"hash", hash_of(parameters)}});
  return console.verdict(
      comm, averaged == gradients && updated == parameters && loss[0] == lone_loss,
      fmt::format("{} ranks and one process took the same step, bit for bit", comm.size()),
      fmt::format("the step of {} ranks differs from that of one process", comm.size()));
}

}  // namespace dist
