// Look at: explain(), part 4. The model's own backward writes this rank's gradients into the
// buckets. DDP's backward writes them there again, and averages them.
#include "05_ddp_training/explain/explain.hpp"

#include "01_send_recv/gpu/host_copy.hpp"
#include "02_broadcast/fingerprint.hpp"
#include "03_all_reduce/all_reduce.hpp"
#include "04_distributed_sampler/data_loader.hpp"
#include "04_distributed_sampler/datasets/in_memory_dataset.hpp"
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "05_ddp_training/data_parallel/distributed_data_parallel.hpp"
#include "05_ddp_training/data_parallel/replica_check.hpp"
#include "05_ddp_training/optimizer/optimizer.hpp"
#include "common/join.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

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
  Process(const Process&) = delete;  // the loader points to the data
  Process& operator=(const Process&) = delete;

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

// The parameters, or their gradients, by name, in registration order. Waits for the stream.
Json copies(const Mlp& model, Tensor Parameter::*part, const Stream& stream) {
  Json all = Json::object();
  for (const Parameter& parameter : model.parameters()) {
    all[parameter.name] = to_host(stream, parameter.*part);
  }
  return all;
}

// Takes a step of SGD, and returns the new parameters.
Json update(Mlp& model, const Stream& stream) {
  const auto optimizer = make_optimizer({.name = "sgd"}, model.parameters(), stream);
  optimizer->step(kLearningRate, stream);
  return copies(model, &Parameter::value, stream);
}

// Numbers as rows: "[1 0; 0 1]".
std::string text_of(const Json& numbers, std::size_t columns = kWidth) {
  std::string text = "[";
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0) text += i % columns == 0 ? "; " : " ";
    text += fmt::format("{:g}", numbers[i].get<float>());
  }
  return text + "]";
}

// Of copies: "0.weight [1 0; 0 1]  0.bias [0 0]".
std::string named_text_of(const Json& all) {
  std::vector<std::string> texts;
  for (const auto& [name, numbers] : all.items())
    texts.push_back(name + " " + text_of(numbers));
  return join(texts, "  ");
}

std::string hash_of(const Json& all) {
  std::uint64_t hash = 0;
  for (const Json& numbers : all) hash = fingerprint(numbers.get<std::vector<float>>(), hash);
  return fmt::format("{:016x}", hash);
}

// Called on all ranks. Prints each rank's text, or its row of this part, in rank order.
struct Narrator {
  const Communicator& comm;
  const Console& console;

  void say(const std::string& part, const std::string& text, const Json& numbers) const {
    Json row{{"explain", part}, {"rank", comm.rank()}};
    row.update(numbers);
    lines_in_rank_order(console, comm, text);
    rows_in_rank_order(console, comm, row);
  }
  // `when` says which parameters these are: those that each rank made ("made"), those after
  // DDP's broadcast ("broadcast"), or those after the optimizer's step ("step").
  void parameters(const std::string& when, const Json& all) const {
    const std::string text = when == "step" ? "" : named_text_of(all) + "  ";
    say("parameters",
        fmt::format("  rank {} {}  {}hash {}", comm.rank(), when == "made" ? "made" : "has ",
                    text, hash_of(all)),
        {{"when", when}, {"values", all}, {"hash", hash_of(all)}});
  }
};

void show_forward(const Narrator& narrator, const Process& process, double loss,
                  const Stream& stream) {
  const Json x = to_host(stream, process.batch.inputs);
  const Json logits = to_host(stream, process.logits);
  const Json grad_logits = to_host(stream, process.loss.grad());
  std::vector<std::int32_t> labels(process.batch.rows());
  const std::span targets = process.batch.targets;
  copy_bytes(stream, labels.data(), targets.data(), targets.size_bytes());
  stream.synchronize();

  const int rank = narrator.comm.rank();
  const auto row = [](const Json& numbers, std::size_t i) {
    return text_of(Json::array({numbers[kWidth * i], numbers[kWidth * i + 1]}));
  };
  std::string text;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    text += fmt::format("  rank {}  sample {}: x {}, label {}, logits {}, dloss/dlogits {}\n",
                        rank, process.samples[i], row(x, i), labels[i], row(logits, i),
                        row(grad_logits, i));
  }
  narrator.say("forward", text + fmt::format("  rank {}  mean loss {:.6f}", rank, loss),
               {{"x", x},
                {"labels", labels},
                {"logits", logits},
                {"loss", significant(loss)},
                {"grad_logits", grad_logits}});
}

// A bucket is full, and DDP starts its all-reduce, when the last of its gradients is ready.
void show_backward(const Narrator& narrator, const Json& ready,
                   const std::vector<std::vector<std::string>>& buckets) {
  std::string text;
  Json rows = Json::array();
  for (const auto& [name, values] : ready.items()) {
    Json row{{"name", name}, {"values", values}, {"starts", nullptr}};
    text += fmt::format("{}  rank {}  {:8} {}", text.empty() ? "" : "\n", narrator.comm.rank(),
                        name, text_of(values));
    for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket) {
      if (buckets[bucket].back() != name) continue;
      text += fmt::format("  -> bucket {} is full; its all-reduce starts", bucket);
      row["starts"] = bucket;
    }
    rows.push_back(row);
  }
  narrator.say("backward", text, {{"ready", rows}});
}

