// The ground floor, on one rank: PyTorch's random numbers to the last bit, memory and tensors,
// the matrix product, and everything that a reader types or reads.
//
// Golden values come from real PyTorch 1.13 (tests/golden, each file says how). The rest is
// compared with a second way to get the same answer, never with the code under test.
#include "common/buffer.hpp"
#include "common/check.hpp"
#include "common/command_line.hpp"
#include "common/console.hpp"
#include "common/gemm.hpp"
#include "common/hash.hpp"
#include "common/measure.hpp"
#include "common/random.hpp"
#include "common/tensor.hpp"
#include "common/tracer_numbers.hpp"
#include "tests/support/mpi_test.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

using namespace dist;

namespace {

constexpr auto kMost = std::numeric_limits<std::size_t>::max();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Bind the result to a name: a loop over golden(...).at(...) would walk a dead temporary.
nlohmann::json golden(const std::string& file) {
  std::ifstream stream(std::string(GOLDEN_DIR) + "/" + file);
  return nlohmann::json::parse(stream);
}

// SHA-256 of any numbers: dist::sha256 takes floats, so their bytes pose as floats.
template <class T>
std::string hash_of(const std::vector<T>& values) {
  static_assert(sizeof(T) % sizeof(float) == 0);
  std::vector<float> bytes(values.size() * sizeof(T) / sizeof(float));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), values.size() * sizeof(T));
  return sha256(bytes);
}

template <class T>
std::vector<T> slice(const std::vector<T>& values, std::size_t begin, std::size_t count) {
  const auto first = values.begin() + static_cast<std::ptrdiff_t>(begin);
  return {first, first + static_cast<std::ptrdiff_t>(count)};
}

// Compares with a golden entry: all values or the first and last of them, and mostly a hash.
template <class T>
void check_equal(const nlohmann::json& want, const std::vector<T>& got) {
  CHECK((want.contains("values") || want.contains("first8")));
  for (const auto& item : want.items()) {
    const std::string& key = item.key();
    const nlohmann::json& value = item.value();
    if (key.starts_with("sha256")) CHECK(value.get<std::string>() == hash_of(got));
    if (key != "values" && key != "first8" && key != "last4") continue;
    const auto part = value.get<std::vector<T>>();
    REQUIRE(part.size() <= got.size());
    CHECK(slice(got, key == "last4" ? got.size() - part.size() : 0, part.size()) == part);
    if (key == "values") CHECK(got.size() == part.size());
  }
}

std::vector<float> uniform(std::size_t n, double low, double high, Generator& generator) {
  std::vector<float> values(n, kNaN);
  fill_uniform(values, low, high, generator);
  return values;
}

std::vector<float> normal(std::size_t n, Generator& generator) {
  std::vector<float> values(n, kNaN);
  fill_normal(values, generator);
  return values;
}

}  // namespace

TEST_CASE("the generator gives PyTorch's raw numbers") {
  const auto file = golden("rng.json");
  for (const auto& entry : file.at("mt19937")) {
    const auto seed = entry.at("seed").get<std::uint64_t>();  // -1 becomes 2^64 - 1
    CAPTURE(seed);
    Generator generator(seed);
    std::vector<std::uint32_t> raw;
    for (int i = 0; i < 2000; ++i) raw.push_back(generator.next_u32());
    const auto values = [&](const char* key) {
      return entry.at(key).get<std::vector<std::uint32_t>>();
    };
    CHECK(slice(raw, 0, 10) == values("first10"));
    CHECK(slice(raw, 620, 10) == values("at_620_to_629"));  // across the first regeneration
    CHECK(slice(raw, 1245, 6) == values("at_1245_to_1250"));
    CHECK(hash_of(raw) == entry.at("sha256_u32_first2000").get<std::string>());
    Generator again(seed);
    for (const auto& want : entry.at("u64_first4")) {
      CHECK(std::to_string(again.next_u64()) == want.get<std::string>());
    }
  }
}

