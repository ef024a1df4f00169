// Lesson 4: which samples each rank takes, how they become batches, and files that lie.
//
// The indices and the synthetic data are compared with real PyTorch's (tests/golden); the files
// with bytes written out here, and with MNIST itself where it lies beside the repository.
#include "03_all_reduce/all_reduce.hpp"
#include "04_distributed_sampler/data_loader.hpp"
#include "04_distributed_sampler/digits_dataset.hpp"
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "04_distributed_sampler/idx_dataset.hpp"
#include "04_distributed_sampler/in_memory_dataset.hpp"
#include "common/hash.hpp"
#include "tests/support/mpi_test.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <sys/resource.h>
#include <unistd.h>
#include <vector>

using namespace dist;
using dist::test::all_ranks;
using dist::test::world;

namespace {

using Bytes = std::vector<std::uint8_t>;
using Indices = std::vector<std::size_t>;

// Bind the result to a name: a loop over golden(...).at(...) would walk a dead temporary.
nlohmann::json golden(const std::string& file) {
  std::ifstream stream(std::string(GOLDEN_DIR) + "/" + file);
  return nlohmann::json::parse(stream);
}

// SHA-256 of any numbers: dist::sha256 takes floats, so their bytes pose as floats.
template <class T>
std::string hash_of(const std::vector<T>& values) {
  const std::size_t size = values.size() * sizeof(T);
  std::vector<float> bytes(size / sizeof(float));
  if (size % sizeof(float) != 0) return "not whole floats";
  if (size != 0) std::memcpy(bytes.data(), values.data(), size);
  return sha256(bytes);
}

std::vector<std::int64_t> as_int64(const std::vector<std::size_t>& values) {
  return {values.begin(), values.end()};
}

// A data set whose every number says where it stands: sample i, feature f is 100 i + f.
TensorDataset numbered(std::size_t size, std::size_t features) {
  std::vector<float> inputs;
  std::vector<std::int32_t> labels;
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t f = 0; f < features; ++f)
      inputs.push_back(static_cast<float>(100 * i + f));
    labels.push_back(static_cast<std::int32_t>(i * 3 % 7));
  }
  return {inputs, labels, features, 7};
}