void show_bucket(const Narrator& narrator, std::size_t bucket,
                 const std::vector<std::string>& names, const Json& own, const Json& averaged) {
  Json before = Json::array(), after = Json::array();  // its gradients, one after the other
  for (const std::string& name : names) {
    for (const Json& number : own.at(name)) before.push_back(number);
    for (const Json& number : averaged.at(name)) after.push_back(number);
  }
  narrator.console.line(fmt::format("  bucket {}: {}, {} bytes", bucket, join(names, ", "),
                                    before.size() * sizeof(float)));
  narrator.say("bucket",
               fmt::format("    rank {}  {} -> {}", narrator.comm.rank(),
                           text_of(before, before.size()), text_of(after, after.size())),
               {{"bucket", bucket}, {"names", names}, {"before", before}, {"after", after}});
}

}  // namespace

int explain(const Communicator& comm, const Console& console, ProcessGroup& group,
            const Stream& stream, const std::string& device_reason) {
  const Narrator narrator{comm, console};
  console.line(fmt::format("one step of {} ranks, model 2-2-2 on {} ({}), gradients by {}",
                           comm.size(), to_string(stream.device()), device_reason,
                           group.description()));

  console.line("1. parameters: each rank makes its own, then all ranks receive rank 0's");
  Process process(comm.size(), comm.rank(), stream);
  Mlp& model = process.model;
  narrator.parameters("made", copies(model, &Parameter::value, stream));
  DistributedDataParallel ddp(model, group, stream, kCaps);
  const Json received = copies(model, &Parameter::value, stream);
  narrator.parameters("broadcast", received);

  Process lone(1, 0, stream);  // on every rank
  console.line(fmt::format("2. sampler: epoch 0's order is {}, and the ranks take turns",
                           join(lone.samples, " ")));
  narrator.say("samples",
               fmt::format("  rank {}  samples {}", comm.rank(), join(process.samples, " ")),
               {{"samples", process.samples}});

  console.line("3. forward: logits = 2.weight ReLU(0.weight x + 0.bias) + 2.bias");
  process.forward(stream);
  const double loss = process.loss.value(stream);
  std::array means{loss};
  all_reduce<double>(comm, means, ReduceOp::avg);
  const double mean = means[0];
  show_forward(narrator, process, loss, stream);
  console.line(fmt::format("  mean over the ranks {:.6f}", mean));

  console.line("4. backward: each rank's own gradients, in the order they became ready");
  Json own = Json::object();
  model.backward(process.loss.grad(), stream, Accumulate::no, [&](std::size_t index) {
    const Parameter& parameter = model.parameters()[index];
    own[parameter.name] = to_host(stream, parameter.grad);
  });
  const std::vector<std::vector<std::string>> buckets = ddp.reducer().names();
  show_backward(narrator, own, buckets);

  console.line("5. all-reduce: each rank's numbers in the bucket -> their average");
  ddp.backward(process.loss.grad(), stream);
  group.synchronize(stream.record_event());
  const Json averaged = copies(model, &Parameter::grad, stream);
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    show_bucket(narrator, i, buckets[i], own, averaged);
  }

  console.line("6. optimizer: parameter - learning rate x averaged gradient");
  const Json updated = update(model, stream);
  for (const auto& [name, before] : received.items()) {  // rank 0's, which all ranks make
    console.line(fmt::format("  {:8} {} - {:g} x {} = {}", name, text_of(before), kLearningRate,
                             text_of(averaged.at(name)), text_of(updated.at(name))));
  }
  narrator.parameters("step", updated);

  console.line("7. the same step taken by one process, with all samples in one batch");
  lone.forward(stream);
  lone.model.backward(lone.loss.grad(), stream);
  const double lone_loss = lone.loss.value(stream);
  const Json gradients = copies(lone.model, &Parameter::grad, stream);
  const Json parameters = update(lone.model, stream);
  console.line(fmt::format("  samples {}, mean loss {:.6f}, hash {}", join(lone.samples, " "),
                           lone_loss, hash_of(parameters)));
  console.line("  gradients   " + named_text_of(gradients));
  console.line("  parameters  " + named_text_of(parameters));
  console.row({{"explain", "one process"},
               {"samples", lone.samples},
               {"loss", significant(lone_loss)},
               {"gradients", gradients},
               {"parameters", parameters},
               {"hash", hash_of(parameters)}});

  const std::string difference = first_difference(comm, model.parameters(), stream);
  const bool same = averaged == gradients && updated == parameters && mean == lone_loss;
  return console.verdict(
      comm.all_agree(same && difference.empty()),
      fmt::format("{} ranks and one process took the same step, bit for bit", comm.size()),
      difference.empty()
          ? fmt::format("the step of {} ranks differs from that of one process", comm.size())
          : fmt::format("the replicas differ, first in {}", difference));
}

}  // namespace dist