TEST_CASE("every distribution gives PyTorch's numbers from a fresh generator") {
  const auto rng = golden("rng.json");
  const auto for_each = [&](const char* name, auto draw) {
    for (const auto& entry : rng.at(name)) {
      INFO(name << " seed " << entry.at("seed") << " n " << entry.at("n"));
      Generator generator(entry.at("seed").get<std::uint64_t>());
      check_equal(entry, draw(entry, entry.at("n").get<std::size_t>(), generator));
    }
  };
  using Entry = nlohmann::json;
  for_each("randperm",
           [](const Entry&, std::size_t n, Generator& g) { return randperm(n, g); });
  for_each("randint", [](const Entry& entry, std::size_t n, Generator& g) {
    return randint(entry.at("low"), entry.at("high"), n, g);
  });
  for_each("uniform", [](const Entry& entry, std::size_t n, Generator& g) {
    return uniform(n, entry.at("lo"), entry.at("hi"), g);
  });
  for_each("randn", [](const Entry&, std::size_t n, Generator& g) { return normal(n, g); });
  Generator generator(1);
  CHECK_THROWS_AS(randint(3, 3, 1, generator), Error);
  CHECK_THROWS_AS(randint(4, -4, 1, generator), Error);
}

TEST_CASE("calls that share a generator consume what PyTorch's consume") {
  const auto file = golden("rng.json");
  for (const auto& sequence : file.at("sequences")) {
    Generator generator(sequence.at("seed").get<std::uint64_t>());
    for (const auto& result : sequence.at("results")) {
      const auto op = result.at("op").get<std::string>();
      CAPTURE(op);
      std::istringstream words(op);  // "randn:3", "randint:10:5"
      std::string name;
      char colon = 0;
      std::int64_t n = 0;
      std::getline(words, name, ':') >> n;
      const auto count = static_cast<std::size_t>(n);
      if (name == "randn") {
        check_equal(result, normal(count, generator));
      } else if (name == "uniform") {
        check_equal(result, uniform(count, 0.0, 1.0, generator));
      } else if (name == "randperm") {
        check_equal(result, randperm(count, generator));
      } else {
        std::size_t draws = 0;
        words >> colon >> draws;
        check_equal(result, randint(0, n, draws, generator));
      }
    }
  }
}

TEST_CASE("linear layers begin with PyTorch's weights") {
  const auto file = golden("linear.json");
  for (const auto& entry : file.at("cases")) {
    Generator generator(entry.at("seed").get<std::uint64_t>());
    for (const auto& layer : entry.at("layers")) {
      const auto in = layer.at("in").get<std::size_t>();
      const auto out = layer.at("out").get<std::size_t>();
      CAPTURE(in, out);
      std::vector<float> weight(out * in, kNaN);
      std::vector<float> bias(entry.at("bias") ? out : 0, kNaN);
      init_linear(weight, bias, in, generator);
      check_equal(layer.at("weight"), weight);
      if (entry.at("bias")) check_equal(layer.at("bias"), bias);
    }
    // Where the stream stands now: one draw too many or too few would show here only.
    CHECK(uniform(4, 0.0, 1.0, generator) ==
          entry.at("next_uniform4").get<std::vector<float>>());
  }
}