// A file of this rank and process alone, gone with the object.
struct TemporaryFile {
  std::string path;
  explicit TemporaryFile(const Bytes& bytes)
      : path((std::filesystem::temp_directory_path() /
              ("lesson04_" + std::to_string(world().rank()) + "_" + std::to_string(::getpid())))
                 .string()) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
  ~TemporaryFile() { std::filesystem::remove(path); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
};

// What `action` throws, or "nothing thrown"; any other exception than Error fails the test.
template <class Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing thrown";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The bytes of an IDX file whose header holds `numbers`, whatever follows it.
Bytes idx(const std::vector<std::uint32_t>& numbers, const Bytes& rest) {
  Bytes bytes;
  for (const std::uint32_t number : numbers) {
    for (int shift = 24; shift >= 0; shift -= 8) {
      bytes.push_back(static_cast<std::uint8_t>(number >> shift));
    }
  }
  bytes.insert(bytes.end(), rest.begin(), rest.end());
  return bytes;
}

constexpr std::uint32_t kImages = 0x803, kLabels = 0x801;
const Bytes kPixels{0, 1, 51, 102, 153, 204, 255, 254, 128, 7, 9, 200};
// Two images of 2 x 3 pixels, and the same file as `gzip -9` writes it.
const Bytes kPlain = idx({kImages, 2, 2, 3}, kPixels);
const Bytes kPacked{0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0x63,
                    0x60, 0xe0, 0x60, 0x66, 0x60, 0x60, 0x60, 0x82, 0x62, 0x66, 0x06,
                    0x46, 0xe3, 0xb4, 0x99, 0x67, 0xfe, 0xff, 0x6b, 0x60, 0xe7, 0x3c,
                    0x01, 0x00, 0x07, 0x41, 0x6c, 0x84, 0x1c, 0x00, 0x00, 0x00};

Bytes joined(Bytes first, const Bytes& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

}  // namespace

TEST_CASE("the sampler gives PyTorch's indices to every rank of every golden world") {
  const auto file = golden("sampler.json");
  for (const auto& entry : file.at("cases")) {
    const auto n = entry.at("n").get<std::size_t>();
    const auto replicas = entry.at("world").get<int>();
    SamplerOptions options;
    options.shuffle = entry.at("shuffle");
    options.seed = entry.at("seed");
    options.drop_last = entry.at("drop_last");
    for (int rank = 0; rank < replicas; ++rank) {
      CAPTURE(n, replicas, rank, options.shuffle, options.seed, options.drop_last);
      DistributedSampler sampler(n, replicas, rank, options);
      sampler.set_epoch(entry.at("epoch"));
      const Indices got = sampler.indices();
      const auto r = static_cast<std::size_t>(rank);
      CHECK(sampler.num_samples() == entry.at("num_samples").get<std::size_t>());
      CHECK(sampler.total_size() == entry.at("total_size").get<std::size_t>());
      CHECK(got.size() == sampler.num_samples());
      if (entry.contains("indices")) {
        CHECK(got == entry.at("indices").at(r).get<Indices>());
      } else {
        CHECK(hash_of(as_int64(got)) == entry.at("sha256_i64").at(r).get<std::string>());
        const auto first = entry.at("first8").at(r).get<Indices>();
        CHECK(std::ranges::equal(std::span(got).first(first.size()), first));
      }
    }
  }
}

TEST_CASE("a rank that is not in the world is refused") {
  CHECK_THROWS_AS(DistributedSampler(10, 4, 4), Error);
  CHECK_THROWS_AS(DistributedSampler(10, 4, -1), Error);
  CHECK_THROWS_AS(DistributedSampler(10, 0, 0), Error);
  CHECK_THROWS_AS(DistributedSampler(10, -2, -3), Error);
}

TEST_CASE("too few samples leave empty shards, or are repeated") {
  CHECK(DistributedSampler(0, 3, 1).indices().empty());
  CHECK(DistributedSampler(0, 3, 1, {.drop_last = true}).indices().empty());
  CHECK(DistributedSampler(2, 5, 1, {.drop_last = true}).indices().empty());
  CHECK(DistributedSampler(2, 5, 1, {.drop_last = true}).total_size() == 0);
  CHECK(DistributedSampler(2, 5, 3, {.shuffle = false}).indices() == Indices{1});
}

TEST_CASE("the shards of all ranks cover the data, counted over the ranks themselves") {
  const auto ranks = static_cast<std::size_t>(world().size());
  for (const std::size_t n :
       {std::size_t{1}, ranks, ranks + 1, 4 * ranks - 1, std::size_t{997}}) {
    for (const bool drop_last : {false, true}) {
      CAPTURE(n, drop_last);
      DistributedSampler sampler(n, world().size(), world().rank(), {true, 5, drop_last});
      sampler.set_epoch(3);
      std::vector<std::int32_t> taken(n, 0);
      for (const std::size_t i : sampler.indices()) {
        CHECK(i < n);
        if (i < n) ++taken[i];  // no exception: the others wait for this rank below
      }
      all_reduce<std::int32_t>(world(), taken, ReduceOp::sum);

      // Seats are handed out in the order of the permutation, round and round.
      Generator generator(5 + 3);
      const Indices order = randperm(n, generator);
      const std::size_t seats = drop_last ? n / ranks * ranks : (n + ranks - 1) / ranks * ranks;
      std::vector<std::int32_t> expected(n, 0);
      for (std::size_t seat = 0; seat < seats; ++seat) ++expected[order[seat % n]];
      CHECK(taken == expected);

      std::vector<std::int64_t> counts{static_cast<std::int64_t>(sampler.num_samples()),
                                       -static_cast<std::int64_t>(sampler.num_samples())};
      all_reduce<std::int64_t>(world(), counts, ReduceOp::max);
      CHECK(counts[0] == -counts[1]);  // the largest is the smallest: all are equal
    }
  }
}

TEST_CASE("a shard needs no message: one rank alone answers for all") {
  const auto of = [](int rank) {
    DistributedSampler sampler(101, world().size(), rank, {.seed = 9});
    sampler.set_epoch(2);
    return sampler.indices();
  };
  // What rank 0 works out for rank r, while the others do nothing, against rank r's own answer.
  const std::size_t each = of(0).size();
  std::vector<std::int64_t> table(each * static_cast<std::size_t>(world().size()), 0);
  std::vector<std::int64_t> predicted = table;
  const auto write = [&](std::vector<std::int64_t>& into, int rank) {
    std::ranges::copy(of(rank), into.begin() + static_cast<std::ptrdiff_t>(each) * rank);
  };
  write(table, world().rank());
  if (world().rank() == 0) {
    for (int rank = 0; rank < world().size(); ++rank) write(predicted, rank);
  }
  all_reduce<std::int64_t>(world(), table, ReduceOp::sum);
  all_reduce<std::int64_t>(world(), predicted, ReduceOp::sum);
  REQUIRE(all_ranks(table == predicted));
}

TEST_CASE("set_epoch changes the order, and an epoch replays without it") {
  DistributedSampler sampler(60, world().size(), world().rank());
  const Indices zero = sampler.indices();
  CHECK(sampler.indices() == zero);
  sampler.set_epoch(1);
  CHECK(sampler.indices() != zero);
  sampler.set_epoch(0);
  CHECK(sampler.indices() == zero);
  DistributedSampler in_order(60, world().size(), world().rank(), {.shuffle = false});
  const Indices first = in_order.indices();
  in_order.set_epoch(1);
  CHECK(in_order.indices() == first);
}

TEST_CASE("exact shards hold every sample once") {
  for (std::size_t n = 0; n <= 25; ++n) {
    for (int replicas = 1; replicas <= 8; ++replicas) {
      CAPTURE(n, replicas);
      std::vector<int> taken(n, 0);
      std::vector<std::size_t> sizes;
      for (int rank = 0; rank < replicas; ++rank) {
        const Indices shard = exact_shard(n, replicas, rank);
        for (const std::size_t i : shard) ++taken.at(i);
        sizes.push_back(shard.size());
      }
      CHECK(std::ranges::count(taken, 1) == static_cast<std::ptrdiff_t>(n));
      CHECK(*std::ranges::max_element(sizes) - *std::ranges::min_element(sizes) <= 1);
    }
  }
}

TEST_CASE("a rank beyond the world, and a batch of nothing, are refused") {
  CHECK_THROWS_AS(exact_shard(5, 4, 4), Error);
  CHECK_THROWS_AS(exact_shard(5, 0, 0), Error);
  const TensorDataset data = numbered(5, 3);
  const Stream stream(Device{});
  CHECK_THROWS_AS(DataLoader(data, 0, false, stream), Error);
}

TEST_CASE("the loader collects the rows that it is asked for, in order") {
  const TensorDataset data = numbered(23, 3);
  const Stream stream(Device{});
  Indices all(23);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = (i * 5 + 2) % 23;  // no natural order
  for (const std::size_t count : {0U, 1U, 7U, 8U, 9U, 23U}) {
    for (const std::size_t batch_size : {1U, 4U, 8U, 100U}) {
      for (const bool drop_last : {false, true}) {
        CAPTURE(count, batch_size, drop_last);
        const Indices wanted(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count));
        const std::size_t kept = drop_last ? count / batch_size * batch_size : count;
        DataLoader loader(data, batch_size, drop_last, stream);
        CHECK(loader.batches(count) == (kept + batch_size - 1) / batch_size);
        DataLoader::Range range = loader.over(wanted);
        for (int round = 0; round < 2; ++round) {  // a range can be walked twice
          std::size_t at = 0, wrong = 0;
          for (const Batch& batch : range) {
            CHECK(batch.rows() == std::min(batch_size, kept - at));
            CHECK(batch.inputs.shape() == Shape{batch.rows(), 3});
            for (std::size_t row = 0; row < batch.rows(); ++row, ++at) {
              const std::size_t sample = wanted.at(at);
              if (batch.targets[row] != static_cast<std::int32_t>(sample * 3 % 7)) ++wrong;
              for (std::size_t f = 0; f < 3; ++f) {
                const auto value = static_cast<float>(100 * sample + f);
                if (batch.inputs.span()[row * 3 + f] != value) ++wrong;
              }
            }
          }
          CHECK(at == kept);
          CHECK(wrong == 0);
        }
      }
    }
  }
}

