// What the checks of a checkpoint work with: states, and a folder on each rank's own host, of
// which they see everything that happens to a file, and whose disk can be full.
#pragma once

#include "05_ddp_training/exercise/training_state.hpp"
#include "common/join.hpp"
#include "tools/exercises/files.hpp"
#include "tools/exercises/folder_events.hpp"
#include "tools/exercises/message_checks.hpp"

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <sys/resource.h>
#include <thread>
#include <vector>

namespace dist::exercise {

using Checkpoints = std::function<std::unique_ptr<CheckpointFile>(const Communicator&,
                                                                  const std::string& path)>;

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
          .step = (std::uint64_t{1} << 63U) + (std::uint64_t{1} << 40U) + 7};
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

// `other` is the other array that was saved.
inline void expect_equal(Trial& trial, const std::string& what, std::span<const float> got,
                         std::span<const float> must, std::span<const float> other = {}) {
  trial.expect(Seen::uneven, got.size() == must.size(),
               "{}: {} elements were loaded, but {} were saved", what, got.size(), must.size());
  for (std::size_t i = 0; i < std::min(got.size(), must.size()); ++i) {
    const bool of_other = i < other.size() && same_bits(got.subspan(i, 1), other.subspan(i, 1));
    trial.expect(of_other ? Seen::elsewhere : Seen::something_else,
                 same_bits(got.subspan(i, 1), must.subspan(i, 1)),
                 "{}: element {} is {:.9g}, but {:.9g} was saved", what, i, got[i], must[i]);
  }
}

// A checkpoint in this rank's own folder: only rank 0's folder holds the file.
class Host {
 public:
  Host(Trial& trial, const Checkpoints& solution) : trial_(trial), solution_(solution) {}

  std::string path() const { return folder_ / "state.ckpt"; }
  const test::TemporaryFolder& folder() const { return folder_; }

  void save(const TrainingState& state) { solution_(trial_.comm(), path())->save(state); }
  // Loads the state with a new object, as a new process would.
  TrainingState load() { return solution_(trial_.comm(), path())->load(); }
  TrainingState there_and_back(const TrainingState& state) {
    save(state);
    try {
      return load();
    } catch (const Error& error) {
      // The first to throw ends the job, and rank 0, which has the file, knows more.
      if (trial_.rank() == 0)
        throw Error(std::string("load refuses the file that save has just written: ") +
                    error.what());
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      throw;
    }
  }

  // Writes these bytes to rank 0's file; all ranks must then refuse to load it.
  void expect_refused(const std::string& what, const std::string& bytes) {
    if (trial_.rank() == 0) test::write_content(path(), bytes);
    expect_error(what, [&] { load(); });
  }
  void expect_error(const std::string& what, const std::function<void()>& call,
                    Seen otherwise = Seen::something_else) {
    try {
      call();
      trial_.wrong(what + ": the call returned without an error", otherwise);
    } catch (const Error&) {
    } catch (const std::exception& other) {
      trial_.wrong(
          fmt::format("{}: the exception is not a dist::Error: {}", what, other.what()),
          Seen::threw);
    }
  }

 private:
  Trial& trial_;
  const Checkpoints& solution_;
  test::TemporaryFolder folder_;
};

// SGD with momentum; the gradient depends on the step.
inline void train(TrainingState& state, int steps) {
  for (int i = 0; i < steps; ++i, ++state.step) {
    for (std::size_t p = 0; p < state.parameters.size(); ++p) {
      const float gradient =
          0.3F * state.parameters[p] + std::sin(static_cast<float>(state.step + p));
      state.momentum[p] = 0.9F * state.momentum[p] + gradient;
      state.parameters[p] -= 0.01F * state.momentum[p];
    }
  }
}

// What a save did to the old file that it must not do; empty if it only replaced it.
inline std::string what_happened(const std::vector<test::FolderEvents::Event>& events,
                                 const std::string& file) {
  std::uint32_t last_move = 0;
  for (const auto& [what, moved, name] : events) {
    if (name == file) {
      if ((what & IN_DELETE) != 0)
        return "the old file was removed before the new one was there";
      if ((what & IN_MOVED_FROM) != 0) return "the old file was moved away";
      if ((what & (IN_MODIFY | IN_CREATE)) != 0) return "the file was written in its place";
      if ((what & IN_MOVED_TO) != 0 && moved != last_move) {
        return "the new file was moved here from another folder, which may be on another disk";
      }
    }
    if ((what & IN_MOVED_FROM) != 0) last_move = moved;
  }
  return "";
}

// While this object exists, no file of this process can grow above `bytes`, as on a full disk.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FullDisk(FullDisk&&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

// Rank 0 cannot write all of the new file. It must leave the old one, and nothing else.
inline void expect_old_file_on_full_disk(Trial& trial, Host& host) {
  host.save(state_of(trial, 20, 1));
  const bool writes = trial.rank() == 0;
  const std::string before = writes ? test::content_of(host.path()) : "";
  // What is small is written only when the file is closed.
  for (const std::size_t numbers : {10'000, 30}) {
    std::optional<FullDisk> full;
    if (writes) full.emplace(numbers);  // bytes
    host.expect_error("a full disk", [&] { host.save(state_of(trial, numbers, 2)); });
  }
  if (!writes) return;
  trial.expect(test::content_of(host.path()) == before,
               "a full disk: the old file has changed");
  trial.expect(host.folder().names() == std::vector<std::string>{"state.ckpt"},
               "a full disk: the folder contains: {}", join(host.folder().names(), ", "));
}

}  // namespace dist::exercise
