// Our solution of the exercise checkpoint. More are in checkpoint_changes.toml.
#pragma once

#include "05_ddp_training/exercise/training_state.hpp"
#include "common/atomic_file.hpp"
#include "common/check.hpp"
#include "common/communicator.hpp"
#include "tools/exercises/files.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace dist::exercise {

// == reference | done
// A file of four numbers, followed by the values. The lesson's own checkpoint
// (05_ddp_training/checkpoint/checkpoint.hpp) is a safetensors file, so PyTorch can read it,
// and has a checksum. Rank 0 broadcasts the file's bytes. Every rank parses them, so all ranks
// find the same mistakes.
class StateFile : public CheckpointFile {
 public:
  StateFile(const Communicator& comm, std::string path) : comm_(comm), path_(std::move(path)) {}

  void save(const TrainingState& state) override {
    bool written = true;
    try {
      if (comm_.rank() == 0) write_file_at_once(path_, packed(state));
    } catch (const std::exception&) {
      written = false;
    }
    if (!comm_.all_agree(written)) throw Error(path_ + " cannot be written");
  }
  TrainingState load() override { return unpacked(fetch()); }

 private:
  using Numbers = std::array<std::uint64_t, 4>;  // a mark, two lengths and the step
  static constexpr std::uint64_t kMark = 0x31304354504b4344;

  std::string packed(const TrainingState& state) const {
    const Numbers numbers{kMark, state.parameters.size(), state.momentum.size(), state.step};
    std::string bytes(reinterpret_cast<const char*>(numbers.data()), sizeof(numbers));
    for (const auto* values : {&state.parameters, &state.momentum}) {
      bytes.append(reinterpret_cast<const char*>(values->data()),
                   values->size() * sizeof(float));
    }
    return bytes;
  }
  TrainingState unpacked(const std::string& bytes) const {
    Numbers numbers{};
    if (bytes.size() < sizeof(numbers)) throw Error(path_ + " is not a checkpoint");
    std::memcpy(numbers.data(), bytes.data(), sizeof(numbers));
    if (numbers[0] != kMark) throw Error(path_ + " is not one of our files");
    const std::uint64_t size = bytes.size();
    const std::uint64_t needed = sizeof(numbers) + (numbers[1] + numbers[2]) * sizeof(float);
    if (numbers[1] > size || numbers[2] > size || needed != size) {
      throw Error(path_ + " is torn");
    }
    TrainingState loaded{.parameters = std::vector<float>(numbers[1]),
                         .momentum = std::vector<float>(numbers[2]),
                         .step = numbers[3]};
    std::size_t from = sizeof(numbers);
    for (auto* values : {&loaded.parameters, &loaded.momentum}) {
      from += bytes.copy(reinterpret_cast<char*>(values->data()),
                         values->size() * sizeof(float), from);
    }
    return loaded;
  }
  // On all ranks, returns the bytes that rank 0 reads; empty if rank 0 cannot read any.
  std::string fetch() const {
    std::string content = comm_.rank() == 0 ? test::content_of(path_) : "";
    std::uint64_t length = content.size();
    MPI_CHECK(MPI_Bcast(&length, 1, MPI_UINT64_T, 0, comm_.get()));
    content.resize(length);
    MPI_CHECK(MPI_Bcast(content.data(), mpi_count(length), MPI_BYTE, 0, comm_.get()));
    return content;
  }

  const Communicator& comm_;
  std::string path_;
};

inline std::unique_ptr<CheckpointFile> checkpoint_reference(const Communicator& comm,
                                                            const std::string& path) {
  return std::make_unique<StateFile>(comm, path);
}

}  // namespace dist::exercise
