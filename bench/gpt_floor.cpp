// The least time of a GPT's step on this machine, for bench/gpt.py: the products of its linear
// layers alone, with the trainer's library and shapes. All ranks work at the same time.
#include "01_send_recv/measure.hpp"
#include "05_ddp_training/model/gemm.hpp"
#include "common/command_line.hpp"
#include "common/console.hpp"
#include "common/mpi_environment.hpp"
#include "common/random.hpp"

#include <nlohmann/json.hpp>

#include <vector>

namespace {

using namespace dist;

struct Layer {
  Tensor input, weight, output_grad;       // read
  Tensor output, weight_grad, input_grad;  // written
};

Layer make_layer(std::size_t rows, std::size_t in, std::size_t out, Generator& generator) {
  const auto random = [&](const Shape& shape) {
    const Tensor tensor(shape, Device{});
    fill_uniform(tensor.span(), -1.0, 1.0, generator);
    return tensor;
  };
  return {random({rows, in}),  random({out, in}), random({rows, out}),
          random({rows, out}), random({out, in}), random({rows, in})};
}

}  // namespace

int main(int argc, char** argv) {
  MpiEnvironment mpi(argc, argv);
  const Communicator comm = Communicator::world();
  std::size_t rows = 512;
  std::vector<std::size_t> widths{64, 192};
  CommandLine flags("gpt_floor", "Measures the least time that a GPT's step can take here.");
  flags.number<std::size_t>("--rows", rows, 1, 1U << 24, "tokens per rank");
  flags.list("--widths", widths, "inputs and outputs of each linear layer");
  flags.check([&] {
    if (widths.size() % 2 != 0) throw Error("--widths: needs two numbers for each layer");
  });
  if (const auto exit = parse(flags, comm, argc, argv)) return *exit;

  const Stream stream(Device{}, /*threads=*/1);
  Generator generator(0);
  std::vector<Layer> layers;
  for (std::size_t i = 0; i < widths.size(); i += 2) {
    layers.push_back(make_layer(rows, widths[i], widths[i + 1], generator));
  }
  constexpr int kPasses = 15;
  const double seconds = median_of_slowest(comm, kPasses, [&] {
    constexpr auto kNo = Transpose::no, kYes = Transpose::yes;
    for (const Layer& l : layers) gemm(stream, kNo, kYes, l.input, l.weight, 0, l.output);
    for (const Layer& l : layers) {
      gemm(stream, kYes, kNo, l.output_grad, l.input, 0, l.weight_grad);
      gemm(stream, kNo, kNo, l.output_grad, l.weight, 0, l.input_grad);
    }
  });
  const Console console(/*json=*/true, comm.rank() == 0);
  console.row({{"ranks", comm.size()}, {"step_ms", significant(1e3 * seconds)}});
  return 0;
}
