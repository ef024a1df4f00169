// How much of a GPT's messages overlap hides, by the model's width, for bench/gpt.py: the same
// buckets with and without it, on a pretended link between the ranks of this machine.
#include "01_send_recv/measure.hpp"
#include "05_ddp_training/advanced/gpt/gpt.hpp"
#include "05_ddp_training/data_parallel/distributed_data_parallel.hpp"
#include "05_ddp_training/model/loss.hpp"
#include "common/command_line.hpp"
#include "common/console.hpp"
#include "common/mpi_environment.hpp"
#include "common/random.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <optional>
#include <vector>

namespace {

using namespace dist;

constexpr std::size_t kVocabulary = 75, kContext = 64;  // as in the text of the page

// A step's forward and backward of random windows, with or without a process group.
class Step {
 public:
  Step(const Communicator& comm, std::size_t width, std::size_t windows, ProcessGroup* group)
      : model_({.vocabulary = kVocabulary, .context = kContext, .width = width}, generator_,
               stream_),
        ids_({windows, kContext}, Device{}) {
    Generator of_rank(static_cast<std::uint64_t>(comm.rank()));
    const auto random = [&] { return randint(0, kVocabulary, windows * kContext, of_rank); };
    std::ranges::copy(random(), ids_.span().begin());
    for (const auto token : random()) targets_.push_back(static_cast<std::int32_t>(token));
    if (group != nullptr) ddp_.emplace(model_, *group, stream_);
  }
  void operator()() {
    loss_.forward(model_.forward(ids_, stream_), targets_, stream_);
    ddp_ ? ddp_->backward(loss_.grad(), {}, stream_) : model_.backward(loss_.grad(), stream_);
    stream_.synchronize();
  }
  std::size_t numbers() const { return model_.count(); }
  std::size_t buckets() const { return plan_buckets(model_.parameters(), {}).size(); }

 private:
  Stream stream_{Device{}, /*threads=*/1};
  Generator generator_{0};
  Gpt model_;
  Tensor ids_;
  std::vector<std::int32_t> targets_;
  CrossEntropyLoss loss_;
  std::optional<DistributedDataParallel> ddp_;
};

}  // namespace

int main(int argc, char** argv) {
  MpiEnvironment mpi(argc, argv);
  const Communicator comm = Communicator::world();
  std::size_t width = 64, windows = 8;
  double link = 1;
  CommandLine flags("gpt_overlap", "Measures how much of a GPT's messages overlap hides.");
  flags.number<std::size_t>("--width", width, 4, 1U << 12, "of the model, a multiple of 4");
  flags.number<std::size_t>("--batch-size", windows, 1, 1U << 12, "windows of each rank");
  flags.number<double>("--pretend-link", link, 0, 1e4, "Gbit/s of the link");
  flags.check([&] {
    if (width % 4 != 0) throw Error("--width: needs a multiple of 4, the number of heads");
  });
  if (const auto exit = parse(flags, comm, argc, argv)) return *exit;

  const auto group = [&](bool overlap) {
    return make_process_group(Backend::ours, comm, Device{}, AllReduceAlgorithm::ring, overlap,
                              link);
  };
  const auto after = group(false), during = group(true);
  Step alone(comm, width, windows, nullptr), waits(comm, width, windows, after.get()),
      hides(comm, width, windows, during.get());
  // In turns, so that whatever else this machine does meets all three.
  constexpr int kWarmUps = 2, kSteps = 20;
  std::array<std::vector<double>, 3> seconds;
  for (int i = 0; i < kWarmUps + kSteps; ++i) {
    for (std::size_t k = 0; k < seconds.size(); ++k) {
      Step& step = *std::array{&alone, &waits, &hides}[k];
      const double time = seconds_on_slowest(comm, [&] { step(); });
      if (i >= kWarmUps) seconds[k].push_back(time);
    }
  }
  const Console console(/*json=*/true, comm.rank() == 0);
  console.row({{"width", width},
               {"numbers", alone.numbers()},
               {"buckets", alone.buckets()},
               {"compute_ms", significant(1e3 * median(seconds[0]))},
               {"waits_ms", significant(1e3 * median(seconds[1]))},
               {"hides_ms", significant(1e3 * median(seconds[2]))}});
  return 0;
}