TEST_CASE("a tensor data set and a subset give their rows and labels") {
  const TensorDataset whole = numbered(10, 2);
  const Subset part(whole, 4, 3);
  CHECK(whole.size() == 10);
  CHECK(whole.classes() == 7);
  CHECK(part.size() == 3);
  CHECK(part.features() == 2);
  CHECK(part.classes() == 7);
  std::vector<float> row(2);
  CHECK(whole.get(9, row) == 27 % 7);
  CHECK(row == std::vector<float>{900, 901});
  CHECK(part.get(2, row) == 18 % 7);
  CHECK(row == std::vector<float>{600, 601});
  const Subset inner(part, 1, 1);
  CHECK(inner.get(0, row) == 15 % 7);
  CHECK(row == std::vector<float>{500, 501});
}

TEST_CASE("synthetic data are PyTorch's, drawn after the model's weights") {
  const auto file = golden("training.json");
  for (const auto& run : file.at("runs")) {
    const auto layers = run.at("layers").get<Indices>();
    const auto n = run.at("n").get<std::size_t>();
    CAPTURE(layers, n);
    Generator generator(run.at("seed").get<std::uint64_t>());
    for (std::size_t l = 0; l + 1 < layers.size(); ++l) {
      std::vector<float> weight(layers[l] * layers[l + 1]);
      std::vector<float> bias(layers[l + 1]);
      init_linear(weight, bias, layers[l], generator);
      const auto& want = run.at("init_params");
      CHECK(sha256(weight) == want.at(2 * l).at("sha256_f32").get<std::string>());
      CHECK(sha256(bias) == want.at(2 * l + 1).at("sha256_f32").get<std::string>());
    }
    const auto classes = run.at("classes").get<std::size_t>();
    const TensorDataset data = synthetic_dataset(n, layers[0], classes, generator);
    CHECK(data.size() == n);
    CHECK(data.features() == layers[0]);
    CHECK(data.classes() == classes);
    std::vector<float> x(n * layers[0]);
    std::vector<std::int64_t> y;
    for (std::size_t i = 0; i < n; ++i) {
      y.push_back(data.get(i, std::span(x).subspan(i * layers[0], layers[0])));
    }
    CHECK(sha256(x) == run.at("x").at("sha256_f32").get<std::string>());
    if (run.at("y").contains("values")) {
      CHECK(y == run.at("y").at("values").get<std::vector<std::int64_t>>());
    } else {
      CHECK(hash_of(y) == run.at("y").at("sha256_i64").get<std::string>());
    }
  }
}

