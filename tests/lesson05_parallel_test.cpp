// Lesson 5, what makes a training run of many ranks: replicas that start equal and stay equal,
// gradients that are the mean over ranks, the evaluation, the checkpoint and the flags.
#include "03_all_reduce/all_reduce.hpp"
#include "04_distributed_sampler/data_loader.hpp"
#include "04_distributed_sampler/idx_dataset.hpp"
#include "04_distributed_sampler/in_memory_dataset.hpp"
#include "05_ddp_training/distributed_data_parallel.hpp"
#include "05_ddp_training/evaluation.hpp"
#include "05_ddp_training/naive_data_parallel.hpp"
#include "05_ddp_training/optimizer.hpp"
#include "05_ddp_training/process_group/process_group.hpp"
#include "05_ddp_training/resilience/replica_check.hpp"
#include "05_ddp_training/safetensors.hpp"
#include "05_ddp_training/training_data.hpp"
#include "common/hash.hpp"
#include "common/why_no_nccl.hpp"
#include "tests/support/mpi_test.hpp"

#include <mpi.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

using namespace dist;
using dist::test::all_ranks;
using dist::test::world;

using Floats = std::vector<float>;

const std::vector<std::size_t> kWidths{5, 7, 6, 3};

std::size_t ranks() {
  return static_cast<std::size_t>(world().size());
}
std::size_t rank() {
  return static_cast<std::size_t>(world().rank());
}

Mlp make_model(std::uint64_t seed, const Stream& stream) {
  Generator generator(seed);
  return {kWidths, generator, stream};
}

TensorDataset make_dataset(std::size_t samples, std::uint64_t seed) {
  Generator generator(seed);
  return synthetic_dataset(samples, kWidths.front(), kWidths.back(), generator);
}

// All parameters, or all gradients, in a row.
Floats flat(const Mlp& model, Tensor Parameter::*which, const Stream& stream) {
  Floats all;
  for (const Parameter& parameter : model.parameters()) {
    const Floats numbers = to_host(stream, parameter.*which);
    all.insert(all.end(), numbers.begin(), numbers.end());
  }
  return all;
}

// The largest distance of two lists; infinite if a number is NaN or a list is short.
double largest_error(const Floats& got, const Floats& wanted) {
  if (got.size() != wanted.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double distance =
        std::abs(static_cast<double>(got[i]) - static_cast<double>(wanted[i]));
    if (std::isnan(distance)) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, distance);
  }
  return largest;
}

// Called on all ranks: each rank's list, all of one length, by MPI's own means.
std::vector<Floats> gather(const Floats& mine) {
  Floats all(mine.size() * ranks());
  const int count = mpi_count(mine.size());
  MPI_CHECK(MPI_Allgather(mine.data(), count, MPI_FLOAT, all.data(), count, MPI_FLOAT,
                          world().get()));
  std::vector<Floats> lists;
  for (auto begin = all.begin(); begin != all.end(); begin += count) {
    lists.emplace_back(begin, begin + count);
  }
  return lists;
}

Floats mean_over_ranks(const Floats& mine) {
  const std::vector<Floats> lists = gather(mine);
  Floats mean;
  for (std::size_t i = 0; i < mine.size(); ++i) {
    double sum = 0;
    for (const Floats& list : lists) sum += static_cast<double>(list[i]);
    mean.push_back(static_cast<float>(sum / static_cast<double>(ranks())));
  }
  return mean;
}

bool same_bits_everywhere(const Floats& mine) {
  const std::uint64_t hash = fingerprint(mine);
  std::vector<std::uint64_t> all(ranks());
  MPI_CHECK(MPI_Allgather(&hash, 1, MPI_UINT64_T, all.data(), 1, MPI_UINT64_T, world().get()));
  return std::ranges::count(all, hash) == world().size();
}

