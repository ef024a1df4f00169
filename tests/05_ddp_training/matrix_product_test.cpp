// The matrix product by each library, compared with plain loops; batches of them; and threads.
#include "01_send_recv/tracer_numbers.hpp"
#include "05_ddp_training/model/gemm.hpp"
#include "05_ddp_training/model/matmul_library.hpp"
#include "common/check.hpp"
#include "tests/support/lesson05.hpp"
#include "tests/support/mpi_test.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <thread>
#include <utility>
#include <vector>

using namespace dist;
using dist::test::kNaN;

// Small whole numbers, different in every row and column. Their products and sums are exact, so
// every order of addition gives the same bits, and an element in the wrong place is visible.
static Tensor whole_numbers(Shape shape, std::uint32_t salt) {
  Tensor tensor(std::move(shape), Device{});
  std::uint32_t state = 12345U + salt;
  for (float& value : tensor.span()) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(static_cast<int>(state >> 28) - 8);
  }
  return tensor;
}

#if defined(_OPENMP)
constexpr bool kHasOpenMp = true;
#else
constexpr bool kHasOpenMp = false;
#endif

// Of the CPU, for each library of this build and for the choice between them.
static std::vector<Stream> streams(int threads) {
  std::vector<Stream> all;
  for (const auto& [name, library] : kMatmulLibraries) {
    if (!why_no_matmul(library).empty()) continue;
    all.emplace_back(Device{}, threads);
    use_matmul_library(all.back(), library);
  }
  return all;
}

TEST_CASE("gemm multiplies every shape with every combination of transposes", "[one process]") {
  const auto t = [](bool yes) { return yes ? Transpose::yes : Transpose::no; };
  const std::vector<Stream> alone = streams(1), pairs = streams(2);
  // From {16, 512, 512} on, the sizes are those of real layers, between whose products oneDNN
  // and the choice between libraries distinguish.
  const std::vector<std::array<std::size_t, 3>> shapes{
      {1, 1, 1},      {3, 5, 7},      {17, 33, 65},   {1, 9, 4},       {9, 1, 4},
      {0, 3, 2},      {3, 0, 2},      {3, 2, 0},      {16, 512, 512},  {15, 512, 600},
      {33, 301, 500}, {64, 10, 7000}, {300, 40, 400}, {130, 129, 131}, {33, 512, 40}};
  for (const auto& [m, n, k] : shapes) {
    for (int variant = 0; variant < 4; ++variant) {
      const bool flip_a = (variant & 1) != 0, flip_b = (variant & 2) != 0;
      const Tensor a = whole_numbers(flip_a ? Shape{k, m} : Shape{m, k}, 1);
      const Tensor b = whole_numbers(flip_b ? Shape{n, k} : Shape{k, n}, 2);
      const Tensor before = whole_numbers({m, n}, 3);
      std::vector<float> sums(m * n);
      for (std::size_t at = 0; at < m * n; ++at) {
        const std::size_t i = at / n, j = at % n;
        for (std::size_t l = 0; l < k; ++l) {
          sums[at] += a.span()[flip_a ? l * m + i : i * k + l] *
                      b.span()[flip_b ? j * k + l : l * n + j];
        }
      }
      for (const float beta : {0.0F, 1.0F, 0.25F}) {
        CAPTURE(m, n, k, flip_a, flip_b, beta);
        const auto wrong = [&](auto multiply) {
          const Tensor c({m, n}, Device{});
          copy(alone[0], c, before);
          // With beta 0 the old contents must not be read: 0 * NaN would be NaN.
          if (beta == 0) std::ranges::fill(c.span(), kNaN);
          multiply(c);
          return count_wrong(c.span(), [&](std::size_t i) {
            return double{sums[i] + beta * before.span()[i]};
          });
        };
        for (const std::vector<Stream>* all : {&alone, &pairs}) {
          for (const Stream& stream : *all) {
            CHECK(wrong([&](const Tensor& c) {
                    gemm(stream, t(flip_a), t(flip_b), a, b, beta, c);
                  }) == 0);
          }
        }
        CHECK(wrong([&](const Tensor& c) {
                gemm_reference(t(flip_a), t(flip_b), a, b, beta, c);
              }) == 0);
      }
      if (m * n * k == 0) continue;
      a.span()[0] = kNaN;  // 0 times NaN is NaN, so no product may skip zeros
      std::ranges::fill(b.span(), 0.0F);
      for (const Stream& stream : alone) {
        const Tensor c({m, n}, Device{});
        gemm(stream, t(flip_a), t(flip_b), a, b, 0, c);
        CHECK(static_cast<std::size_t>(std::ranges::count_if(
                  c.span(), [](float value) { return std::isnan(value); })) == n);
      }
    }
  }
}

