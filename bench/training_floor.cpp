// The least time that each phase of a training step can take on this machine, for
// bench/training.py: the matrix products alone, with mlp.cpp's library and shapes; everything
// that only moves numbers, at memcpy's rate; square roots, divisions and exponentials in a loop
// that does nothing else; and MPI's all-reduce of all gradients at once. Beside these floors
// are the times of our functions. All ranks work at the same time, as in training.
#include "01_send_recv/measure.hpp"
#include "02_broadcast/random.hpp"
#include "05_ddp_training/model/bf16.hpp"
#include "05_ddp_training/model/linear.hpp"
#include "05_ddp_training/model/loss.hpp"
#include "05_ddp_training/optimizer/optimizer.hpp"
#include "common/buffer.hpp"
#include "common/command_line.hpp"
#include "common/console.hpp"
#include "common/mpi_environment.hpp"

#include <mpi.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
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

// The square roots and divisions of Adam's step, on numbers that stay in the first-level cache.
void roots_and_divisions(std::size_t count, float correction, std::span<float> block) {
  for (std::size_t done = 0; done < count; done += block.size()) {
    for (float& x : block) x = 1.0F + x / (std::sqrt(x) / correction + 1e-8F);
  }
}

// The exponentials and logarithms of a softmax.
void exponentials(const Tensor& logits, const Tensor& into, std::size_t classes) {
  for (std::size_t i = 0; i < logits.numel(); ++i) {
    const float x = logits.data()[i];
    into.data()[i] = std::exp(x) + std::exp(-x);
    if (i % classes == 0) into.data()[i] = std::log(into.data()[i]);
  }
}

// What a step does with a layer's outputs besides the products.
void pass_over_outputs(std::vector<Layer>& layers, std::size_t rows, const Stream& stream) {
  for (Layer& l : layers) {
    const std::size_t count = l.output.numel();
    add_bias(stream, rows, l.out, l.weight_grad.data(), l.output.data(), /*relu=*/true);
    relu_backward(stream, count, l.output.data(), l.output.data());
    column_sums(stream, rows, l.out, l.output.data(), l.weight_grad.data(), false);
  }
}

struct StagesOfAStep : Optimizer {
  using Optimizer::check;
  using Optimizer::Optimizer;
  using Optimizer::update;
};

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
  const auto time = [&](auto operation) {
    return median_of_slowest(comm, iterations, nothing, operation);
  };
  const double outputs_s = time([&] { pass_over_outputs(layers, rows, stream); });
  const Tensor copy({rows * *std::ranges::max_element(widths)}, Device{});
  const double copy_outputs_s = time([&] {
    for (const Layer& l : layers) {
      std::memcpy(copy.data(), l.output.data(), l.output.size_bytes());
    }
  });
  layers.clear();

  Generator generator(0);
  const Tensor g = random_tensor({parameters}, generator);
  const Tensor p = random_tensor({parameters}, generator);
  const Tensor m = random_tensor({parameters}, generator);
  const Tensor v = random_tensor({parameters}, generator);
  std::vector<Parameter> all{{"all", p, g}};
  StagesOfAStep adam({}, all, stream);
  adam.set_next_lr(1e-3);
  const double check_s = time([&] { adam.check(stream, /*decides=*/true); });
  const double adam_s = time([&] { adam.update(0, 1, stream); });
  std::vector<float> block(std::min<std::size_t>(parameters, 4096), 1.0F);
  const double roots_s = time([&] { roots_and_divisions(parameters, 0.9F, block); });
  const double all_reduce_s = time([&] {
    MPI_Allreduce(g.data(), m.data(), mpi_count(parameters), MPI_FLOAT, MPI_SUM, comm.get());
  });
  // memcpy's rate in as much memory as Adam uses. What only moves numbers is measured by it.
  const double copy_s = time([&] {
    std::memcpy(m.data(), g.data(), g.size_bytes());
    std::memcpy(v.data(), p.data(), p.size_bytes());
  });
  const double seconds_per_number = copy_s / (4.0 * static_cast<double>(parameters));

  const std::size_t classes = widths.back();
  const Tensor logits = random_tensor({rows, classes}, generator);
  const Tensor gradient = random_tensor({rows, classes}, generator);
  const std::vector<std::int32_t> targets(rows);
  CrossEntropyLoss loss;
  const double loss_s = time([&] { loss.forward(logits, targets, stream); });
  const double exponentials_s = time([&] { exponentials(logits, gradient, classes); });

  const Tensor data = random_tensor({4 * rows, widths.front()}, generator);
  const Tensor batch = random_tensor({rows, widths.front()}, generator);
  const std::size_t in = widths.front();
  // Between two batches, a step has filled the caches with its own numbers, as Adam's do here.
  const double gather_s = median_of_slowest(
      comm, iterations, [&] { adam.update(0, 1, stream); },
      [&] {
        for (std::size_t r = 0; r < rows; ++r) {
          const std::size_t from = (r * 2'654'435'761U) % (4 * rows);
          std::memcpy(batch.data() + r * in, data.data() + from * in, in * sizeof(float));
        }
      });

  const auto n = static_cast<double>(parameters);
  constexpr double kAdams = 7.0;   // numbers that Adam reads and writes per parameter
  constexpr double kPasses = 5.0;  // numbers that pass_over_outputs does, per output
  console.row(
      {{"floor", true},
       {"ranks", comm.size()},
       {"parameters", parameters},
       {"products_ms", significant(1e3 * products_s)},
       {"gflops", significant(1e-9 * flops / products_s)},
       {"gbs", significant(1e-9 * sizeof(float) / seconds_per_number)},
       {"adam_ms", significant(1e3 * adam_s)},
       {"adam_floor_ms", significant(1e3 * std::max(kAdams * n * seconds_per_number, roots_s))},
       {"check_ms", significant(1e3 * check_s)},
       {"check_floor_ms", significant(1e3 * seconds_per_number * n)},
       {"outputs_ms", significant(1e3 * outputs_s)},
       {"outputs_floor_ms", significant(1e3 * kPasses / 2 * copy_outputs_s)},
       {"loss_ms", significant(1e3 * loss_s)},
       {"loss_floor_ms", significant(1e3 * exponentials_s)},
       {"all_reduce_ms", significant(1e3 * all_reduce_s)},
       {"gather_ms", significant(1e3 * gather_s)}});
  return 0;
}