// Called on all ranks: every way of carrying gradients on `device`.
struct Carrier {
  std::string name;
  std::unique_ptr<ProcessGroup> group;
};
std::vector<Carrier> carriers(Device device) {
  std::vector<Carrier> all;
  for (const auto& [name, algorithm] : kAllReduceAlgorithms) {
    const Backend backend = algorithm == AllReduceAlgorithm::mpi ? Backend::mpi : Backend::ours;
    for (const bool overlap : {false, true}) {
      all.push_back({name + (overlap ? ", on a thread" : ""),
                     make_process_group(backend, world(), device, algorithm, overlap)});
    }
  }
  if (device.is_cpu()) {
    all.push_back({"MPI_Iallreduce", make_process_group(Backend::mpi_nonblocking, world(),
                                                        device, AllReduceAlgorithm::mpi)});
  }
  if (why_no_nccl(world(), device).empty()) {
    all.push_back({"nccl", make_process_group(Backend::nccl, world(), device,
                                              AllReduceAlgorithm::automatic)});
  }
  return all;
}

std::unique_ptr<DataParallel> wrap(bool naive, Mlp& model, ProcessGroup& group,
                                   const Stream& stream) {
  if (naive) return std::make_unique<NaiveDataParallel>(model, group, stream);
  return std::make_unique<DistributedDataParallel>(model, group, stream);
}

// The CPU, and a GPU where there is one.
std::vector<Device> devices() {
  std::vector<Device> found{Device{}};
  if (cuda_device_count() > 0) {
    found.push_back(choose_device("cuda", world().local_rank()).device);
  }
  return found;
}

}  // namespace

TEST_CASE("every rank starts from rank 0's parameters", "[gpu]") {
  for (const Device device : devices()) {
    const Stream stream(device);
    const Floats of_rank_0 = flat(make_model(100, stream), &Parameter::value, stream);
    for (const Carrier& carrier : carriers(device)) {
      for (const bool naive : {false, true}) {
        CAPTURE(to_string(device), carrier.name, naive);
        Mlp model = make_model(100 + rank(), stream);
        const bool alike = flat(model, &Parameter::value, stream) == of_rank_0;
        CHECK(alike == (rank() == 0));
        const auto parallel = wrap(naive, model, *carrier.group, stream);
        CHECK(largest_error(flat(model, &Parameter::value, stream), of_rank_0) == 0.0);
      }
    }
  }
}

TEST_CASE("after backward every gradient is the mean over the ranks, with the same bits",
          "[gpu]") {
  for (const Device device : devices()) {
    const Stream stream(device);
    for (const Carrier& carrier : carriers(device)) {
      Mlp alone = make_model(100, stream);  // what rank 0's model becomes everywhere
      Mlp bucketed = make_model(100 + rank(), stream);
      Mlp separate = make_model(100 + rank(), stream);
      const auto ddp = wrap(false, bucketed, *carrier.group, stream);
      const auto naive = wrap(true, separate, *carrier.group, stream);
      const TensorDataset dataset = make_dataset(9, 200 + rank());
      DataLoader loader(dataset, 4, /*drop_last=*/false, stream);
      CrossEntropyLoss loss;
      for (const Batch& batch : loader.over({8, 7, 6, 5, 4, 3, 2, 1, 0})) {
        CAPTURE(to_string(device), carrier.name, batch.rows());
        loss.forward(alone.forward(batch.inputs, stream), batch.targets, stream);
        alone.backward(loss.grad(), stream);
        const Floats mean = mean_over_ranks(flat(alone, &Parameter::grad, stream));

        loss.forward(ddp->forward(batch.inputs, stream), batch.targets, stream);
        ddp->backward(loss.grad(), stream);
        const Floats in_bucket = flat(bucketed, &Parameter::grad, stream);
        CHECK(largest_error(in_bucket, mean) < 1e-6);
        CHECK(same_bits_everywhere(in_bucket));

        loss.forward(naive->forward(batch.inputs, stream), batch.targets, stream);
        naive->backward(loss.grad(), stream);
        const Floats one_by_one = flat(separate, &Parameter::grad, stream);
        CHECK(largest_error(one_by_one, mean) < 1e-6);
        CHECK(same_bits_everywhere(one_by_one));
        // Two numbers have one sum; three have several, by the order of adding.
        CHECK(largest_error(in_bucket, one_by_one) <= (ranks() <= 2 ? 0.0 : 1e-6));
      }
    }
  }
}

