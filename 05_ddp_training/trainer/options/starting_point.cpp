#include "05_ddp_training/trainer/options/starting_point.hpp"

#include "common/check.hpp"

#include <fmt/core.h>

#include <filesystem>

namespace dist {

void StartingPoint::declare(CommandLine& command_line) {
  command_line.advanced();
  command_line.text("--init", init_, "safetensors file whose parameters training starts from");
  command_line.flag("--resume", resume_, "continue the run that wrote --checkpoint");
  command_line.flag("--evaluate", evaluate_, "only test the parameters of --init or --resume");
}

void StartingPoint::check(const TrainingOptions& options, const RunSettings& settings,
                          std::size_t samples, bool reads, bool any_ranks) {
  if (resume_ && options.checkpoint.empty()) throw Error("--resume: needs --checkpoint FILE");
  if (resume_ && !init_.empty()) throw Error("--init: cannot be combined with --resume");
  if (evaluate_ && !resume_ && init_.empty()) {
    throw Error("--evaluate: needs the parameters of --init FILE or --resume");
  }
  if (evaluate_ && options.dataset == "synthetic") {
    throw Error("--evaluate: the synthetic data set has no test set");
  }
  if (!reads || (!resume_ && init_.empty())) return;

  const std::string& path = resume_ ? options.checkpoint : init_;
  const char* flag = resume_ ? "--resume" : "--init";
  std::error_code problem;
  if (!std::filesystem::exists(path, problem)) {
    throw Error(fmt::format("{}: there is no file {}", flag, path));
  }
  try {
    file_.emplace(path);
    file_->require_parameters(options.layers);
    if (!resume_) {
      notes_.push_back(fmt::format("parameters of {}", path));
      return;
    }
    position_ = file_->position(samples);
    notes_ = require_same_run(file_->settings(), settings, path, any_ranks);
    notes_.insert(notes_.begin(),
                  fmt::format("continues {} after step {}", path, position_.step));
    for (std::string& note : notes_) note = printable(note);
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", flag, error.what()));
  }
}

Position StartingPoint::restore(std::span<Parameter> parameters, Optimizer& optimizer,
                                const Stream& stream, bool is_divided) const {
  if (!file_) return {};
  file_->restore(parameters, stream);
  if (!resume_) return {};
  if (is_divided) {
    optimizer.set_steps(file_->optimizer_steps(), stream);
  } else {
    file_->restore(optimizer, stream);
  }
  return position_;
}

}  // namespace dist
