// The rate of each matrix product of a linear layer, by one of the libraries that gemm can use,
// for bench/matmul.py. One process, without mpirun.
#include "01_send_recv/measure.hpp"
#include "05_ddp_training/model/gemm.hpp"
#include "05_ddp_training/model/matmul_library.hpp"
#include "common/check.hpp"
#include "common/command_line.hpp"
#include "common/console.hpp"
#include "common/fatal.hpp"
#include "common/random.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace {

using namespace dist;

// The products of `rows` samples in a layer from `in` to `out` numbers.
struct Layer {
  Tensor input, weight, output, output_grad, weight_grad, input_grad;
};

struct Named {
  const char* name;
  void (*run)(const Layer& layer, const Stream& stream);
};

constexpr auto kNo = Transpose::no;
constexpr auto kYes = Transpose::yes;
const std::vector<Named> kProducts{
    {"forward", [](const Layer& l,
                   const Stream& s) { gemm(s, kNo, kYes, l.input, l.weight, 0, l.output); }},
    {"of weight",
     [](const Layer& l, const Stream& s) {
       gemm(s, kYes, kNo, l.output_grad, l.input, 0, l.weight_grad);
     }},
    {"of weight, added",
     [](const Layer& l, const Stream& s) {
       gemm(s, kYes, kNo, l.output_grad, l.input, 1, l.weight_grad);
     }},
    {"of input", [](const Layer& l, const Stream& s) {
       gemm(s, kNo, kNo, l.output_grad, l.weight, 0, l.input_grad);
     }}};

// Seconds for one product: the median of `passes`, each of as many products as take a while.
double seconds_of(const Named& product, const Layer& layer, const Stream& stream,
                  double flops) {
  constexpr int kPasses = 7;
  const auto repeats = std::max<std::size_t>(1, static_cast<std::size_t>(3e7 / flops));
  std::vector<double> times;
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto begin = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < repeats; ++i) product.run(layer, stream);
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    times.push_back(time.count() / static_cast<double>(repeats));
  }
  return median(times);
}

}  // namespace

int main(int argc, char** argv) {
  install_fatal_handler();
  const Communicator comm = Communicator::alone();
  std::vector<std::size_t> rows{64}, widths{784, 512, 512, 10};
  int threads = 1;
  MatmulLibrary matmul = MatmulLibrary::automatic;
  CommandLine flags("matmul_perf", "The rate of each matrix product of a layer.");
  flags.list("--rows", rows, "samples");
  flags.list("--layers", widths, "layer widths");
  flags.number("--threads", threads, 1, 1024, "compute threads");
  declare_matmul(flags, matmul);
  flags.check([&] {
    if (widths.size() < 2) throw Error("--layers: needs at least an input and an output width");
  });
  if (const auto exit = parse(flags, comm, argc, argv)) return *exit;

  const Stream stream(Device{}, threads);
  use_matmul_library(stream, matmul);
  const Console console(/*json=*/true, /*speaks=*/true);
  Generator generator(0);
  const auto random = [&](std::size_t m, std::size_t n) {
    const Tensor tensor({m, n}, Device{});
    fill_uniform(tensor.span(), -1.0, 1.0, generator);
    return tensor;
  };
  for (std::size_t l = 0; l + 1 < widths.size(); ++l) {
    const std::size_t in = widths[l], out = widths[l + 1];
    for (const std::size_t m : rows) {
      const Layer layer{.input = random(m, in),
                        .weight = random(out, in),
                        .output = random(m, out),
                        .output_grad = random(m, out),
                        .weight_grad = random(out, in),
                        .input_grad = random(m, in)};
      const double flops = 2.0 * static_cast<double>(m * in * out);
      for (const Named& product : kProducts) {
        product.run(layer, stream);
        const double seconds = seconds_of(product, layer, stream, flops);
        console.row({{"rows", m},
                     {"in", in},
                     {"out", out},
                     {"product", product.name},
                     {"gflops", significant(1e-9 * flops / seconds)},
                     {"matmul", describe_matmul(matmul)}});
      }
    }
  }
  return 0;
}
