// Belief:  a gradient is ready as soon as backward has computed it.
// Predict: a language model looks up its characters in a table, and multiplies by the same
//          table at the end. Backward computes half of the table's gradient first, and adds
//          the other half last. What if the hook fires at the first of these uses: does a loss
//          show it? Do the replicas stay equal?
// You see: if the table has a bucket of its own, the first half is averaged, and each rank adds
//          its second half to its own copy: the replicas part after step 1, while every loss
//          falls nearly as before. But if this bucket starts late enough, nothing goes wrong:
//          if it also holds the positions' gradient, which is ready after the table's second
//          half, or if it follows the bucket of the positions, because the table is registered
//          first. So another bucket size or order brings the mistake to light. With overlap,
//          the all-reduce and the addition race. To fire at both uses is an error.
// Why:     the table's gradient is the sum over both uses, and only the second completes it. In
//          PyTorch, autograd adds up all uses before a parameter's AccumulateGrad runs, once,
//          and DDP's hook comes after that. (With static_graph, the reducer counts how often a
//          parameter is used.)
//
// Even a right hook has a cost: the table's gradient is complete only when backward ends, so
// its message cannot hide. Buckets are filled in the reverse order of registration, and start
// in order. If the table is registered last, its bucket is the first, and all others wait for
// it. After its first step, PyTorch's DDP fills buckets in the order in which gradients became
// ready, so that from then on, the order of registration does not matter.
#include "04_distributed_sampler/datasets/in_memory_dataset.hpp"
#include "05_ddp_training/break_it/tied_model.hpp"
#include "05_ddp_training/data_parallel/distributed_data_parallel.hpp"
#include "05_ddp_training/small_training/small_training.hpp"

#include <array>
#include <map>
#include <string_view>

