// Look at: explain(), which observes DDP at work. The step itself is in explained_step.cpp.
#include "05_ddp_training/explain/explain.hpp"

#include "03_all_reduce/all_reduce.hpp"
#include "05_ddp_training/data_parallel/distributed_data_parallel.hpp"
#include "05_ddp_training/data_parallel/replica_check.hpp"
#include "05_ddp_training/explain/explained_step.hpp"
#include "05_ddp_training/explain/recording_process_group.hpp"
#include "common/join.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace dist {
namespace {

// 2.bias and 2.weight take 24 bytes, and so do 0.bias and 0.weight, so there are two buckets.
constexpr BucketCaps kCaps{.first_bytes = 24, .bytes = 24};

// A gradient just after the backward pass finished it, and the number of buckets sent by then.
struct ReadyGradient {
  Snapshot gradient;
  std::size_t buckets_gone;
};

// Prints each rank's report in rank order, as lines of text or as JSON rows. All members are
// called on all ranks.
class Report {
 public:
  Report(const Communicator& comm, const Console& console) : comm_(comm), console_(console) {}

  void heading(const std::string& text) const { console_.line(text); }

  // `when` says which parameters these are: those that each rank made ("made"), those after
  // DDP's broadcast ("broadcast"), or those after the optimizer's step ("step").
  void parameters(const std::string& when, const Snapshots& all) const {
    const std::string numbers = when == "step" ? "" : text_of(all) + "  ";
    say(fmt::format("  rank {} {}  {}hash {}", comm_.rank(), when == "made" ? "made" : "has ",
                    numbers, hash_of(all)),
        {{"explain", "parameters"},
         {"rank", comm_.rank()},
         {"when", when},
         {"values", json_of(all)},
         {"hash", hash_of(all)}});
  }

  void samples(const ExplainedStep& step) const {
    say(fmt::format("  rank {}  samples {}", comm_.rank(), join(step.samples, " ")),
        {{"explain", "samples"}, {"rank", comm_.rank()}, {"samples", step.samples}});
  }

  void forward(const ExplainedStep& step) const {
    std::string text;
    for (std::size_t i = 0; i < step.samples.size(); ++i) {
      text += fmt::format("  rank {}  sample {}: x {}, label {}, logits {}, dloss/dlogits {}\n",
                          comm_.rank(), step.samples[i], step.inputs.row(i), step.labels[i],
                          step.logits.row(i), step.grad_logits.row(i));
    }
    say(text + fmt::format("  rank {}  mean loss {:.6f}", comm_.rank(), step.loss),
        {{"explain", "forward"},
         {"rank", comm_.rank()},
         {"x", step.inputs.values},
         {"labels", step.labels},
         {"logits", step.logits.values},
         {"loss", significant(step.loss)},
         {"grad_logits", step.grad_logits.values}});
  }

  void backward(const std::vector<ReadyGradient>& ready, std::size_t buckets) const {
    std::string text;
    Json gradients = Json::array();
    for (std::size_t i = 0; i < ready.size(); ++i) {
      const Snapshot& gradient = ready[i].gradient;
      Json row{{"name", gradient.name}, {"values", gradient.values}, {"starts", nullptr}};
      text += fmt::format("{}  rank {}  {:8} {}", i == 0 ? "" : "\n", comm_.rank(),
                          gradient.name, gradient.text());
      // The buckets that were sent after this gradient was ready and before the next one was.
      const std::size_t later = i + 1 < ready.size() ? ready[i + 1].buckets_gone : buckets;
      for (std::size_t bucket = ready[i].buckets_gone; bucket < later; ++bucket) {
        text += fmt::format("  -> bucket {} is full; its all-reduce starts", bucket);
        row["starts"] = bucket;
      }
      gradients.push_back(row);
    }
    say(text, {{"explain", "backward"}, {"rank", comm_.rank()}, {"ready", gradients}});
  }

  void bucket(std::size_t number, const std::vector<std::string>& names,
              const std::vector<float>& before, const std::vector<float>& after) const {
    heading(fmt::format("  bucket {}: {}, {} bytes", number, join(names, ", "),
                        before.size() * sizeof(float)));
    say(fmt::format("    rank {}  {} -> {}", comm_.rank(), text_of(before), text_of(after)),
        {{"explain", "bucket"},
         {"rank", comm_.rank()},
         {"bucket", number},
         {"names", names},
         {"before", before},
         {"after", after}});
  }

