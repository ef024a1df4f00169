// What a training program printed with --json, and the runs of real PyTorch beside it
// (tests/golden/training.json).
#pragma once

#include "tests/support/catch.hpp"
#include "tests/support/run_command.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace dist::test {

// Losses and final row of a training run.
struct Training {
  std::vector<double> losses;
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
    }
  }
  return training;
}

inline bool close(double a, double b, double tolerance = 1e-5) {
  return std::abs(a - b) <= tolerance * std::max(std::abs(b), 0.01);
}

// Momentum and weight decay are no flags yet.
inline bool has_our_flags(const nlohmann::json& run) {
  const nlohmann::json& optimizer = run["optimizer"];
  return (optimizer["type"] == "sgd" || optimizer["type"] == "adam") &&
         optimizer.value("momentum", 0.0) == 0.0 && optimizer.value("weight_decay", 0.0) == 0.0;
}

// The flags with which ddp_training repeats one run of training.json.
inline std::string flags_of(const nlohmann::json& run) {
  std::string layers = run["layers"].dump();  // "[16,32,4]"
  layers = layers.substr(1, layers.size() - 2);
  const nlohmann::json& optimizer = run["optimizer"];
  std::string flags = "--dataset synthetic --layers " + layers + " --seed " +
                      run["seed"].dump() + " --samples " + run["n"].dump() + " --classes " +
                      run["classes"].dump() + " --batch-size " + run["batch_per_rank"].dump() +
                      " --epochs " + run["epochs"].dump() + " --sampler-seed " +
                      run["sampler"]["seed"].dump() + " --optimizer " +
                      optimizer["type"].get<std::string>() + " --lr " + optimizer["lr"].dump();
  if (!run["sampler"]["shuffle"].get<bool>()) flags += " --no-shuffle";
  if (run["sampler"]["drop_last"].get<bool>()) flags += " --drop-last";
  if (run["loader_drop_last"].get<bool>()) flags += " --loader-drop-last";
  return flags;
}

// PyTorch's losses in that run, step by step.
inline std::vector<double> losses_of(const nlohmann::json& run) {
  std::vector<double> losses;
  for (const nlohmann::json& epoch : run["loss_per_epoch_per_step"]) {
    losses.insert(losses.end(), epoch.begin(), epoch.end());
  }
  return losses;
}

}  // namespace dist::test
