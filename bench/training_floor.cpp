// The least time that a training step can take on this machine, for bench/training.py: the time
// of the step's matrix products, with mlp.cpp's library and shapes, plus the time to read and
// write the memory that Adam uses. All ranks work at the same time, as in training.
#include "01_send_recv/measure.hpp"
#include "02_broadcast/random.hpp"
#include "05_ddp_training/advanced/bf16/factors.hpp"
#include "common/buffer.hpp"
#include "common/command_line.hpp"
#include "common/console.hpp"
#include "common/mpi_environment.hpp"

#include <mpi.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace dist;

struct Layer {
  std::size_t in, out;
  Factor input, weight, output_grad;                // read
  Tensor output, weight_grad, input_grad;           // written
  double forward_s = 0, weight_s = 0, input_s = 0;  // of the last pass
};

Tensor random_tensor(Shape shape, Generator& generator) {
  const Tensor tensor(std::move(shape), Device{});
  fill_uniform(tensor.span(), -1.0, 1.0, generator);
  return tensor;
}

std::vector<Layer> make_layers(const std::vector<std::size_t>& widths, std::size_t rows,
                               Factors& factors, const Stream& stream) {
  Generator generator(0);
  std::vector<Layer> layers;
  for (std::size_t l = 0; l + 1 < widths.size(); ++l) {
    const std::size_t in = widths[l];
    const std::size_t out = widths[l + 1];
    const auto factor = [&](std::size_t place, Shape shape) {
      return factors.of(stream, 3 * l + place, random_tensor(std::move(shape), generator));
    };
    layers.push_back({.in = in,
                      .out = out,
                      .input = factor(0, {rows, in}),
                      .weight = factor(1, {out, in}),
                      .output_grad = factor(2, {rows, out}),
                      .output = random_tensor({rows, out}, generator),
                      .weight_grad = random_tensor({out, in}, generator),
                      .input_grad = random_tensor({rows, in}, generator)});
  }
  return layers;
}

// All matrix products of one step, in their order within the step. The first layer's input
// gradient is omitted, since it is not needed.
void multiply(std::vector<Layer>& layers, const Stream& stream) {
  const auto timed = [&](double& seconds, Transpose ta, Transpose tb, const Factor& a,
                         const Factor& b, const Tensor& c) {
    const auto begin = std::chrono::steady_clock::now();
    gemm(stream, ta, tb, 1.0F, a, b, 0.0F, c);
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  constexpr auto kNo = Transpose::no;
  constexpr auto kYes = Transpose::yes;
  for (Layer& l : layers) timed(l.forward_s, kNo, kYes, l.input, l.weight, l.output);
  for (std::size_t i = layers.size(); i-- > 0;) {
    Layer& l = layers[i];
    timed(l.weight_s, kYes, kNo, l.output_grad, l.input, l.weight_grad);
    if (i > 0) timed(l.input_s, kNo, kNo, l.output_grad, l.weight, l.input_grad);
  }
}

// Adam's memory traffic without its arithmetic: it reads four arrays and writes three of them.
void touch(const Tensor& gradient, const Tensor& parameter, const Tensor& m, const Tensor& v) {
  const float* const g = gradient.data();
  float* const p = parameter.data();
  float* const a = m.data();
  float* const b = v.data();
  const std::size_t count = gradient.numel();
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) {
    p[i] += g[i];
    a[i] += g[i];
    b[i] += g[i];
  }
}

}  // namespace

int main(int argc, char** argv) {
  MpiEnvironment mpi(argc, argv);
  const Communicator comm = Communicator::world();
  std::vector<std::size_t> widths{784, 512, 512, 512, 10};
  std::size_t rows = 64;
  int iterations = 5;
  std::string precision = "fp32";
  CommandLine command_line("training_floor",
                           "Measures the least time that a training step can take here.");
  command_line.list("--layers", widths, "layer widths");
  command_line.number<std::size_t>("--batch-size", rows, 1, 1U << 24, "samples per rank");
  command_line.number("--iterations", iterations, 1, 1'000'000, "timed passes");
  command_line.choice("--precision", precision, {"fp32", "bf16"}, "of the products");
  command_line.check([&] {
    const std::string why = precision == "bf16" ? why_no_bf16(Device{}) : "";
    if (!why.empty()) throw Error("--precision: " + why);
    if (widths.size() < 2) throw Error("--layers: needs at least an input and an output width");
  });
  if (const auto exit = parse(command_line, comm, argc, argv)) return *exit;

  const Stream stream(Device{}, /*threads=*/1);
  const Console console(/*json=*/true, comm.rank() == 0);
  const auto nothing = [] {};
  Factors factors(precision == "bf16" ? Precision::bf16 : Precision::fp32);
  std::vector<Layer> layers = make_layers(widths, rows, factors, stream);
  std::vector<std::vector<double>> seconds(3 * layers.size());
  const auto remember = [&] {
    for (std::size_t l = 0; l < layers.size(); ++l) {
      seconds[3 * l].push_back(layers[l].forward_s);
      seconds[3 * l + 1].push_back(layers[l].weight_s);
      seconds[3 * l + 2].push_back(layers[l].input_s);
    }
  };
  const double products_s = median_of_slowest(comm, iterations, nothing, [&] {
    multiply(layers, stream);
    remember();
  });

  double flops = 0;
  std::size_t parameters = 0;
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const std::size_t in = layers[l].in;
    const std::size_t out = layers[l].out;
    parameters += in * out + out;
    const double each = 2.0 * static_cast<double>(rows * in * out);
    const std::vector<std::string> names{"output", "weight gradient", "input gradient"};
    for (std::size_t k = 0; k < (l == 0 ? 2 : names.size()); ++k) {
      const double time = median(seconds[3 * l + k]);
      flops += each;
      console.row({{"product", names[k]},
                   {"layer", l},
                   {"in", in},
                   {"out", out},
                   {"rows", rows},
                   {"time_ms", significant(1e3 * time)},
                   {"gflops", significant(1e-9 * each / time)}});
    }
  }
  layers.clear();

  Generator generator(0);
  const Tensor g = random_tensor({parameters}, generator);
  const Tensor p = random_tensor({parameters}, generator);
  const Tensor m = random_tensor({parameters}, generator);
  const Tensor v = random_tensor({parameters}, generator);
  const double touch_s =
      median_of_slowest(comm, iterations, nothing, [&] { touch(g, p, m, v); });
  constexpr double kBytesPerParameter = 28.0;
  console.row({{"floor", true},
               {"ranks", comm.size()},
               {"parameters", parameters},
               {"products_ms", significant(1e3 * products_s)},
               {"gflops", significant(1e-9 * flops / products_s)},
               {"optimizer_ms", significant(1e3 * touch_s)},
               {"gbs", significant(1e-9 * kBytesPerParameter * static_cast<double>(parameters) /
                                   touch_s)}});
  return 0;
}