namespace dist {
namespace {

constexpr std::string_view kText =
    "each rank has a copy of the model and a part of the data. every rank computes the "
    "gradients of its own part, and then all ranks average them. because they begin with the "
    "same numbers and add the same averages, the copies stay equal, bit for bit, and nobody "
    "has to send the model again. a gradient that is sent too early is only half of what it "
    "should be. each rank adds the other half to its own copy alone, and from then on the "
    "ranks "
    "train different models, although every loss still falls. nobody sees this in a loss. it "
    "shows when the parameters of all ranks are compared, or when a model that was saved by "
    "one "
    "rank does not do what another rank had measured. so compare them now and then.";
constexpr std::size_t kTableWidth = 16;
constexpr BucketCaps kOneBucket{}, kBucketsOfOne{.first_bytes = 1, .bytes = 1};

// Each sample is three characters and the next one.
TensorDataset samples_of(std::string_view text, std::size_t& characters) {
  std::map<char, float> numbers;
  for (const char c : text) numbers.emplace(c, static_cast<float>(numbers.size()));
  characters = numbers.size();
  std::vector<float> inputs;
  std::vector<std::int32_t> targets;
  for (std::size_t i = 0; i + TiedModel::kContext < text.size(); ++i) {
    for (std::size_t k = 0; k < TiedModel::kContext; ++k) {
      inputs.push_back(numbers[text[i + k]]);
    }
    targets.push_back(static_cast<std::int32_t>(numbers[text[i + TiedModel::kContext]]));
  }
  return {std::move(inputs), std::move(targets), TiedModel::kContext, characters};
}

struct TiedOutcome {
  std::string replicas = "equal";
  std::string first{};             // the parameter that differed first
  std::array<double, 2> losses{};  // of the first and the last step, means over the ranks
  std::size_t early = 0;           // buckets that were started before backward ended
  std::size_t buckets = 0;
  double table_share = 0;  // of the gradients' bytes
};

TiedOutcome train(const Program& program, TiedModel::Options options, BucketCaps caps,
                  bool overlap) {
  const Communicator& comm = program.comm;
  const Stream stream(Device{});
  const TensorDataset data = samples_of(kText, options.characters);
  Generator generator(program.common.seed);
  TiedModel model(options, generator, stream);
  const auto group =
      make_process_group(Backend::ours, comm, Device{}, AllReduceAlgorithm::ring, overlap);
  Reducer reducer(model.parameters(), plan_buckets(model.parameters(), caps), *group);
  Optimizer adam({.kind = OptimizerKind::adam}, model.parameters(), stream);
  SmallBatches batches{{data.size(), comm.size(), comm.rank()}, {data, 8, true, stream}};
  CrossEntropyLoss loss;

  TiedOutcome outcome{.buckets = reducer.plans().size()};
  for (std::size_t step = 1; step <= kSmallSteps; ++step) {
    const Batch& batch = batches.next();
    loss.forward(model.forward(batch.inputs, stream), batch.targets, stream);
    model.backward(loss.grad(), stream, Accumulate::no, [&](std::size_t parameter) {
      outcome.early = reducer.started();  // when the last gradient became ready
      reducer.mark_ready(parameter, stream);
    });
    reducer.finalize(stream);
    adam.step(/*lr=*/3e-3, stream);
    outcome.losses[1] = loss.value(stream);
    if (step == 1) outcome.losses[0] = outcome.losses[1];
    if (outcome.replicas != "equal") continue;
    const std::string difference = first_difference(comm, model.parameters(), stream);
    if (difference.empty()) continue;
    outcome.replicas = fmt::format("parted in step {}", step);
    outcome.first = difference.substr(0, difference.find(" of "));
  }
  all_reduce<double>(comm, outcome.losses, ReduceOp::avg);
  outcome.table_share = static_cast<double>(options.characters * options.width) /
                        static_cast<double>(model.count());
  return outcome;
}

// Parameters of GPT-2 (Radford et al., 2019), whose table has 50,257 rows of 768 numbers.
constexpr double kGpt2Table = 50257.0 * 768;
constexpr double kGpt2 =
    kGpt2Table + 1024.0 * 768 + 12 * (12.0 * 768 * 768 + 13 * 768) + 2 * 768;

}  // namespace

bool break_tied_weight(const Program& program) {
  using Ready = TiedModel::Ready;
  const auto options = [](Ready ready, bool table_is_last) {
    return TiedModel::Options{0, kTableWidth, table_is_last, ready};
  };
  struct Row {
    const char* hook;
    const char* registered;
    const char* buckets;
    const char* overlap;
    TiedOutcome outcome;
  };
  const auto right = options(Ready::after_both_uses, true);
  const auto early = options(Ready::at_the_first_use, true);
  const auto early_first = options(Ready::at_the_first_use, false);
  const std::array rows{Row{"after both", "registered last", "one each", "no",
                            train(program, right, kBucketsOfOne, false)},
                        Row{"after one", "registered last", "one each", "no",
                            train(program, early, kBucketsOfOne, false)},
                        Row{"after one", "registered last", "one for all", "no",
                            train(program, early, kOneBucket, false)},
                        Row{"after one", "registered first", "one each", "no",
                            train(program, early_first, kBucketsOfOne, false)},
                        Row{"after one", "registered last", "one each", "yes",
                            train(program, early, kBucketsOfOne, true)}};
  Table table({"hook fires", "table is", "buckets", "overlap", "loss", "the replicas"});
  for (const auto& [hook, registered, buckets, overlap, outcome] : rows) {
    table.add({hook, registered, buckets, overlap,
               fmt::format("{:.2f} -> {:.2f}", outcome.losses[0], outcome.losses[1]),
               outcome.replicas});
  }
  table.print(program.console);

  std::string twice = "nothing is thrown";
  try {
    train(program, options(Ready::at_both_uses, true), kBucketsOfOne, false);
  } catch (const Error& error) {
    twice = error.what();
  }
  say(program, "after each use: error: {}", twice);

  const TiedOutcome first =
      train(program, options(Ready::after_both_uses, false), kBucketsOfOne, false);
  say(program,
      "with a right hook, buckets that start before backward ends: {} of {} (registered last), "
      "{} (first)",
      rows[0].outcome.early, rows[0].outcome.buckets, first.early);
  say(program,
      "the table's share of the gradients, ready only when backward ends: {:.0f} %, in GPT-2 "
      "{:.0f} %",
      100 * first.table_share, 100 * kGpt2Table / kGpt2);
  const bool all_fall = std::ranges::all_of(
      rows, [](const Row& row) { return row.outcome.losses[1] < row.outcome.losses[0]; });
  return all_fall && rows[0].outcome.replicas == "equal" &&
         rows[1].outcome.replicas == "parted in step 1" &&
         rows[1].outcome.first == "embedding.weight" && rows[2].outcome.replicas == "equal" &&
         rows[3].outcome.replicas == "equal" &&
         twice == "the gradient of embedding.weight was marked ready twice" &&
         rows[0].outcome.early == 0 && first.early == first.buckets - 1;
}

}  // namespace dist