TEST_CASE("memory is aligned and zeroed, also where old numbers lay") {
  for (const std::size_t count : {0, 1, 15, 16, 17, 1000, 100'003}) {
    CAPTURE(count);
    for (int round = 0; round < 3; ++round) {  // the heap hands a freed block out again
      const Buffer<float> buffer(count, Device{});
      CHECK(buffer.size() == count);
      CHECK(buffer.size_bytes() == 4 * count);
      REQUIRE(buffer.data() != nullptr);
      CHECK(std::bit_cast<std::uintptr_t>(buffer.data()) % 64 == 0);
      CHECK(count_wrong({buffer.data(), count}, [](std::size_t) { return 0.0; }) == 0);
      std::fill_n(buffer.data(), count, 7.5F);
    }
  }
  CHECK(Buffer<double>(3, Device{}).size_bytes() == 24);
  CHECK_THROWS_AS(allocate(kMost, Device{}), Error);
}

TEST_CASE("narrow, view and rows are windows on the same numbers") {
  const Tensor whole({4, 6}, Device{});
  fill_tracer_numbers(whole.span(), 3);
  const Tensor part = whole.narrow(5, 3);
  const Tensor other = whole.view({2, 3, 4});
  const Tensor top = whole.rows(2);
  CHECK(part.shape() == Shape{3});
  CHECK(other.shape() == Shape{2, 3, 4});
  CHECK(top.shape() == Shape{2, 6});
  CHECK(part.span()[0] == tracer_number(3, 5));
  part.span()[1] = -1.0F;
  CHECK(whole.span()[6] == -1.0F);
  CHECK(other.span()[6] == -1.0F);
  CHECK(top.view({12}).narrow(6, 1).span()[0] == -1.0F);
  CHECK(to_host(Stream(Device{}), part) == std::vector<float>{3005.0F, -1.0F, 3007.0F});

  CHECK(whole.narrow(24, 0).numel() == 0);
  CHECK(whole.rows(0).shape() == Shape{0, 6});
  CHECK_THROWS_AS(whole.narrow(24, 1), Error);
  CHECK_THROWS_AS(whole.narrow(25, 0), Error);
  CHECK_THROWS_AS(whole.narrow(2, kMost), Error);  // 2 + kMost wraps around to 1
  CHECK_THROWS_AS(whole.view({5, 5}), Error);
  CHECK_THROWS_AS(whole.rows(5), Error);
  CHECK_THROWS_AS(copy(Stream(Device{}), part, top), Error);
  CHECK(to_string(Shape{64, 784}) == "(64, 784)");
}

TEST_CASE("a window keeps the memory under it alive") {
  auto owner = std::make_shared<std::vector<float>>(10, 2.5F);
  const std::weak_ptr<std::vector<float>> watch = owner;
  Tensor window =
      Tensor(owner, owner->data(), {10}, Device{}).narrow(3, 4).view({2, 2}).rows(1);
  owner.reset();
  CHECK_FALSE(watch.expired());
  window = Tensor();
  CHECK(watch.expired());
}

TEST_CASE("gemm multiplies every shape in every transposition") {
  const auto t = [](bool yes) { return yes ? Transpose::yes : Transpose::no; };
  Generator generator(5);
  const auto random = [&](Shape shape) {
    Tensor tensor(std::move(shape), Device{});
    fill_uniform(tensor.span(), -1.0, 1.0, generator);
    return tensor;
  };
  const Stream one(Device{}), two(Device{}, 2);
  const std::vector<std::vector<std::size_t>> shapes{{1, 1, 1}, {3, 5, 7}, {17, 33, 65},
                                                     {1, 9, 4}, {9, 1, 4}, {0, 3, 2},
                                                     {3, 0, 2}, {3, 2, 0}};
  const std::vector<std::pair<float, float>> factors{{1, 0}, {0.5F, 0}, {-2, 1}, {1, 0.25F}};
  for (const auto& shape : shapes) {
    const std::size_t m = shape[0], n = shape[1], k = shape[2];
    for (int variant = 0; variant < 4; ++variant) {
      const bool flip_a = (variant & 1) != 0, flip_b = (variant & 2) != 0;
      const Tensor a = random(flip_a ? Shape{k, m} : Shape{m, k});
      const Tensor b = random(flip_b ? Shape{n, k} : Shape{k, n});
      for (const auto& [alpha, beta] : factors) {
        CAPTURE(m, n, k, flip_a, flip_b, alpha, beta);
        const Tensor before = random({m, n});
        // With beta 0 the old content must not be read: 0 * NaN would be NaN.
        if (beta == 0) std::ranges::fill(before.span(), kNaN);
        const auto wrong = [&, alpha = alpha, beta = beta](const Tensor& c) {
          std::size_t count = 0;
          for (std::size_t at = 0; at < m * n; ++at) {
            const std::size_t i = at / n, j = at % n;
            double want = beta == 0 ? 0.0 : beta * double{before.span()[at]};
            for (std::size_t l = 0; l < k; ++l) {
              want += alpha * double{a.span()[flip_a ? l * m + i : i * k + l]} *
                      double{b.span()[flip_b ? j * k + l : l * n + j]};
            }
            if (!(std::abs(double{c.span()[at]} - want) < 1e-5)) ++count;
          }
          return count;
        };
        const Tensor c({m, n}, Device{});
        for (const Stream* stream : {&one, &two}) {
          copy(one, c, before);
          gemm(*stream, t(flip_a), t(flip_b), alpha, a, b, beta, c);
          CHECK(wrong(c) == 0);
        }
        copy(one, c, before);
        gemm_reference(t(flip_a), t(flip_b), alpha, a, b, beta, c);
        CHECK(wrong(c) == 0);
      }
    }
  }
}

TEST_CASE("memory larger than any machine's is refused, not wrapped around") {
  constexpr std::size_t kHuge = std::size_t{1} << 62;
  CHECK_THROWS_AS(Buffer<double>(kHuge / 2 + 1, Device{}), Error);
  CHECK_THROWS_AS(Tensor({kHuge}, Device{}), Error);
  CHECK_THROWS_AS(Tensor({kHuge, 8}, Device{}), Error);
  CHECK_THROWS_AS(Buffer<char>(kHuge, Device{}), Error);
}

TEST_CASE("gemm refuses shapes that do not fit") {
  const Stream stream(Device{});
  const auto multiply = [&](Transpose ta, Transpose tb, Shape a, Shape b, Shape c) {
    gemm(stream, ta, tb, 1, Tensor(a, Device{}), Tensor(b, Device{}), 0, Tensor(c, Device{}));
  };
  const auto no = Transpose::no, yes = Transpose::yes;
  multiply(no, no, {2, 3}, {3, 4}, {2, 4});  // fits
  CHECK_THROWS_AS(multiply(yes, no, {2, 3}, {3, 4}, {2, 4}), Error);
  CHECK_THROWS_AS(multiply(no, yes, {2, 3}, {3, 4}, {2, 4}), Error);
  CHECK_THROWS_AS(multiply(no, no, {2, 3}, {3, 4}, {1, 4}), Error);
  CHECK_THROWS_AS(multiply(no, no, {2, 3}, {3, 4}, {2, 5}), Error);
  CHECK_THROWS_AS(multiply(no, no, {6}, {3, 4}, {2, 4}), Error);
  CHECK_THROWS_AS(multiply(no, no, {2, 3, 1}, {3, 4}, {2, 4}), Error);
  CHECK_THROWS_AS(multiply(no, no, {2, 3}, {4, 4}, {2, 4}), Error);
}

namespace {

// Fresh flags of every kind, and one way to read them.
struct Flags {
  int number = 7;
  std::size_t size = 9;
  double rate = 0.5;
  std::string kind = "ring";
  bool loud = false;
  std::vector<std::size_t> hidden{16, 8};
  std::string file = "none";
  int rare = 1;
  CommandLine command_line{"prog", "What it does."};

  Flags() {
    command_line.number("--number", number, -10, 10, "a number");
    command_line.number<std::size_t>("--size", size, 1, 1000, "a size");
    command_line.number("--rate", rate, 0.0, 2.0, "a rate");
    command_line.choice("--kind", kind, {"ring", "tree"}, "a choice");
    command_line.flag("--loud", loud, "a switch");
    command_line.list("--hidden", hidden, "a list");
    command_line.text("--file", file, "a name");
    command_line.advanced();
    command_line.number("--rare", rare, 0, 5, "seldom needed");
  }

  std::optional<CommandLine::Exit> parse(std::vector<std::string> words) {
    words.insert(words.begin(), "prog");
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    return command_line.parse(static_cast<int>(words.size()), argv.data());
  }
};

}  // namespace

TEST_CASE("good flags are read, and absent ones keep their defaults") {
  Flags flags;
  REQUIRE_FALSE(flags.parse({"--number", "-5", "--size=010", "--rate", "1e-3", "--kind", "tree",
                             "--loud", "--hidden", "3,1,4"}));
  CHECK(flags.number == -5);
  CHECK(flags.size == 10);  // not octal
  CHECK(flags.rate == 1e-3);
  CHECK(flags.kind == "tree");
  CHECK(flags.loud);
  CHECK(flags.hidden == std::vector<std::size_t>{3, 1, 4});
  CHECK(flags.file == "none");
  CHECK(flags.rare == 1);
  CHECK(flags.command_line.given("--size"));
  CHECK_FALSE(flags.command_line.given("--file"));
}

TEST_CASE("the last of repeated flags wins") {
  Flags flags;
  REQUIRE_FALSE(
      flags.parse({"--size", "3", "--hidden", "5", "--size", "4", "--hidden", "6,7"}));
  CHECK(flags.size == 4);
  CHECK(flags.hidden == std::vector<std::size_t>{6, 7});
}

TEST_CASE("absurd flags are refused by name") {
  using Words = std::vector<std::string>;
  const auto check_refused = [](const Words& words) {
    Flags flags;
    const auto exit = flags.parse(words);
    CAPTURE(words);
    CHECK(exit.has_value());
    if (!exit) return;
    CAPTURE(exit->text);
    CHECK(exit->status == 2);
    CHECK(exit->text.starts_with("error: " + words.front() + ": "));
    CHECK(exit->text.ends_with("\n"));
  };
  const std::vector<std::pair<std::string, Words>> all{
      {"--size", {"-5", "0", "1001", "12abc", "", " 5", "+5", "0x10", "1.5", "[5]", "--loud"}},
      {"--size", {"99999999999999999999", "18446744073709551621"}},  // 2^64 + 5
      {"--number", {"11", "-11", "4294967301"}},                     // 2^32 + 5
      {"--rate", {"nan", "inf", "-inf", "1e999", "1e-999", "2.5", "-0.1", "0.1x", "", "0x1"}},
      {"--kind", {"rin", "ringo", "RING", ""}},
      {"--hidden", {"1,,2", "0,1", "1,2,", ",1", "", "1 2", "[3,4]", "16777217"}},
      {"--file", {""}},
      {"--rare", {"6"}},
      {"--siz", {"3"}}};
  for (const auto& [flag, values] : all) {
    for (const std::string& value : values) check_refused({flag, value});
  }
  for (const char* alone : {"--size", "--file", "--bogus", "--bogus=3", "-x", "stray"}) {
    check_refused({alone});
  }
  for (const char* value : {"maybe", "3", "-1", "false"}) {
    for (const std::string flag : {"--loud", "--help", "--version"}) {
      const auto exit = Flags().parse({flag + "=" + value});
      CAPTURE(flag, value);
      CHECK(exit.has_value());
      if (exit) CHECK(exit->text == "error: " + flag + ": takes no value\n");
    }
  }
}

TEST_CASE("help and version leave with status 0") {
  const auto leave = [](const char* word) {
    const auto exit = Flags().parse({word});
    REQUIRE(exit.has_value());
    CHECK(exit->status == 0);
    return exit->text;
  };
  for (const char* word : {"--help", "-h", "--help-all"}) {
    CAPTURE(word);
    const std::string text = leave(word);
    for (const char* part : {"What it does.", "--hidden", "16,8", "--version"}) {
      CHECK(text.find(part) != std::string::npos);
    }
    CHECK((text.find("--rare") != std::string::npos) == (std::string(word) == "--help-all"));
  }
  CHECK(leave("--version") == "prog " DIST_VERSION "\n");
}

TEST_CASE("checks run after all flags are read, and their error is bad usage") {
  Flags flags;
  int runs = 0;
  flags.command_line.check([&] {
    ++runs;
    if (flags.size > 100 && flags.loud) throw Error("--size: too much for --loud");
  });
  CHECK_FALSE(flags.parse({"--size", "200"}));
  CHECK(runs == 1);
  const auto exit = flags.parse({"--size", "200", "--loud"});
  REQUIRE(exit.has_value());
  CHECK(exit->status == 2);
  CHECK(exit->text == "error: --size: too much for --loud\n");
  CHECK(flags.parse({"--size", "200", "--loud", "--help"}).value().status == 0);
  CHECK(runs == 2);
}

TEST_CASE("the median is the middle, or the mean of the middle two") {
  CHECK(median({}) == 0.0);
  CHECK(median({9.0, 1.0, 5.0}) == 5.0);
  CHECK(median({9.0, 1.0, 4.0, 6.0}) == 5.0);
  CHECK(median({2.0, 100.0}) == 51.0);
}

TEST_CASE("a sweep starts and ends where it is told to") {
  using Sizes = std::vector<std::size_t>;
  CHECK(sweep(4, 64) == Sizes{4, 16, 64});
  CHECK(sweep(4, 100) == Sizes{4, 16, 64, 100});
  CHECK(sweep(0, 20) == Sizes{0, 4, 16, 20});
  CHECK(sweep(0, 2) == Sizes{0, 2});
  CHECK(sweep(0, 0) == Sizes{0});
  CHECK(sweep(12, 12) == Sizes{12});
  // 4 * bytes must not wrap around.
  CHECK(sweep(kMost / 8, kMost) == Sizes{kMost / 8, 4 * (kMost / 8), kMost});
}

TEST_CASE("timing leaves the preparation out and warms up once") {
  int prepared = 0, done = 0;
  const double seconds = median_of_slowest(
      test::world(), 3,
      [&] {
        ++prepared;
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
      },
      [&] {
        ++done;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      });
  CHECK(prepared == 4);
  CHECK(done == 4);
  CHECK(seconds >= 0.005);
  CHECK(seconds < 0.1);
}

TEST_CASE("numbers in JSON rows keep what a float32 holds, and sizes are exact") {
  CHECK(significant(1.0 / 3.0) == 0.333333333);
  CHECK(significant(-123456789012.0) == -123456789000.0);
  CHECK(std::isnan(significant(double{kNaN})));
  CHECK(significant(HUGE_VAL) == HUGE_VAL);
  Generator generator(2);
  for (const float value : uniform(1000, -3.0, 1e7, generator)) {
    CHECK(static_cast<float>(significant(double{value})) == value);
  }
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(1024) == "1 KiB");
  CHECK(format_bytes(1536) == "1536 B");
  CHECK(format_bytes(std::size_t{16} << 20) == "16 MiB");
  CHECK(format_bytes(std::size_t{1} << 40) == "1024 GiB");
}

