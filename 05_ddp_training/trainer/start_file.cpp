#include "05_ddp_training/trainer/start_file.hpp"

#include "02_broadcast/broadcast.hpp"

#include <array>
#include <cstdint>
#include <filesystem>

namespace dist {

bool replaces_start(const CommandLine& flags, const Options& options,
                    const std::string& data_flag, const std::vector<std::string>& data) {
  struct Named {
    std::string flag, file;
  };
  std::vector<Named> inputs{{"--init", options.init},
                            {"--resume", options.resume ? options.checkpoint : ""}};
  for (const std::string& file : data) inputs.push_back({data_flag, file});
  const std::vector<Named> outputs{{"--checkpoint", options.evaluate ? "" : options.checkpoint},
                                   {"--metrics", options.metrics},
                                   {"--trace", flags.text_given("--trace")}};
  bool replaces = false;
  for (const auto& [reads, input] : inputs) {
    for (const auto& [writes, output] : outputs) {
      std::error_code not_there;
      if (!std::filesystem::equivalent(input, output, not_there)) continue;
      const bool is_allowed = writes == "--checkpoint" && reads != data_flag;
      check_usage(is_allowed, "{}: {} is a file that {} reads; choose another name", writes,
                  output, reads);
      replaces = true;
    }
  }
  return replaces;
}

// Refuses a file with other parameters than those of this model, and names the flag that fits.
static void require_parameters(const Checkpoint& file, const ModelPlan& model) {
  try {
    file.require_parameters(model.parameters());
  } catch (const Error& error) {
    const std::string fits = model.flag_for(file.parameters());
    if (fits.empty() || fits == model.flag_for(model.parameters())) throw;
    throw Error(fmt::format("{}; {} fits", error.what(), fits));
  }
}

void StartFile::read(const Options& options, const ModelPlan& model,
                     const RunSettings& settings, std::size_t samples, bool replaced) {
  if (!options.resume && options.init.empty()) return;
  const std::string& path = options.resume ? options.checkpoint : options.init;
  const char* flag = options.resume ? "--resume" : "--init";
  std::error_code problem;
  check_usage(std::filesystem::exists(path, problem), "{}: there is no file {}", flag, path);
  try {
    file_.emplace(path);
    require_parameters(*file_, model);
    file_->require_finite(/*with_state=*/options.resume);
    notes_ = {fmt::format("parameters of {}", path)};
    if (!file_->prefix().empty()) notes_[0] += ", without the prefix " + file_->prefix();
    if (replaced) notes_[0] += "; --checkpoint replaces this file";
    if (const std::string changed = file_->changed(); !changed.empty()) {
      notes_.push_back("note: " + changed);
    }
    if (!options.resume) return;
    position_ = file_->position(samples);
    notes_ = {fmt::format("continues {} after step {}", path, position_.step)};
    for (const std::string& note : file_->require_same_run(settings, options.deterministic)) {
      notes_.push_back(note);
    }
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", flag, error.what()));
  }
}

void StartFile::restore(Module& model, const Stream& stream) const {
  if (file_) file_->restore(model.parameters(), stream);
}

Position StartFile::resume(const Options& options, const ModelPlan& model,
                           const Communicator& comm, const DataParallel& ddp,
                           Optimizer& optimizer, const Stream& stream) const {
  if (!options.resume) return {};
  std::array<std::uint64_t, 4> numbers{position_.step, position_.epoch, position_.taken,
                                       file_ ? file_->optimizer_steps() : 0};
  broadcast<std::uint64_t>(comm, numbers, 0);
  optimizer.set_steps(numbers[3], stream);
  const std::vector<ParameterShape> parameters = model.parameters();
  for (std::size_t s = 0; s < optimizer.state().size(); ++s) {
    const Optimizer::State& state = optimizer.state()[s];
    const std::size_t p = s % parameters.size();
    const Shape& shape = parameters[p].shape;
    const Tensor whole = file_ ? file_->state(state.name, shape) : Tensor(shape, Device{});
    broadcast<float>(comm, whole.span(), 0);
    ddp.keep_part(p, whole, state.value, stream);
  }
  return {.step = numbers[0], .epoch = numbers[1], .taken = numbers[2]};
}

}  // namespace dist
