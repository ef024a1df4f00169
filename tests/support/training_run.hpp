// Compares a training program's --json output with PyTorch's runs (tests/golden/training.json).
#pragma once

#include "tests/support/catch.hpp"
#include "tests/support/run_command.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace dist::test {

// The rows of a training run.
struct Training {
  std::vector<double> losses;
  std::vector<double> rates;
  std::vector<double> norms;  // with --clip-norm
  nlohmann::json final;
};

inline Training trained(const CommandResult& result) {
  INFO(result.err);
  REQUIRE(result.status == 0);
  Training training;
  for (const nlohmann::json& row : result.rows()) {
    if (row.contains("final")) {
      training.final = row;
    } else {
      CHECK(row["step"] == training.losses.size());
      training.losses.push_back(row["loss"]);
      training.rates.push_back(row["lr"]);
      if (row.contains("grad_norm")) training.norms.push_back(row["grad_norm"]);
    }
  }
  return training;
}

inline bool close(double a, double b, double tolerance = 1e-5) {
  return std::abs(a - b) <= tolerance * std::max(std::abs(b), 0.01);
}

// The flags with which ddp_training repeats one run from training.json.
inline std::string flags_of(const nlohmann::json& run) {
  const auto list = [](const nlohmann::json& numbers) {
    const std::string text = numbers.dump();  // "[16,32,4]"
    return text.substr(1, text.size() - 2);
  };
  std::string flags = "--dataset synthetic --layers " + list(run["layers"]) + " --seed " +
                      run["seed"].dump() + " --samples " + run["n"].dump() + " --classes " +
                      run["classes"].dump() + " --batch-size " + run["batch_per_rank"].dump() +
                      " --epochs " + run["epochs"].dump() + " --sampler-seed " +
                      run["sampler"]["seed"].dump();
  if (!run["sampler"]["shuffle"].get<bool>()) flags += " --no-shuffle";
  if (run["sampler"]["drop_last"].get<bool>()) flags += " --drop-last";
  if (run["loader_drop_last"].get<bool>()) flags += " --loader-drop-last";

  const nlohmann::json& optimizer = run["optimizer"];
  flags += " --optimizer " + optimizer["type"].get<std::string>();
  for (const auto& [name, flag] : {std::pair{"lr", " --lr "},
                                   {"momentum", " --momentum "},
                                   {"dampening", " --dampening "},
                                   {"weight_decay", " --weight-decay "},
                                   {"eps", " --eps "}}) {
    if (optimizer.contains(name)) flags += flag + optimizer[name].dump();
  }
  if (optimizer.contains("betas")) flags += " --betas " + list(optimizer["betas"]);
  if (optimizer.value("nesterov", false)) flags += " --nesterov";
  return flags;
}

// PyTorch's losses in `run`, step by step.
inline std::vector<double> losses_of(const nlohmann::json& run) {
  std::vector<double> losses;
  for (const nlohmann::json& epoch : run["loss_per_epoch_per_step"]) {
    losses.insert(losses.end(), epoch.begin(), epoch.end());
  }
  return losses;
}

// Compares our parameters with PyTorch's, by name: the relative error of the norms and the
// absolute error of the first elements.
inline void check_parameters(const nlohmann::json& ours, const nlohmann::json& theirs,
                             double tolerance = 1e-5) {
  CHECK(ours.size() == theirs.size());
  for (const auto& [name, wanted] : theirs.items()) {
    INFO(name);
    const nlohmann::json& got = ours.at(name);
    const auto norm = wanted["l2"].get<double>();
    CHECK(std::abs(got["l2"].get<double>() - norm) <= tolerance * norm);
    REQUIRE(got["first8"].size() == wanted["first8"].size());
    for (std::size_t i = 0; i < got["first8"].size(); ++i) {
      const double distance =
          got["first8"][i].get<double>() - wanted["first8"][i].get<double>();
      CHECK(std::abs(distance) <= tolerance);
    }
  }
}

inline void check_losses(const std::vector<double>& ours, const std::vector<double>& theirs,
                         double tolerance = 1e-5) {
  REQUIRE(ours.size() == theirs.size());
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    INFO("step " << i);
    CHECK(close(ours[i], theirs[i], tolerance));
  }
}

// Repeats a run from training.json with ddp_training and the extra flags, and checks its
// results.
inline Training check_golden_run(const nlohmann::json& run, const std::string& more_flags,
                                 double tolerance = 1e-5) {
  const std::string flags = "--json " + more_flags + " " + flags_of(run);
  INFO(run["world"] << " ranks, " << flags);
  const Training ours = trained(mpirun(run["world"], "ddp_training", flags));
  check_losses(ours.losses, losses_of(run), tolerance);
  nlohmann::json theirs;
  for (const nlohmann::json& parameter : run["final_params"]) {
    theirs[parameter["name"].get<std::string>()] = parameter;
  }
  check_parameters(ours.final["parameters"], theirs, tolerance);
  return ours;
}

}  // namespace dist::test