TEST_CASE("the gradients of DistributedDataParallel are windows of one bucket") {
  const Stream stream(Device{});
  const auto group =
      make_process_group(Backend::ours, world(), Device{}, AllReduceAlgorithm::automatic);
  Mlp model = make_model(100 + rank(), stream);
  const DistributedDataParallel ddp(model, *group, stream);
  CHECK(ddp.reducer().buckets() == 1);
  const float* next = model.parameters().back().grad.data();  // the first to be finished
  for (std::size_t i = model.parameters().size(); i-- > 0;) {
    const Parameter& parameter = model.parameters()[i];
    CAPTURE(parameter.name);
    CHECK(parameter.grad.data() == next);
    CHECK(parameter.grad.shape() == parameter.value.shape());
    next += parameter.value.numel();
  }
}

TEST_CASE("N ranks with batches of B train the model that one process trains with N * B") {
  const std::size_t batch = 4;
  const Stream stream(Device{});
  const auto group =
      make_process_group(Backend::ours, world(), Device{}, AllReduceAlgorithm::automatic);
  // Per epoch two whole batches and half a batch on each rank.
  const TensorDataset dataset = make_dataset(ranks() * (2 * batch + batch / 2), 300);
  for (const std::string optimizer : {"sgd", "adam"}) {
    const OptimizerOptions options{.name = optimizer};
    for (const bool naive : {false, true}) {
      CAPTURE(optimizer, naive);
      const double lr = optimizer == "sgd" ? 0.1 : 1e-3;
      Mlp model = make_model(100 + rank(), stream);
      Mlp twin = make_model(100, stream);
      const Floats at_first = flat(twin, &Parameter::value, stream);
      const auto parallel = wrap(naive, model, *group, stream);
      const auto optimize = make_optimizer(options, model.parameters(), stream);
      const auto optimize_twin = make_optimizer(options, twin.parameters(), stream);
      DistributedSampler sampler(dataset.size(), world().size(), world().rank());
      DistributedSampler twin_sampler(dataset.size(), 1, 0);
      DataLoader loader(dataset, batch, /*drop_last=*/false, stream);
      DataLoader twin_loader(dataset, batch * ranks(), /*drop_last=*/false, stream);
      CrossEntropyLoss loss;
      CrossEntropyLoss twin_loss;
      int steps = 0;
      for (const std::uint64_t epoch : {0U, 1U}) {
        sampler.set_epoch(epoch);
        twin_sampler.set_epoch(epoch);
        auto mine = loader.over(sampler.indices());
        auto whole = twin_loader.over(twin_sampler.indices());
        CHECK(loader.batches(sampler.num_samples()) == 3);
        CHECK(twin_loader.batches(twin_sampler.num_samples()) == 3);
        for (auto ours = mine.begin(), its = whole.begin(); ours != mine.end();
             ++ours, ++its, ++steps) {
          CAPTURE(steps);
          const Batch& part = *ours;
          loss.forward(parallel->forward(part.inputs, stream), part.targets, stream);
          parallel->backward(loss.grad(), stream);
          optimize->step(lr, stream);
          const Batch& all = *its;
          CHECK(all.rows() == part.rows() * ranks());
          twin_loss.forward(twin.forward(all.inputs, stream), all.targets, stream);
          twin.backward(twin_loss.grad(), stream);
          optimize_twin->step(lr, stream);

          double mean = loss.value(stream);
          MPI_CHECK(MPI_Allreduce(MPI_IN_PLACE, &mean, 1, MPI_DOUBLE, MPI_SUM, world().get()));
          mean /= static_cast<double>(ranks());
          const double want = twin_loss.value(stream);
          CHECK(std::abs(mean - want) < 1e-5 * want);
        }
      }
      CHECK(steps == 6);
      const Floats at_last = flat(model, &Parameter::value, stream);
      CHECK(largest_error(at_last, flat(twin, &Parameter::value, stream)) < 1e-5);
      CHECK(largest_error(at_last, at_first) > 1e-3);  // they did train
      CHECK(first_difference(world(), model.parameters(), stream).empty());
    }
  }
}

