// Our random numbers must equal PyTorch's bit for bit. tests/golden holds the numbers that
// PyTorch 1.13 drew.
#include "common/random.hpp"

#include "common/check.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/mpi_test.hpp"

#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

using namespace dist;
using dist::test::golden;
using dist::test::kNaN;
using dist::test::sha256_of;

// Compares with a golden entry, which has all values or their hash.
template <class T>
static void check_equal(const nlohmann::json& want, const std::vector<T>& got) {
  if (want.contains("values")) {
    CHECK(got == want.at("values").get<std::vector<T>>());
  } else {
    const char* const hash = std::is_same_v<T, float> ? "sha256_f32" : "sha256_i64";
    CHECK(sha256_of(got) == want.at(hash).get<std::string>());
  }
}

static std::vector<float> uniform(std::size_t n, double low, double high,
                                  Generator& generator) {
  std::vector<float> values(n, kNaN);
  fill_uniform(values, low, high, generator);
  return values;
}

static std::vector<float> normal(std::size_t n, Generator& generator) {
  std::vector<float> values(n, kNaN);
  fill_normal(values, generator);
  return values;
}

TEST_CASE("with a fresh generator, every distribution gives PyTorch's numbers",
          "[one process]") {
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

TEST_CASE("calls that share a generator draw as many numbers as PyTorch's do",
          "[one process]") {
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