TEST_CASE("hashes are the published functions and see every bit") {
  const std::vector<float> abcd{std::bit_cast<float>(0x64636261U)};
  CHECK(sha256({}) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256(abcd) == "88d4266fd4e6338d13b845fcf289579d209c897823b9217da3e161936f031589");
  CHECK(fingerprint({}) == 0x2d06800538d394c2U);
  Generator generator(3);
  std::vector<float> values = normal(70, generator);
  const std::uint64_t before = fingerprint(values);
  std::size_t unseen = 0;
  for (float& value : values) {
    for (int bit = 0; bit < 32; ++bit) {
      const float old = value;
      value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(old) ^ (1U << bit));
      if (fingerprint(values) == before) ++unseen;
      value = old;
    }
  }
  CHECK(unseen == 0);
  CHECK(fingerprint(values) == before);
  CHECK(fingerprint(abcd, before) != fingerprint(abcd));
}

TEST_CASE("a count that MPI cannot take is refused") {
  constexpr std::size_t kLargest = std::numeric_limits<int>::max();
  CHECK(mpi_count(kLargest) == std::numeric_limits<int>::max());
  CHECK_THROWS_AS(mpi_count(kLargest + 1), Error);
  CHECK_THROWS_AS(mpi_count((std::size_t{1} << 32) + 5), Error);  // would wrap around to 5
}

TEST_CASE("the count of wrong numbers sees a NaN and one rank taken for another") {
  std::vector<float> data(2000);
  fill_tracer_numbers(data, 2);
  const auto expected = [](std::size_t i) { return double{tracer_number(2, i)}; };
  CHECK(count_wrong(data, expected) == 0);
  CHECK(count_wrong(data, [](std::size_t i) { return double{tracer_number(1, i)}; }) == 2000);
  data[3] = kNaN;
  CHECK(count_wrong(data, expected, 0.5) == 1);
}
