// N processes train one GPT, which then writes some lines.
//
//   mpirun -np 4 build/bin/gpt_training
//
// Lesson 5's loop: only the model and the data are others.
#include "03_all_reduce/ring.hpp"
#include "05_ddp_training/advanced/gpt/gpt.hpp"
#include "05_ddp_training/advanced/gpt/text_dataset.hpp"
#include "05_ddp_training/advanced/gpt/write.hpp"
#include "05_ddp_training/data_parallel/distributed_data_parallel.hpp"
#include "05_ddp_training/model/loss.hpp"
#include "05_ddp_training/optimizer/lr_schedule.hpp"
#include "05_ddp_training/small_training/small_training.hpp"
#include "common/mpi_environment.hpp"
#include "common/program.hpp"

#include <nlohmann/json.hpp>

#include <fstream>
#include <iterator>

namespace dist {

struct GptOptions {
  std::size_t max_steps = 2200, batch_size = 8;
  double lr = 0.01;
  std::string text = DIST_GPT_TEXT;
};

static std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) throw Error("--text: cannot read " + path);
  return text;
}

static int train(const Program& program, const GptOptions& options) {
  const Communicator& comm = program.comm;
  const Stream& stream = program.stream;
  const std::string text = read_text(options.text);
  const Vocabulary vocabulary(text);
  const GptShape shape{.vocabulary = vocabulary.size()};
  // The last tenth is for testing.
  const TextDataset windows(std::string_view(text).substr(0, text.size() / 10 * 9), vocabulary,
                            shape.context, /*stride=*/1);

  Generator generator(program.common.seed);
  Gpt model(shape, generator, stream);
  const BackendChoice carrier = choose_backend("auto", comm, stream.device());
  const auto group = make_process_group(carrier.backend, comm, stream.device(),
                                        AllReduceAlgorithm::ring, false, 0, carrier.nccl);
  DistributedDataParallel ddp(model, *group, stream);
  const auto optimizer = ddp.make_optimizer(
      {.kind = OptimizerKind::adamw, .weight_decay = 0.1, .betas = {0.9, 0.99}, .clip_norm = 1},
      stream);
  const CosineSchedule schedule{.peak = options.lr,
                                .floor = options.lr / 10,
                                .warmup_steps = 100,
                                .total_steps = std::max<std::size_t>(options.max_steps, 101)};
  SmallBatches batches{{windows.size(), comm.size(), comm.rank()},
                       {windows, options.batch_size, /*drop_last=*/true, stream}};
  CrossEntropyLoss loss;
  double mean = 0;
  for (std::size_t step = 0; step < options.max_steps; ++step) {
    const Batch& batch = batches.next();
    loss.forward(ddp.forward(batch.inputs, stream), batch, stream);
    ddp.backward(loss.grad(), batch.place, stream);
    optimizer->step(schedule.at(step), stream);
    mean = loss.value(stream);
    all_reduce_ring(comm, std::span(&mean, 1), ReduceOp::avg);
    program.console.row({{"step", step}, {"loss", significant(mean)}});
    if ((step + 1) % 100 == 0) program.console.line("step {:5}  loss {:.3f}", step + 1, mean);
  }
  program.console.line(
      write(model, vocabulary, shape.context, "\n", 300, 0.7, generator, stream));
  const std::string bad = wrong_replicas(comm, model.parameters(), stream);
  return program.console.verdict(comm, bad.empty(), "the replicas are equal, bit for bit", bad);
}

}  // namespace dist

int main(int argc, char** argv) {
  using namespace dist;
  MpiEnvironment mpi(argc, argv);
  Program program("gpt_training", "Data-parallel training of a GPT.", why_no_kernel);
  GptOptions options;
  program.flags.number("--max-steps", options.max_steps, 1, 1 << 30, "steps of the optimizer");
  program.flags.number("--batch-size", options.batch_size, 1, 1 << 16, "windows per rank");
  program.flags.number("--lr", options.lr, 0, 1, "largest learning rate");
  program.flags.text("--text", options.text, "file from which the model learns");
  program.declare_common();
  if (const auto exit = program.start(argc, argv)) return *exit;
  return train(program, options);
}