// Element i of a batch.
static Tensor matrix(const Tensor& batch, std::size_t i) {
  const std::size_t size = batch.dim(1) * batch.dim(2);
  return batch.narrow(i * size, size).view({batch.dim(1), batch.dim(2)});
}

TEST_CASE("batched_gemm multiplies each pair as gemm does", "[one process]") {
  const auto t = [](bool yes) { return yes ? Transpose::yes : Transpose::no; };
  const std::vector<Stream> alone = streams(1), pairs = streams(2);
  const std::vector<std::array<std::size_t, 4>> shapes{
      {1, 3, 5, 7}, {5, 1, 1, 1}, {7, 17, 9, 33},   {3, 130, 64, 130}, {0, 3, 2, 2},
      {2, 0, 2, 2}, {2, 3, 2, 0}, {12, 64, 64, 32}, {2, 300, 160, 160}};
  for (const auto& [count, m, n, k] : shapes) {
    for (int variant = 0; variant < 4; ++variant) {
      const bool flip_a = (variant & 1) != 0, flip_b = (variant & 2) != 0;
      const Tensor a = whole_numbers(flip_a ? Shape{count, k, m} : Shape{count, m, k}, 1);
      const Tensor b = whole_numbers(flip_b ? Shape{count, n, k} : Shape{count, k, n}, 2);
      const Tensor before = whole_numbers({count, m, n}, 3);
      for (const float beta : {0.0F, 0.25F}) {
        CAPTURE(count, m, n, k, flip_a, flip_b, beta);
        const Tensor expected({count, m, n}, Device{});
        copy(alone[0], expected, before);
        for (std::size_t i = 0; i < count; ++i) {
          gemm_reference(t(flip_a), t(flip_b), matrix(a, i), matrix(b, i), beta,
                         matrix(expected, i));
        }
        for (const std::vector<Stream>* all : {&alone, &pairs}) {
          for (const Stream& stream : *all) {
            const Tensor c({count, m, n}, Device{});
            copy(stream, c, before);
            if (beta == 0) std::ranges::fill(c.span(), kNaN);
            batched_gemm(stream, t(flip_a), t(flip_b), a, b, beta, c);
            CHECK(std::ranges::equal(c.span(), expected.span()));
          }
        }
      }
    }
  }
  const auto batch = [](Shape shape) { return Tensor(std::move(shape), Device{}); };
  const auto no = Transpose::no;
  const Stream& stream = alone[0];
  CHECK_THROWS_AS(
      batched_gemm(stream, no, no, batch({2, 3, 4}), batch({3, 4, 5}), 0, batch({2, 3, 5})),
      Error);
  CHECK_THROWS_AS(
      batched_gemm(stream, no, no, batch({2, 3, 4}), batch({2, 4, 5}), 0, batch({2, 5, 3})),
      Error);
  CHECK_THROWS_AS(batched_gemm(stream, no, no, batch({3, 4}), batch({4, 5}), 0, batch({3, 5})),
                  Error);
}

