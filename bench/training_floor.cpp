// The least time that each phase of a training step can take on this machine, for
// bench/training.py: the matrix products alone, with the trainer's library and shapes; Adam, at
// memcpy's rate or as its square roots and divisions alone; and MPI's all-reduce of all
// gradients at once. All ranks work at the same time, as in training.
#include "01_send_recv/measure.hpp"
#include "05_ddp_training/model/bf16.hpp"
#include "05_ddp_training/model/gemm.hpp"
#include "05_ddp_training/model/matmul_library.hpp"
#include "common/buffer.hpp"
#include "common/command_line.hpp"
#include "common/console.hpp"
#include "common/mpi_environment.hpp"
#include "common/random.hpp"

#include <mpi.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace dist;

struct Layer {
  Operand input, weight, output_grad;      // read
  Tensor output, weight_grad, input_grad;  // written
};

Tensor random_tensor(Shape shape, Generator& generator) {
  const Tensor tensor(std::move(shape), Device{});
  fill_uniform(tensor.span(), -1.0, 1.0, generator);
  return tensor;
}

// All matrix products of one step, in their order within the step. The first layer's input
// gradient is omitted, since it is not needed.
void multiply(const std::vector<Layer>& layers, const Stream& stream) {
  const auto product = [&](Transpose ta, Transpose tb, const Operand& a, const Operand& b,
                           const Tensor& c) { gemm(stream, ta, tb, a, b, 0.0F, c); };
  constexpr auto kNo = Transpose::no;
  constexpr auto kYes = Transpose::yes;
  for (const Layer& l : layers) product(kNo, kYes, l.input, l.weight, l.output);
  for (std::size_t i = layers.size(); i-- > 0;) {
    const Layer& l = layers[i];
    product(kYes, kNo, l.output_grad, l.input, l.weight_grad);
    if (i > 0) product(kNo, kNo, l.output_grad, l.weight, l.input_grad);
  }
}

// The square roots and divisions of Adam's step, on numbers that stay in the first-level cache.
void roots_and_divisions(std::size_t count, float correction, std::span<float> block) {
  for (std::size_t done = 0; done < count; done += block.size()) {
    for (float& x : block) x = 1.0F + x / (std::sqrt(x) / correction + 1e-8F);
  }
}

}  // namespace

int main(int argc, char** argv) {
  MpiEnvironment mpi(argc, argv);
  const Communicator comm = Communicator::world();
  std::vector<std::size_t> widths{784, 512, 512, 512, 10};
  std::size_t rows = 64;
  std::string precision = "fp32";
  MatmulLibrary matmul = MatmulLibrary::automatic;
  CommandLine command_line("training_floor",
                           "Measures the least time that a training step can take here.");
  command_line.list("--layers", widths, "layer widths");
  command_line.number<std::size_t>("--batch-size", rows, 1, 1U << 24, "samples per rank");
  command_line.choice("--precision", precision, {"fp32", "bf16"}, "of the products");
  declare_matmul(command_line, matmul);
  command_line.check([&] {
    const std::string why = precision == "bf16" ? why_no_bf16(Device{}) : "";
    if (!why.empty()) throw Error("--precision: " + why);
    if (widths.size() < 2) throw Error("--layers: needs at least an input and an output width");
  });
  if (const auto exit = parse(command_line, comm, argc, argv)) return *exit;

  const auto milliseconds = [&](auto operation) {
    constexpr int kPasses = 5;
    return 1e3 * median_of_slowest(comm, kPasses, operation);
  };
  const Stream stream(Device{}, /*threads=*/1);
  use_matmul_library(stream, matmul);
  Generator generator(0);
  Operands operands(precision == "bf16" ? Precision::bf16 : Precision::fp32);
  std::vector<Layer> layers;
  double flops = 0;
  std::size_t parameters = 0;
  for (std::size_t l = 0; l + 1 < widths.size(); ++l) {
    const std::size_t in = widths[l];
    const std::size_t out = widths[l + 1];
    const auto operand = [&](std::size_t place, Shape shape) {
      return operands.of(stream, 3 * l + place, random_tensor(std::move(shape), generator));
    };
    layers.push_back({.input = operand(0, {rows, in}),
                      .weight = operand(1, {out, in}),
                      .output_grad = operand(2, {rows, out}),
                      .output = random_tensor({rows, out}, generator),
                      .weight_grad = random_tensor({out, in}, generator),
                      .input_grad = random_tensor({rows, in}, generator)});
    flops += (l == 0 ? 4.0 : 6.0) * static_cast<double>(rows * in * out);
    parameters += in * out + out;
  }
  const double products_ms = milliseconds([&] { multiply(layers, stream); });
  layers.clear();

  // As much memory as Adam uses: gradients, parameters and two states.
  const Tensor g = random_tensor({parameters}, generator);
  const Tensor p = random_tensor({parameters}, generator);
  const Tensor m = random_tensor({parameters}, generator);
  const Tensor v = random_tensor({parameters}, generator);
  const double copy_ms = milliseconds([&] {
    std::memcpy(m.data(), g.data(), g.size_bytes());
    std::memcpy(v.data(), p.data(), p.size_bytes());
  });
  const double all_reduce_ms = milliseconds([&] {
    MPI_Allreduce(g.data(), m.data(), mpi_count(parameters), MPI_FLOAT, MPI_SUM, comm.get());
  });
  std::vector<float> block(std::min<std::size_t>(parameters, 4096), 1.0F);
  const double roots_ms = milliseconds([&] { roots_and_divisions(parameters, 0.9F, block); });
  constexpr double kCopied = 4.0;  // numbers that the copies read and write, per parameter
  constexpr double kAdam = 7.0;    // and that Adam does; the check for finite gradients reads 1
  const Console console(/*json=*/true, comm.rank() == 0);
  console.row(
      {{"ranks", comm.size()},
       {"parameters", parameters},
       {"products_ms", significant(products_ms)},
       {"gflops", significant(1e-6 * flops / products_ms)},
       {"gbs", significant(1e-6 * kCopied * static_cast<double>(g.size_bytes()) / copy_ms)},
       {"adam_ms", significant(std::max(kAdam / kCopied * copy_ms, roots_ms))},
       {"check_ms", significant(copy_ms / kCopied)},
       {"all_reduce_ms", significant(all_reduce_ms)}});
  return 0;
}
