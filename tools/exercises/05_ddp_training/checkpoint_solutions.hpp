// Known solutions of the exercise `checkpoint`: the reference, and others, right and wrong.
#pragma once

#include "02_broadcast/broadcast.hpp"
#include "05_ddp_training/exercise/training_state.hpp"
#include "common/atomic_file.hpp"
#include "common/check.hpp"
#include "common/communicator.hpp"
#include "tools/exercises/files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
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
    if (comm_.rank() == 0) {
      try {
        const std::string bytes = packed(state);
        write_file_at_once(path_, bytes);
      } catch (const Error&) {
        written = false;
      }
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
    const std::uint64_t most = bytes.size();
    if (numbers[1] > most || numbers[2] > most ||
        sizeof(numbers) + (numbers[1] + numbers[2]) * sizeof(float) != bytes.size()) {
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

// == helpers
using AnyFile = std::unique_ptr<CheckpointFile>;

// The reference with a different save or a different load.
class ChangedFile : public StateFile {
 public:
  using Save = std::function<void(const TrainingState&)>;
  using Load = std::function<TrainingState()>;
  ChangedFile(const Communicator& comm, const std::string& path, Save save)
      : StateFile(comm, path), save_(std::move(save)) {}
  ChangedFile(const Communicator& comm, const std::string& path, Load load)
      : StateFile(comm, path), load_(std::move(load)) {}

  void save(const TrainingState& s) override { save_ ? save_(s) : StateFile::save(s); }
  TrainingState load() override { return load_ ? load_() : StateFile::load(); }

 private:
  Save save_;
  Load load_;
};

using StateNumbers = std::array<std::uint64_t, 4>;   // a mark, two lengths and the step
constexpr std::uint64_t kOurs = 0x31304354504b4344;  // the mark

// The bytes of the reference's file.
inline std::string bytes_of(const TrainingState& state) {
  const StateNumbers numbers{kOurs, state.parameters.size(), state.momentum.size(), state.step};
  std::string bytes(reinterpret_cast<const char*>(numbers.data()), sizeof(numbers));
  for (const auto* values : {&state.parameters, &state.momentum}) {
    bytes.append(reinterpret_cast<const char*>(values->data()), values->size() * sizeof(float));
  }
  return bytes;
}

// Loads such a file: rank 0 parses it, and broadcasts the lengths and the values. Throws Error
// unless the file is exactly what was written; `takes` is the one difference it overlooks.
enum class Takes { whole_files, shorter, longer, foreign };
inline AnyFile in_pieces(const Communicator& comm, const std::string& path, Takes takes) {
  return std::make_unique<ChangedFile>(comm, path, [&comm, path, takes] {
    const std::string bytes = comm.rank() == 0 ? test::content_of(path) : "";
    StateNumbers numbers{};
    bytes.copy(reinterpret_cast<char*>(numbers.data()), sizeof(numbers));
    const auto& [mark, parameters, momentum, step] = numbers;
    const std::uint64_t needed = sizeof(numbers) + (parameters + momentum) * sizeof(float);
    const bool too_short = std::max({parameters, momentum, needed}) > bytes.size();
    const bool too_long = needed < bytes.size();
    const bool fits =
        bytes.size() >= sizeof(numbers) && (mark == kOurs || takes == Takes::foreign) &&
        (!too_short || takes == Takes::shorter) && (!too_long || takes == Takes::longer);
    if (!comm.all_agree(comm.rank() != 0 || fits)) throw Error(path + " is not complete");
    broadcast<std::uint64_t>(comm, numbers, 0);
    TrainingState state{std::vector<float>(parameters), std::vector<float>(momentum), step};
    std::size_t from = sizeof(numbers);
    for (auto* values : {&state.parameters, &state.momentum}) {
      char* const to = reinterpret_cast<char*>(values->data());
      if (comm.rank() == 0) from += bytes.copy(to, values->size() * sizeof(float), from);
      broadcast<float>(comm, *values, 0);
    }
    return state;
  });
}

// Rank 0 calls write(bytes), which may throw; all ranks learn of it.
inline AnyFile saved_by_rank_0(const Communicator& comm, const std::string& path,
                               const std::function<void(const std::string&)>& write) {
  return std::make_unique<ChangedFile>(comm, path,
                                       [&comm, path, write](const TrainingState& state) {
                                         bool written = true;
                                         try {
                                           if (comm.rank() == 0) write(bytes_of(state));
                                         } catch (const std::exception&) {
                                           written = false;
                                         }
                                         if (!comm.all_agree(written))
                                           throw Error(path + " cannot be written");
                                       });
}

// Saves what remains of the values when they are written as text with this many digits.
inline AnyFile with_digits(const Communicator& comm, const std::string& path, int digits) {
  return std::make_unique<ChangedFile>(comm, path, [&comm, path, digits](TrainingState state) {
    for (auto* values : {&state.parameters, &state.momentum}) {
      for (float& value : *values) {
        value = std::strtof(fmt::format("{:.{}g}", value, digits).c_str(), nullptr);
      }
    }
    StateFile(comm, path).save(state);
  });
}

// == in-pieces | done
// Rank 0 parses the file, and broadcasts the lengths and the values. This is also right.
inline AnyFile checkpoint_in_pieces(const Communicator& comm, const std::string& path) {
  return in_pieces(comm, path, Takes::whole_files);
}

// == all-write | rank-0-alone | one writer is enough
// Every rank writes.
inline AnyFile checkpoint_all_write(const Communicator& comm, const std::string& path) {
  return std::make_unique<ChangedFile>(comm, path, [&comm, path](const TrainingState& state) {
    StateFile(comm, path).save(state);
    if (comm.rank() != 0) write_file_at_once(path, bytes_of(state));
  });
}

// == no-lengths | everywhere | The other ranks do not know the lengths
// Broadcasts before the other ranks have resized their vectors.
inline AnyFile checkpoint_no_lengths(const Communicator& comm, const std::string& path) {
  return std::make_unique<ChangedFile>(comm, path, [&comm, path] {
    TrainingState state = StateFile(comm, path).load();
    if (comm.rank() != 0) state = {};  // these ranks do not know the lengths
    broadcast<float>(comm, state.parameters, 0);
    broadcast<float>(comm, state.momentum, 0);
    return state;
  });
}

// == text | values | in binary
// Prints the numbers with six digits instead of nine.
inline AnyFile checkpoint_text(const Communicator& comm, const std::string& path) {
  return with_digits(comm, path, 6);
}

// == momentum-on-0 | momentum | save it and broadcast it
// Only rank 0 loads the momentum.
inline AnyFile checkpoint_momentum_on_0(const Communicator& comm, const std::string& path) {
  return std::make_unique<ChangedFile>(comm, path, [&comm, path] {
    TrainingState state = StateFile(comm, path).load();
    if (comm.rank() != 0) state.momentum.assign(state.momentum.size(), 0.0F);
    return state;
  });
}

// == no-step | step | Save its 8 bytes and broadcast them
// Starts at step 0 again.
inline AnyFile checkpoint_no_step(const Communicator& comm, const std::string& path) {
  return std::make_unique<ChangedFile>(comm, path, [&comm, path] {
    TrainingState state = StateFile(comm, path).load();
    state.step = 0;
    return state;
  });
}

// == copies-over | at-once | If you write to the path itself
// Copies the temporary file over the old one.
inline AnyFile checkpoint_copies_over(const Communicator& comm, const std::string& path) {
  return std::make_unique<ChangedFile>(comm, path, [&comm, path](const TrainingState& state) {
    StateFile(comm, path + ".part").save(state);
    if (comm.rank() == 0) {
      std::filesystem::copy_file(path + ".part", path,
                                 std::filesystem::copy_options::overwrite_existing);
      std::filesystem::remove(path + ".part");
    }
    comm.barrier();
  });
}

// == keeps-old | at-once | and rename it to the path when it is complete
// Moves the old file away, so for a moment there is no file.
inline AnyFile checkpoint_keeps_old(const Communicator& comm, const std::string& path) {
  return std::make_unique<ChangedFile>(comm, path, [&comm, path](const TrainingState& state) {
    std::error_code ignored;
    if (comm.rank() == 0) std::filesystem::rename(path, path + ".old", ignored);
    StateFile(comm, path).save(state);
  });
}

// == removes-first | at-once | and rename it to the path when it is complete
// Removes the old file before it renames the new one: killed in between, no checkpoint is left.
inline AnyFile checkpoint_removes_first(const Communicator& comm, const std::string& path) {
  return saved_by_rank_0(comm, path, [path](const std::string& bytes) {
    write_file_at_once(path + ".part", bytes);
    std::filesystem::remove(path);
    std::filesystem::rename(path + ".part", path);
  });
}

// == from-elsewhere | at-once | a temporary file in the same folder
// Writes the temporary file to a folder that may be on another disk.
inline AnyFile checkpoint_from_elsewhere(const Communicator& comm, const std::string& path) {
  return saved_by_rank_0(comm, path, [path](const std::string& bytes) {
    const std::string part = std::filesystem::temp_directory_path() / "state.part";
    write_file_at_once(part, bytes);
    std::filesystem::rename(part, path);
  });
}

// == also-a-note | one-file | no need to move anything first
// Writes a second file.
inline AnyFile checkpoint_also_a_note(const Communicator& comm, const std::string& path) {
  return saved_by_rank_0(comm, path, [path](const std::string& bytes) {
    write_file_at_once(path, bytes);
    write_file_at_once(path + ".note", "complete");
  });
}

// == leaves-its-part | full-disk | remove the temporary file
// Finds out that it could not write, but leaves what it has written.
inline AnyFile checkpoint_leaves_its_part(const Communicator& comm, const std::string& path) {
  return saved_by_rank_0(comm, path, [path](const std::string& bytes) {
    std::ofstream file(path + ".part", std::ios::binary);
    file << bytes;
    file.close();
    if (!file) throw Error(path + " cannot be written");
    std::filesystem::rename(path + ".part", path);
  });
}

// == others-go-on | there-on-return | the other ranks must wait in save
// The other ranks return before the file exists.
inline AnyFile checkpoint_others_go_on(const Communicator& comm, const std::string& path) {
  return std::make_unique<ChangedFile>(comm, path, [&comm, path](const TrainingState& state) {
    if (comm.rank() == 0) write_file_at_once(path, bytes_of(state));
  });
}

// == unasked | no-folder | A save that fails silently
// Does not check whether the stream could write.
inline AnyFile checkpoint_unasked(const Communicator& comm, const std::string& path) {
  return std::make_unique<ChangedFile>(comm, path, [&comm, path](const TrainingState& state) {
    if (comm.rank() == 0) {
      std::ofstream(path + ".part", std::ios::binary) << bytes_of(state);
      std::error_code ignored;
      std::filesystem::rename(path + ".part", path, ignored);
    }
    comm.barrier();
  });
}

// == save-alone | no-folder | only rank 0 threw an Error
// Only rank 0 throws if it cannot write.
inline AnyFile checkpoint_save_alone(const Communicator& comm, const std::string& path) {
  return std::make_unique<ChangedFile>(comm, path, [&comm, path](const TrainingState& state) {
    if (comm.rank() == 0) write_file_at_once(path, bytes_of(state));
    comm.barrier();
  });
}

// == load-alone | no-file | only rank 0 knows
// Only rank 0 throws if there is no file.
inline AnyFile checkpoint_load_alone(const Communicator& comm, const std::string& path) {
  return std::make_unique<ChangedFile>(comm, path, [&comm, path] {
    const bool there = comm.rank() != 0 || std::filesystem::exists(path);
    if (!there) throw Error(path + " does not exist");
    return StateFile(comm, path).load();
  });
}

// == takes-torn | torn | compare that with the file's size
// Accepts a file that is too short.
inline AnyFile checkpoint_takes_torn(const Communicator& comm, const std::string& path) {
  return in_pieces(comm, path, Takes::shorter);
}

// == takes-longer | torn | compare that with the file's size
// Ignores extra bytes at the end.
inline AnyFile checkpoint_takes_longer(const Communicator& comm, const std::string& path) {
  return in_pieces(comm, path, Takes::longer);
}

// == takes-foreign | foreign | start your file with a number of your choice
// Accepts any file whose lengths fit.
inline AnyFile checkpoint_takes_foreign(const Communicator& comm, const std::string& path) {
  return in_pieces(comm, path, Takes::foreign);
}

// == eight-digits | resume | one of them differs
// Prints the numbers with eight digits instead of nine: enough for most of them, but not all.
inline AnyFile checkpoint_eight_digits(const Communicator& comm, const std::string& path) {
  return with_digits(comm, path, 8);
}

}  // namespace dist::exercise