TEST_CASE("IDX files are written and read back to the byte") {
  const IdxImages images = parse_idx_images(kPlain, "plain");
  CHECK(images.count == 2);
  CHECK(images.rows == 2);
  CHECK(images.columns == 3);
  CHECK(images.pixels == kPixels);
  CHECK(format_idx_images(images) == kPlain);
  const Bytes labels = idx({kLabels, 3}, {4, 0, 9});
  CHECK(parse_idx_labels(labels, "labels") == Bytes{4, 0, 9});
  CHECK(format_idx_labels({4, 0, 9}) == labels);

  const IdxDataset data(images, {3, 8}, "both");
  CHECK(data.size() == 2);
  CHECK(data.features() == 6);
  CHECK(data.classes() == 9);
  std::vector<float> row(6);
  CHECK(data.get(1, row) == 8);
  CHECK(row == std::vector<float>{1.0F, 254.0F / 255, 128.0F / 255, 7.0F / 255, 9.0F / 255,
                                  200.0F / 255});
}

TEST_CASE("a compressed file reads as its content, and a damaged one is refused") {
  const auto read = [](const Bytes& bytes) { return read_file(TemporaryFile(bytes).path); };
  CHECK(read(kPlain) == kPlain);
  CHECK(read({}).empty());
  CHECK(read(kPacked) == kPlain);
  CHECK(read(joined(kPacked, kPacked)) == joined(kPlain, kPlain));
  for (std::size_t length = 2; length < kPacked.size(); ++length) {
    CAPTURE(length);
    const Bytes cut(kPacked.begin(), kPacked.begin() + static_cast<std::ptrdiff_t>(length));
    CHECK_THROWS_AS(read(cut), Error);
    CHECK_THROWS_AS(read(joined(kPacked, cut)), Error);
  }
  for (std::size_t at = 10; at < kPacked.size(); ++at) {  // behind gzip's own header
    CAPTURE(at);
    Bytes flipped = kPacked;
    flipped[at] ^= 1;
    CHECK_THROWS_AS(read(flipped), Error);
  }
  CHECK_THROWS_AS(read(joined(kPacked, {'x', 'y'})), Error);
}