TEST_CASE("one flipped bit on one rank is found, and named on all") {
  const Stream stream(Device{});
  Mlp model = make_model(100, stream);
  CHECK(first_difference(world(), model.parameters(), stream).empty());
  const auto flip_lowest_bit = [](float& number) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &number, sizeof(bits));
    bits ^= 1U;
    std::memcpy(&number, &bits, sizeof(bits));
  };
  for (const std::size_t culprit : {std::size_t{0}, ranks() / 2, ranks() - 1}) {
    for (const Parameter& parameter : model.parameters()) {
      CAPTURE(culprit, parameter.name);
      float& number = parameter.value.span().back();
      if (rank() == culprit) flip_lowest_bit(number);
      const std::string found = first_difference(world(), model.parameters(), stream);
      // Between two, nobody can say who is right.
      CHECK(found == (ranks() == 1   ? std::string()
                      : ranks() == 2 ? fmt::format("{} of ranks 0, 1", parameter.name)
                                     : fmt::format("{} of rank {}", parameter.name, culprit)));
      if (rank() == culprit) flip_lowest_bit(number);
    }
  }
  // With two of them wrong, the first is named.
  for (const std::size_t index : {std::size_t{2}, std::size_t{5}}) {
    float& number = model.parameters()[index].value.span().front();
    number += static_cast<float>(world().rank());
  }
  CHECK(
      first_difference(world(), model.parameters(), stream).starts_with("2.weight of ranks") ==
      (ranks() > 1));
}

TEST_CASE("right answers counted by all ranks are those that one rank counts") {
  const Stream stream(Device{});
  Mlp model = make_model(100, stream);
  // More than one of the evaluation's batches; and fewer samples than ranks.
  for (const std::size_t samples : {std::size_t{1003}, std::size_t{5}}) {
    CAPTURE(samples);
    const TensorDataset dataset = make_dataset(samples, 400);
    std::uint64_t by_all = count_correct(
        model, dataset, exact_shard(samples, world().size(), world().rank()), stream);
    MPI_CHECK(MPI_Allreduce(MPI_IN_PLACE, &by_all, 1, MPI_UINT64_T, MPI_SUM, world().get()));
    std::vector<std::size_t> indices(samples);
    std::iota(indices.begin(), indices.end(), 0U);
    std::size_t by_hand = 0;
    for (const std::size_t index : indices) {
      const Tensor row({1, kWidths.front()}, Device{});
      const std::int32_t label = dataset.get(index, row.span());
      const Floats logits = to_host(stream, model.forward(row, stream));
      if (std::ranges::max_element(logits) - logits.begin() == label) ++by_hand;
    }
    CHECK(by_all == by_hand);
    CHECK(count_correct(model, dataset, indices, stream) == by_hand);
    if (samples > 100) CHECK(by_hand > 100);
  }
}

TEST_CASE("the backend is chosen alike on all ranks, and nccl is refused by name on a CPU") {
  CHECK(choose_backend("auto", world(), Device{}).backend == Backend::ours);
  CHECK(choose_backend("ours", world(), Device{}).backend == Backend::ours);
  CHECK(choose_backend("mpi", world(), Device{}).backend == Backend::mpi);
  std::string refusal;
  try {
    choose_backend("nccl", world(), Device{});
  } catch (const Error& error) {
    refusal = error.what();
  }
  CHECK(refusal.starts_with("--backend: nccl"));
  const auto description = [](Backend backend, AllReduceAlgorithm algorithm) {
    return make_process_group(backend, world(), Device{}, algorithm)->description();
  };
  CHECK(description(Backend::ours, AllReduceAlgorithm::ring) == "ours (ring)");
  CHECK(description(Backend::mpi, AllReduceAlgorithm::ring) == "mpi");
}