TEST_CASE("batched_gemm gives the same numbers on every device, in either precision",
          "[gpu][one process]") {
  const auto t = [](bool yes) { return yes ? Transpose::yes : Transpose::no; };
  const Stream cpu(Device{});
  const std::size_t count = 5, m = 17, n = 9, k = 33;
  for (const auto& [device, precision] : test::kinds()) {  // bfloat16 holds these numbers
    const Stream stream(device);
    for (int variant = 0; variant < 4; ++variant) {
      const bool flip_a = (variant & 1) != 0, flip_b = (variant & 2) != 0;
      const Tensor a = whole_numbers(flip_a ? Shape{count, k, m} : Shape{count, m, k}, 1);
      const Tensor b = whole_numbers(flip_b ? Shape{count, n, k} : Shape{count, k, n}, 2);
      const Tensor before = whole_numbers({count, m, n}, 3);
      const Tensor expected({count, m, n}, Device{});
      copy(cpu, expected, before);
      batched_gemm(cpu, t(flip_a), t(flip_b), a, b, 0.25F, expected);
      const auto there = [&](const Tensor& tensor) {
        Tensor moved(tensor.shape(), device);
        copy(stream, moved, tensor);
        return moved;
      };
      Operands operands(precision);
      const Tensor c = there(before);
      batched_gemm(stream, t(flip_a), t(flip_b), operands.of(stream, 0, there(a)),
                   operands.of(stream, 1, there(b)), 0.25F, c);
      const std::vector<float> got = to_host(stream, c);
      CAPTURE(to_string(device), precision, flip_a, flip_b);
      CHECK(std::ranges::equal(got, expected.span()));
    }
  }
}

// Seconds of processor time.
static double cpu_time(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// The processor time of other threads, for each second of this one's, while it multiplies.
static double help_of_others(const Stream& stream) {
  const Tensor a = whole_numbers({256, 256}, 1), b = whole_numbers({256, 256}, 2);
  const Tensor c({256, 256}, Device{});
  const double all = cpu_time(CLOCK_PROCESS_CPUTIME_ID),
               own = cpu_time(CLOCK_THREAD_CPUTIME_ID);
  double mine = 0;
  while (mine < 0.2) {
    gemm(stream, Transpose::no, Transpose::yes, a, b, 0, c);
    mine = cpu_time(CLOCK_THREAD_CPUTIME_ID) - own;
  }
  return (cpu_time(CLOCK_PROCESS_CPUTIME_ID) - all) / mine - 1;
}

TEST_CASE("a product uses as many threads as its stream has, whoever calls", "[one process]") {
  // First all that use one thread: a team of OpenMP waits in a loop for its next work.
  for (const int threads : {1, 2}) {
    for (const auto& [name, library] : kMatmulLibraries) {
      const std::string text = describe_matmul(library);
      if (text.empty() || (threads == 2 && text.find("without threads") != text.npos)) continue;
      const Stream stream(Device{}, threads);
      use_matmul_library(stream, library);
      double help = help_of_others(stream);
      std::thread other([&] {
        const double of_other = help_of_others(stream);
        help = threads == 1 ? std::max(help, of_other) : std::min(help, of_other);
      });
      other.join();
      CAPTURE(threads, help, name);
      if (threads == 1) CHECK(help < 0.1);
      if (threads == 2) CHECK((help > 0.3 || !kHasOpenMp));
    }
  }
}

TEST_CASE("gemm refuses shapes that do not match", "[one process]") {
  const Stream stream(Device{});
  const auto no = Transpose::no, yes = Transpose::yes;
  struct Product {
    Transpose ta, tb;
    Shape a, b, c;
  };
  const auto multiply = [&](const Product& p) {
    gemm(stream, p.ta, p.tb, Tensor(p.a, Device{}), Tensor(p.b, Device{}), 0,
         Tensor(p.c, Device{}));
  };
  multiply({no, no, {2, 3}, {3, 4}, {2, 4}});  // fits
  for (const Product& mistake : std::vector<Product>{{yes, no, {2, 3}, {3, 4}, {2, 4}},
                                                     {no, yes, {2, 3}, {3, 4}, {2, 4}},
                                                     {no, no, {2, 3}, {3, 4}, {1, 4}},
                                                     {no, no, {2, 3}, {3, 4}, {2, 5}},
                                                     {no, no, {6}, {3, 4}, {2, 4}},
                                                     {no, no, {2, 3, 1}, {3, 4}, {2, 4}},
                                                     {no, no, {2, 3}, {4, 4}, {2, 4}}}) {
    CHECK_THROWS_AS(multiply(mistake), Error);
  }
}
