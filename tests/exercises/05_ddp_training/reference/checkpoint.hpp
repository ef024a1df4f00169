// The reference: a file of four numbers, followed by the values. The lesson's own checkpoint
// (05_ddp_training/checkpoint/checkpoint.hpp) is a safetensors file, so PyTorch can read it,
// and has a checksum.
#pragma once

#include "02_broadcast/broadcast.hpp"
#include "05_ddp_training/exercise/training_state.hpp"
#include "common/check.hpp"
#include "common/communicator.hpp"

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

namespace dist::exercise {

class StateFile : public CheckpointFile {
 public:
  StateFile(const Communicator& comm, std::string path) : comm_(comm), path_(std::move(path)) {}

  void save(const TrainingState& state) override {
    const bool written = comm_.rank() != 0 || write(state);
    if (!comm_.all_agree(written)) throw Error(path_ + " cannot be written");
  }

  TrainingState load() override {
    TrainingState state;
    const bool whole = comm_.rank() != 0 || read(state);
    if (!comm_.all_agree(whole)) throw Error(path_ + " is not a complete checkpoint");
    Numbers numbers = numbers_of(state);
    broadcast<std::uint64_t>(comm_, numbers, 0);
    state.parameters.resize(numbers[1]);
    state.momentum.resize(numbers[2]);
    state.step = numbers[3];
    broadcast<float>(comm_, state.parameters, 0);
    broadcast<float>(comm_, state.momentum, 0);
    return state;
  }

 private:
  using Numbers = std::array<std::uint64_t, 4>;  // a mark, two lengths and the step
  static constexpr std::uint64_t kMark = 0x31304354504b4344;

  static Numbers numbers_of(const TrainingState& state) {
    return {kMark, state.parameters.size(), state.momentum.size(), state.step};
  }
  bool write(const TrainingState& state) const {
    const std::string part = path_ + ".part";
    const Numbers numbers = numbers_of(state);
    {
      std::ofstream file(part, std::ios::binary);
      file.write(reinterpret_cast<const char*>(numbers.data()), sizeof(numbers));
      for (const auto* values : {&state.parameters, &state.momentum}) {
        file.write(reinterpret_cast<const char*>(values->data()),
                   static_cast<std::streamsize>(values->size() * sizeof(float)));
      }
      file.close();
      if (!file) return false;
    }
    std::error_code problem;
    std::filesystem::rename(part, path_, problem);
    return !problem;
  }
  bool read(TrainingState& state) const {
    std::ifstream file(path_, std::ios::binary);
    Numbers numbers{};
    file.read(reinterpret_cast<char*>(numbers.data()), sizeof(numbers));
    if (!file || numbers[0] != kMark) return false;
    const std::uint64_t rest = std::filesystem::file_size(path_) - sizeof(numbers);
    // If neither length exceeds `most`, their sum cannot overflow.
    const std::uint64_t most = rest / sizeof(float);
    if (numbers[1] > most || numbers[2] > most) return false;
    if ((numbers[1] + numbers[2]) * sizeof(float) != rest) return false;
    state.parameters.resize(numbers[1]);
    state.momentum.resize(numbers[2]);
    state.step = numbers[3];
    for (auto* values : {&state.parameters, &state.momentum}) {
      file.read(reinterpret_cast<char*>(values->data()),
                static_cast<std::streamsize>(values->size() * sizeof(float)));
    }
    return static_cast<bool>(file);
  }

  const Communicator& comm_;
  std::string path_;
};

inline std::unique_ptr<CheckpointFile> checkpoint(const Communicator& comm,
                                                  const std::string& path) {
  return std::make_unique<StateFile>(comm, path);
}

}  // namespace dist::exercise