  // Shows only rank 0's update, because all ranks make the same update.
  void update(const Snapshots& before, const ExplainedStep& step) const {
    for (std::size_t i = 0; i < before.size(); ++i) {
      heading(fmt::format("  {:8} {} - {:g} x {} = {}", before[i].name, before[i].text(),
                          kExplainedLearningRate, step.gradients[i].text(),
                          step.parameters[i].text()));
    }
  }

  void alone(const ExplainedStep& step) const {
    heading(fmt::format("  samples {}, mean loss {:.6f}, hash {}", join(step.samples, " "),
                        step.loss, hash_of(step.parameters)));
    heading("  gradients   " + text_of(step.gradients));
    heading("  parameters  " + text_of(step.parameters));
    console_.row({{"explain", "one process"},
                  {"samples", step.samples},
                  {"loss", significant(step.loss)},
                  {"gradients", json_of(step.gradients)},
                  {"parameters", json_of(step.parameters)},
                  {"hash", hash_of(step.parameters)}});
  }

 private:
  void say(const std::string& text, const Json& row) const {
    lines_in_rank_order(console_, comm_, text);
    rows_in_rank_order(console_, comm_, row);
  }

  const Communicator& comm_;
  const Console& console_;
};

}  // namespace

int explain(const Communicator& comm, const Console& console, ProcessGroup& group,
            const Stream& stream, const std::string& device_reason) {
  // Take the step, and record every gradient and every message.
  Mlp model = make_explained_model(comm.rank(), stream);
  const Snapshots made = parameters_of(model, stream);
  RecordingProcessGroup recorder(group);
  DistributedDataParallel ddp(model, recorder, stream, kCaps);
  const Snapshots received = parameters_of(model, stream);
  std::vector<ReadyGradient> ready;
  ddp.observe([&](std::size_t index) {
    const Parameter& parameter = model.parameters()[index];
    ready.push_back(
        {snapshot(parameter.name, parameter.grad, stream), recorder.exchanges().size()});
  });
  const ExplainedStep step = take_explained_step(
      model, comm.size(), comm.rank(), stream,
      [&](const Tensor& grad_logits) { ddp.backward(grad_logits, stream); });
  group.synchronize(stream.record_event());
  std::array means{step.loss};
  all_reduce<double>(comm, means, ReduceOp::avg);
  const double mean = means[0];

  // Repeat the step as one process would, with all samples in one batch. Every rank does this.
  Mlp lone_model = make_explained_model(0, stream);
  const ExplainedStep alone = take_explained_step(
      lone_model, 1, 0, stream,
      [&](const Tensor& grad_logits) { lone_model.backward(grad_logits, stream); });

  const Report report(comm, console);
  report.heading(fmt::format("one step of {} ranks, model 2-2-2 on {} ({}), gradients by {}",
                             comm.size(), to_string(stream.device()), device_reason,
                             group.description()));
  report.heading("1. parameters: each rank makes its own, then all ranks receive rank 0's");
  report.parameters("made", made);
  report.parameters("broadcast", received);
  report.heading(fmt::format("2. sampler: epoch 0's order is {}, and the ranks take turns",
                             join(alone.samples, " ")));
  report.samples(step);
  report.heading("3. forward: logits = 2.weight ReLU(0.weight x + 0.bias) + 2.bias");
  report.forward(step);
  report.heading(fmt::format("  mean over the ranks {:.6f}", mean));
  report.heading("4. backward: each rank's own gradients, in the order they became ready");
  report.backward(ready, recorder.exchanges().size());
  report.heading("5. all-reduce: each rank's numbers in the bucket -> their average");
  for (std::size_t i = 0; i < recorder.exchanges().size(); ++i) {
    const auto& [before, tensor] = recorder.exchanges()[i];
    report.bucket(i, ddp.reducer().names()[i], before, to_host(stream, tensor));
  }
  report.heading("6. optimizer: parameter - learning rate x averaged gradient");
  report.update(received, step);
  report.parameters("step", step.parameters);
  report.heading("7. the same step taken by one process, with all samples in one batch");
  report.alone(alone);

  const std::string difference = first_difference(comm, model.parameters(), stream);
  const bool same = step.gradients == alone.gradients && step.parameters == alone.parameters &&
                    mean == alone.loss;
  return console.verdict(
      comm.all_agree(same && difference.empty()),
      fmt::format("{} ranks and one process took the same step, bit for bit", comm.size()),
      difference.empty()
          ? fmt::format("the step of {} ranks differs from that of one process", comm.size())
          : fmt::format("the replicas differ, first in {}", difference));
}

}  // namespace dist
