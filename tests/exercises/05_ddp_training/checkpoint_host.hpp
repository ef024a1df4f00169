// What the checks of a checkpoint save, and where.
#pragma once

#include "common/check.hpp"
#include "tests/exercises/05_ddp_training/checks.hpp"
#include "tests/exercises/05_ddp_training/scratch_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <span>
#include <string>

namespace dist::exercise {

// `count` parameters and as many of momentum; every number says where it belongs.
inline TrainingState state_of(const Trial& trial, std::size_t count, std::uint64_t step) {
  TrainingState state;
  for (std::size_t i = 0; i < count; ++i) {
    state.parameters.push_back(trial.value(1, i) + static_cast<float>(i) / 3.0F);
    state.momentum.push_back(-trial.value(2, i) - 0.1F);
  }
  state.step = step;
  return state;
}

// What text and comparisons lose.
inline TrainingState strange_state() {
  using Limits = std::numeric_limits<float>;
  return {.parameters = {1.0F / 3.0F, -0.0F, Limits::denorm_min(), Limits::max(), 16777217.0F,
                         Limits::infinity(), Limits::quiet_NaN(), 1.1920929e-7F},
          .momentum = {0.1F, -1e-38F, 3.4028233e38F},
          .step = (std::uint64_t{1} << 40U) + 7};
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

inline void expect_equal(Trial& trial, const std::string& what, std::span<const float> got,
                         std::span<const float> must) {
  trial.expect(got.size() == must.size(), [&] {
    return fmt::format("{} {} came back, {} were saved", got.size(), what, must.size());
  });
  for (std::size_t i = 0; i < std::min(got.size(), must.size()); ++i) {
    trial.expect(same_bits(got.subspan(i, 1), must.subspan(i, 1)), [&] {
      return fmt::format("{}: element {} is {:.9g}, {:.9g} was saved", what, i, got[i],
                         must[i]);
    });
  }
}

// A checkpoint in a folder of this rank's own: only rank 0's holds the file.
class Host {
 public:
  Host(Trial& trial, const Checkpoints& solution) : trial_(trial), solution_(solution) {}

  std::string path() const { return folder_.file("state.ckpt"); }
  const ScratchFolder& folder() const { return folder_; }

  void save(const TrainingState& state) { solution_(trial_.comm(), path())->save(state); }
  // By another object: a new process would have no other.
  TrainingState load() { return solution_(trial_.comm(), path())->load(); }
  TrainingState there_and_back(const TrainingState& state) {
    save(state);
    return load();
  }

  // Rank 0's file gets these bytes; all ranks must then refuse to load it.
  void expect_refused(const std::string& what, const std::string& bytes) {
    if (trial_.rank() == 0) write_bytes(path(), bytes);
    expect_error(what, [&] { load(); });
  }
  void expect_error(const std::string& what, const std::function<void()>& call) {
    try {
      call();
      trial_.wrong(what + ": it returned as if all were well");
    } catch (const Error&) {
    } catch (const std::exception& other) {
      trial_.wrong(fmt::format("{}: it threw what is no dist::Error: {}", what, other.what()));
    }
  }

 private:
  Trial& trial_;
  const Checkpoints& solution_;
  ScratchFolder folder_;
};

}  // namespace dist::exercise
