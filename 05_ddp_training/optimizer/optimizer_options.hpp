// What an optimizer can be told, with PyTorch's names, meanings and defaults, and what the
// flags, the checkpoints and the report know of each optimizer.
//
// A new one is a value of OptimizerKind, a row of kOptimizers and a file with its step. The
// compiler then refuses optimizer.cpp, which lacks cases.
#pragma once

#include "common/names.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

namespace dist {

enum class OptimizerKind { sgd, adam, adamw };

struct OptimizerFacts {
  OptimizerKind kind;
  std::string_view name;
  double lr, weight_decay;                   // defaults
  std::array<std::string_view, 3> flags;     // that not every optimizer has
  std::array<std::string_view, 2> states{};  // of each parameter, as a checkpoint names them
};

inline constexpr std::array<OptimizerFacts, 3> kOptimizers{
    {{.kind = OptimizerKind::sgd,
      .name = "sgd",
      .lr = 1e-2,
      .weight_decay = 0.0,
      .flags = {"--momentum", "--dampening", "--nesterov"},
      .states = {"momentum_buffer"}},  // only with momentum
     {.kind = OptimizerKind::adam,
      .name = "adam",
      .lr = 1e-3,
      .weight_decay = 0.0,
      .flags = {"--betas", "--eps"},
      .states = {"exp_avg", "exp_avg_sq"}},
     {.kind = OptimizerKind::adamw,
      .name = "adamw",
      .lr = 1e-3,
      .weight_decay = 1e-2,
      .flags = {"--betas", "--eps"},
      .states = {"exp_avg", "exp_avg_sq"}}}};

constexpr const OptimizerFacts& facts(OptimizerKind kind) {
  return *std::ranges::find(kOptimizers, kind, &OptimizerFacts::kind);
}

// The names that --optimizer accepts.
inline Names<OptimizerKind> optimizer_names() {
  std::vector<Names<OptimizerKind>::Row> rows;
  for (const OptimizerFacts& each : kOptimizers) rows.emplace_back(each.name, each.kind);
  return Names(std::move(rows));
}

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::adam;
  double lr = facts(OptimizerKind::adam).lr;  // the base rate of the schedule (lr_schedule)
  double weight_decay =
      facts(OptimizerKind::adam)
          .weight_decay;  // acts on the gradient (adam, sgd) or the parameter (adamw)

  // SGD
  double momentum = 0.0;
  double dampening = 0.0;
  bool nesterov = false;

  // Adam and AdamW
  std::array<double, 2> betas{0.9, 0.999};
  double eps = 1e-8;

  std::size_t warmup_steps = 0;
  double clip_norm = 0;  // the largest norm of all gradients together; 0: no limit
};

}  // namespace dist
