// The states that are saved to check a checkpoint, and the place where they are saved.
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

// A state of `count` parameters and `count` momentum values; every number identifies its place.
inline TrainingState state_of(const Trial& trial, std::size_t count, std::uint64_t step) {
  TrainingState state;
  for (std::size_t i = 0; i < count; ++i) {
    state.parameters.push_back(trial.value(1, i) + static_cast<float>(i) / 3.0F);
    state.momentum.push_back(-trial.value(2, i) - 0.1F);
  }
  state.step = step;
  return state;
}

// Values that may change when written as text, and a NaN, which does not equal itself.
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
  trial.expect(got.size() == must.size(), "{}: {} elements were loaded, but {} were saved",
               what, got.size(), must.size());
  for (std::size_t i = 0; i < std::min(got.size(), must.size()); ++i) {
    trial.expect(same_bits(got.subspan(i, 1), must.subspan(i, 1)),
                 "{}: element {} is {:.9g}, but {:.9g} was saved", what, i, got[i], must[i]);
  }
}

// A checkpoint in this rank's own folder: only rank 0's folder holds the file.
class Host {
 public:
  Host(Trial& trial, const Checkpoints& solution) : trial_(trial), solution_(solution) {}

  std::string path() const { return folder_.file("state.ckpt"); }
  const ScratchFolder& folder() const { return folder_; }

  void save(const TrainingState& state) { solution_(trial_.comm(), path())->save(state); }
  // Loads the state with a new object, as a new process would.
  TrainingState load() { return solution_(trial_.comm(), path())->load(); }
  TrainingState there_and_back(const TrainingState& state) {
    save(state);
    return load();
  }

  // Writes these bytes to rank 0's file; all ranks must then refuse to load it.
  void expect_refused(const std::string& what, const std::string& bytes) {
    if (trial_.rank() == 0) write_bytes(path(), bytes);
    expect_error(what, [&] { load(); });
  }
  void expect_error(const std::string& what, const std::function<void()>& call) {
    try {
      call();
      trial_.wrong(what + ": the call returned without an error");
    } catch (const Error&) {
    } catch (const std::exception& other) {
      trial_.wrong(
          fmt::format("{}: the exception is not a dist::Error: {}", what, other.what()));
    }
  }

 private:
  Trial& trial_;
  const Checkpoints& solution_;
  ScratchFolder folder_;
};

}  // namespace dist::exercise
