#include "05_ddp_training/trainer/options/setup.hpp"

#include "05_ddp_training/model/kernels.hpp"
#include "05_ddp_training/trainer/report/memory_use.hpp"

#include <utility>

namespace dist {

Setup::Setup(std::string program, const Communicator& comm)
    : program_(std::move(program)), comm_(comm) {}

std::optional<int> Setup::read(int argc, char** argv) {
  const bool root = comm_.rank() == 0;
  CommandLine command_line(program_, title());
  options.declare(command_line, /*writes=*/root);
  declare(command_line);
  start.declare(command_line);
  command_line.check([&] {
    device = choose_device(options.common.device, comm_.local_rank(), why_no_kernel);
    if (precision() == Precision::bf16) {
      if (const std::string why = why_no_bf16(device.device); !why.empty()) {
        throw Error("--precision: " + why);
      }
    }
    const auto processes = static_cast<std::size_t>(comm_.size());
    data.load(options, comm_.size(), ranks().per_process());
    values_ = command_line.values();
    for (auto& value : data.fingerprints(options)) values_.push_back(std::move(value));
    settings = run_settings(values_, to_string(device.device), processes,
                            processes * options.batch_size * accumulate());
    start.check(options, settings, data.size(options), /*reads=*/root,
                /*any_ranks=*/fixed_ranks());
  });
  command_line.check_together([&] { check_together(); });
  if (const auto exit = parse(command_line, comm_, argc, argv)) return exit;

  console_.emplace(options.common.json, root);
  stream_.emplace(device.device, options.common.threads);
  generator_.emplace(options.common.seed);
  memory_before = memory_use().resident_share(comm_.local_size());
  return std::nullopt;
}

std::unique_ptr<Optimizer> Setup::make_optimizer(Mlp& model) {
  auto made = dist::make_optimizer(options.optimizer, model.parameters(), stream());
  if (options.optimizer.clip_norm > 0) {
    made->clip({norm_ranges(model.parameters(), bucket_caps(), chunks()), chunks(),
                /*is_exchanged=*/false, stream()});
  }
  return made;
}

LrSchedule Setup::schedule() const {
  return warmed_up(options.optimizer.lr, options.optimizer.warmup_steps);
}

RunDescription Setup::description() const {
  return {.device = to_string(device.device),
          .precision = options.precision,
          .ranks = comm_.size()};
}

BatchPlan Setup::batches() const {
  return {options.batch_size / ranks().per_process(), options.loader_drop_last, accumulate()};
}

}  // namespace dist