TEST_CASE("a process group reduces and broadcasts a tensor where it lies", "[gpu]") {
  for (const Device device : devices()) {
    const Stream stream(device);
    for (const Carrier& carrier : carriers(device)) {
      CAPTURE(to_string(device), carrier.name);
      const auto mine = static_cast<float>(rank() + 1);
      const auto last = static_cast<float>(ranks());
      const Floats numbers{mine, -mine, 10 * mine};
      const Tensor tensor = carrier.group->allocate({3});
      const auto run = [&](auto operation) {
        copy_bytes(stream, tensor.data(), numbers.data(), tensor.size_bytes());
        const std::unique_ptr<Work> work = operation();
        work->wait(stream);
        stream.synchronize();
        CHECK(work->is_completed());
        return to_host(stream, tensor);
      };
      const float sum = last * (last + 1) / 2;
      CHECK(run([&] { return carrier.group->all_reduce(tensor, ReduceOp::sum, stream); }) ==
            Floats{sum, -sum, 10 * sum});
      CHECK(run([&] { return carrier.group->all_reduce(tensor, ReduceOp::max, stream); }) ==
            Floats{last, -1, 10 * last});
      CHECK(run([&] { return carrier.group->broadcast(tensor, world().size() - 1, stream); }) ==
            Floats{last, -last, 10 * last});
    }
  }
}