TEST_CASE("errors about files name them, and a header that lies costs no memory") {
  const TemporaryFile broken(Bytes(kPacked.begin(), kPacked.end() - 1));
  CHECK(contains(error_of([&] { read_file(broken.path); }), broken.path));
  const std::string folder = std::filesystem::temp_directory_path().string();
  CHECK(contains(error_of([&] { read_file(folder); }), folder));
  CHECK(contains(error_of([&] { read_file(broken.path + ".not"); }), broken.path + ".not"));

  const auto peak_mib = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss / 1024;
  };
  const auto peak_before = peak_mib();
  const auto images = [](const Bytes& bytes) {
    return error_of([&] { parse_idx_images(bytes, "some/file"); });
  };
  const auto labels = [](const Bytes& bytes) {
    return error_of([&] { parse_idx_labels(bytes, "some/file"); });
  };
  constexpr std::uint32_t kMost = 0xffffffffU, kHalf = 0x80000000U;
  const Bytes six(kPixels.begin(), kPixels.begin() + 6);
  for (const Bytes& bytes :
       {Bytes{}, Bytes{0, 0, 8}, idx({kImages}, {}), idx({kImages, 2, 2}, {0, 0, 0}),
        idx({kLabels, 2, 2, 3}, kPixels), idx({0x03080000, 2, 2, 3}, kPixels),
        idx({kImages, 2, 2, 3}, six), idx({kImages, 1, 2, 3}, kPixels), joined(kPlain, {0}),
        idx({kImages, 0, 2, 3}, {}), idx({kImages, 2, 0, 3}, {}), idx({kImages, 2, 2, 0}, {}),
        idx({kImages, kMost, kMost, kMost}, kPixels), idx({kImages, 1024, 512, 512}, kPixels),
        idx({kImages, 4, kHalf, kHalf}, {})}) {  // 4 * 2^31 * 2^31 wraps around to 0
    CAPTURE(bytes);
    CHECK(images(bytes).starts_with("some/file: "));
  }
  for (const Bytes& bytes :
       {Bytes{}, idx({kLabels}, {}), idx({kImages, 2}, {1, 2}), idx({kLabels, 3}, {1, 2}),
        idx({kLabels, 1}, {1, 2}), idx({kLabels, 0}, {}), idx({kLabels, kMost}, {1})}) {
    CAPTURE(bytes);
    CHECK(labels(bytes).starts_with("some/file: "));
  }
  CHECK(peak_mib() - peak_before < 64);  // 1024 images of 512 x 512 would be 256
  CHECK(contains(error_of([] { IdxDataset({2, 2, 3, kPixels}, {1, 2, 3}, "pair"); }), "pair"));
}

TEST_CASE("rendered digits are the same bytes everywhere, and of ten equal kinds") {
  const DigitFiles files = render_digits(1000, 0);
  CHECK(hash_of(joined(files.images, files.labels)) ==
        "d88db258b7a739d80fcd0308200a7fffe1e0487293c027cb3e6b8e680d92bee4");
  CHECK(render_digits(50, 1).images != render_digits(50, 0).images);
  const IdxImages images = parse_idx_images(files.images, "digits");
  CHECK(images.count == 1000);
  CHECK(images.rows == 28);
  CHECK(images.columns == 28);
  const Bytes labels = parse_idx_labels(files.labels, "digits");
  for (std::uint8_t digit = 0; digit < 10; ++digit) {
    CHECK(std::ranges::count(labels, digit) == 100);
  }
  CHECK(IdxDataset(images, labels, "digits").classes() == 10);
}

TEST_CASE("MNIST's own files read as ten thousand digits") {
  const std::string folder = std::string(SOURCE_DIR) + "/../shared/data/mnist-10k";
  if (!all_ranks(std::filesystem::is_directory(folder))) {
    std::cout << "skipped: no MNIST in " << folder << '\n';
    return;
  }
  const auto path = [&](const char* name) { return folder + "/t10k-" + name + "-ubyte.gz"; };
  const IdxDataset data(parse_idx_images(read_file(path("images-idx3")), "images"),
                        parse_idx_labels(read_file(path("labels-idx1")), "labels"), "MNIST");
  CHECK(data.size() == 10'000);
  CHECK(data.features() == 784);
  CHECK(data.classes() == 10);
  std::vector<std::int32_t> first;
  std::vector<float> row(784);
  for (std::size_t i = 0; i < 10; ++i) first.push_back(data.get(i, row));
  CHECK(first == std::vector<std::int32_t>{7, 2, 1, 0, 4, 1, 4, 9, 5, 9});
}