namespace {

// A folder of this process alone, removed at the end.
class TempFolder {
 public:
  TempFolder()
      : path_(std::filesystem::temp_directory_path() /
              fmt::format("lesson05_test.rank{}.{}", rank(), ::getpid())) {
    std::filesystem::create_directories(path_);
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::ptrdiff_t entries() const {
    return std::distance(std::filesystem::directory_iterator(path_), {});
  }

 private:
  std::filesystem::path path_;
};

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Reads a checkpoint by hand: the length of the header, the header, and then every parameter's
// bytes at the place that the header gives, without gaps.
void check_checkpoint(const std::string& path, const Mlp& model,
                      const std::map<std::string, std::string>& metadata) {
  const std::string bytes = content(path);
  std::uint64_t length = 0;
  CHECK(bytes.size() > sizeof(length));
  std::memcpy(&length, bytes.data(), std::min(bytes.size(), sizeof(length)));
  const std::string text = bytes.substr(std::min(bytes.size(), sizeof(length)), length);
  CHECK(text.size() == length);
  CHECK(text.starts_with('{'));
  CHECK(length % 8 == 0);
  const std::string data = bytes.substr(sizeof(length) + text.size());
  const auto header = nlohmann::json::parse(text);
  CHECK(header.size() == model.parameters().size() + 1);
  nlohmann::json described = header.at("__metadata__");
  CHECK(described.erase(kChecksumKey) == 1);
  CHECK(described == nlohmann::json(metadata));
  std::size_t begin = 0;
  for (const Parameter& parameter : model.parameters()) {
    CAPTURE(parameter.name);
    const nlohmann::json& entry = header.at(parameter.name);
    CHECK(entry.size() == 3);
    CHECK(entry.at("dtype") == "F32");
    CHECK(entry.at("shape").get<Shape>() == parameter.value.shape());
    const std::size_t end = begin + 4 * parameter.value.numel();
    CHECK(entry.at("data_offsets").get<Shape>() == Shape{begin, end});
    CHECK(end <= data.size());
    if (end > data.size()) return;
    CHECK(std::memcmp(data.data() + begin, parameter.value.data(), end - begin) == 0);
    begin = end;
  }
  CHECK(begin == data.size());
}

void save(const std::string& path, const Mlp& model,
          const std::map<std::string, std::string>& metadata, const Stream& stream) {
  std::vector<NamedTensor> tensors;
  for (const Parameter& parameter : model.parameters()) {
    tensors.push_back({parameter.name, parameter.value});
  }
  write_safetensors(path, tensors, metadata, stream);
}

}  // namespace

TEST_CASE("a file holds every parameter to the bit, and a failing write harms nothing") {
  const TempFolder folder;
  const std::string path = folder.file("model.safetensors");
  const Stream stream(Device{});
  Generator generator(500 + rank());
  const Mlp large({5, 70, 3}, generator, stream);
  const Mlp small({4, 6, 3}, generator, stream);
  const std::map<std::string, std::string> metadata{{"step", "12"}, {"note", "a \"b\" \\ ü\n"}};

  save(path, large, metadata, stream);
  check_checkpoint(path, large, metadata);
  // Overwritten by a shorter one, with a longer one's remains from a run that was killed:
  // nothing of either may stand behind it.
  std::ofstream(path + ".tmp") << std::string(10'000, 'x');
  save(path, small, {{"step", "13"}}, stream);
  check_checkpoint(path, small, {{"step", "13"}});
  CHECK(folder.entries() == 1);
  const std::string before = content(path);

  const auto refused_by_name = [&](const std::string& name) {
    try {
      save(name, large, {}, stream);
    } catch (const Error& error) {
      return std::string(error.what()).find(name) != std::string::npos;
    }
    return false;
  };

  SECTION("the folder is not there") {
    CHECK(refused_by_name(folder.file("missing/model.safetensors")));
  }
  SECTION("the temporary name is a folder's") {
    std::filesystem::create_directory(path + ".tmp");
    CHECK(refused_by_name(path));
    std::filesystem::remove(path + ".tmp");
  }
  SECTION("the disk is full") {
    REQUIRE(all_ranks(std::filesystem::exists("/dev/full")));  // or the link would create it
    std::filesystem::create_symlink("/dev/full", path + ".tmp");
    CHECK(refused_by_name(path));
  }
  SECTION("the name itself is a folder's") {
    const std::string taken = folder.file("taken");
    std::filesystem::create_directory(taken);
    CHECK(refused_by_name(taken));
    CHECK(std::filesystem::remove(taken));
  }
  const bool untouched = content(path) == before;
  CHECK(untouched);
  CHECK(folder.entries() == 1);  // no temporary file is left
}

namespace {

// A training program's flags, read as its main does.
struct Program {
  TrainingOptions options;
  TrainingData data;

  // What it says to these flags before it leaves; empty if it goes on.
  std::string answer(std::vector<std::string> arguments, int ranks) {
    CommandLine command_line("lesson05_test", "a training program");
    options.declare(command_line, /*writes=*/true);
    command_line.check([&] { data.load(options, ranks); });
    arguments.insert(arguments.begin(), "lesson05_test");
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    const auto exit = command_line.parse(static_cast<int>(argv.size()), argv.data());
    if (!exit) return "";
    CHECK(exit->status == 2);
    return exit->text;
  }
};

void write_file(const std::string& path, const std::vector<std::uint8_t>& bytes) {
  std::ofstream file(path, std::ios::binary);
  for (const std::uint8_t byte : bytes) file.put(static_cast<char>(byte));
}

// 20 images of 2 x 3 pixels in 4 classes.
void write_idx_pair(const std::string& prefix) {
  std::vector<std::uint8_t> pixels, labels;
  for (std::size_t i = 0; i < 20 * 6; ++i) pixels.push_back(static_cast<std::uint8_t>(i));
  for (std::size_t i = 0; i < 20; ++i) labels.push_back(static_cast<std::uint8_t>(i % 4));
  write_file(prefix + "-images-idx3-ubyte", format_idx_images({20, 2, 3, pixels}));
  write_file(prefix + "-labels-idx1-ubyte", format_idx_labels(labels));
}

}  // namespace

TEST_CASE("flags that do not fit the data are refused by name") {
  const TempFolder folder;
  std::filesystem::create_directory(folder.file("idx"));
  std::filesystem::create_directory(folder.file("empty"));
  write_idx_pair(folder.file("idx/digits"));
  const std::vector<std::string> synthetic{"--dataset", "synthetic", "--layers",
                                           "5,3",       "--classes", "3"};
  const std::vector<std::string> idx{"--dataset", "idx", "--data", folder.file("idx")};
  const auto with = [](std::vector<std::string> flags, const std::vector<std::string>& more) {
    flags.insert(flags.end(), more.begin(), more.end());
    return flags;
  };
  struct Mistake {
    std::string flag;
    std::vector<std::string> arguments;
    int ranks = 4;
  };
  const std::vector<Mistake> mistakes{
      {"--layers", {"--dataset", "synthetic", "--layers", "5,4", "--classes", "3"}},
      {"--layers", {"--dataset", "synthetic", "--layers", "5"}},
      {"--layers", with(idx, {"--layers", "7,4", "--batch-size", "1"})},
      {"--layers", with(idx, {"--layers", "6,3", "--batch-size", "1"})},
      {"--batch-size", with(synthetic, {"--samples", "10", "--batch-size", "11"})},
      {"--batch-size", idx},
      {"--dataset", with(synthetic, {"--samples", "3", "--batch-size", "1"})},
      {"--dataset", with(idx, {"--batch-size", "1"}), 17},
      {"--loader-drop-last",
       with(synthetic, {"--samples", "10", "--batch-size", "4", "--loader-drop-last"})},
      {"--data", with(synthetic, {"--data", folder.file("idx")})},
      {"--data", {"--dataset", "idx"}},
      {"--data", {"--dataset", "idx", "--data", folder.file("missing")}},
      {"--data", {"--dataset", "idx", "--data", folder.file("empty")}},
      {"--checkpoint-every", with(synthetic, {"--checkpoint-every", "2"})},
      {"--checkpoint", with(synthetic, {"--checkpoint", folder.file("missing/x")})},
      {"--metrics", with(synthetic, {"--metrics", folder.file("empty")})},
  };
  for (const Mistake& mistake : mistakes) {
    CAPTURE(mistake.arguments);
    const std::string answer = Program().answer(mistake.arguments, mistake.ranks);
    CAPTURE(answer);
    CHECK(answer.starts_with("error: " + mistake.flag + ":"));
  }
}

TEST_CASE("flags that fit are taken, and fill in what was not given") {
  const TempFolder folder;
  write_idx_pair(folder.file("digits"));
  SECTION("the layers follow the data") {
    Program program;
    CHECK(
        program.answer({"--dataset", "idx", "--data", folder.file(""), "--batch-size", "16"}, 4)
            .empty());
    CHECK(program.options.layers == Shape{6, 512, 512, 512, 4});
    CHECK(program.options.optimizer.lr == 1e-3);
    CHECK(program.data.train().size() == 16);  // a fifth is held back
    REQUIRE(all_ranks(program.data.test() != nullptr));
    CHECK(program.data.test()->size() == 4);
  }
  SECTION("as many samples as ranks are enough, and the synthetic set comes after the model") {
    Program program;
    CHECK(
        program
            .answer({"--dataset", "synthetic", "--layers", "5,3", "--classes", "3", "--samples",
                     "7", "--batch-size", "7", "--optimizer", "sgd", "--max-steps", "9"},
                    7)
            .empty());
    CHECK(program.options.optimizer.lr == 0.01);
    CHECK(program.options.total_steps(0, 0, 4, 4) == 9);
    Generator generator(600 + rank());
    program.data.draw(program.options, generator);
    Generator same(600 + rank());
    Floats numbers(7 * 5);
    fill_normal(numbers, same);
    const auto labels = randint(0, 3, 7, same);
    Floats row(5);
    for (std::size_t i = 0; i < 7; ++i) {
      CHECK(program.data.train().get(i, row) == labels[i]);
      CHECK(std::equal(row.begin(), row.end(),
                       numbers.begin() + static_cast<std::ptrdiff_t>(5 * i)));
    }
    CHECK(program.data.test() == nullptr);
  }
}
