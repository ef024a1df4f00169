// Right and wrong checkpoints. The wrong ones change one thing of a right one.
#include "tests/exercises/05_ddp_training/reference/checkpoint.hpp"

#include "common/output_file.hpp"
#include "tests/exercises/05_ddp_training/scratch_folder.hpp"
#include "tests/exercises/05_ddp_training/solutions/solutions.hpp"

#include <cstring>
#include <sstream>

namespace dist::exercise {
namespace {

using Numbers = std::array<std::uint64_t, 4>;
constexpr std::uint64_t kMark = 20240117;

// Right, differently written: the file's bytes travel, and every rank reads them for itself; so
// all of them find the same mistakes.
class Bytes : public CheckpointFile {
 public:
  Bytes(const Communicator& comm, std::string path) : comm_(comm), path_(std::move(path)) {}

  void save(const TrainingState& state) override {
    bool written = true;
    if (comm_.rank() == 0) {
      try {
        write(packed(state));
      } catch (const Error&) {
        written = false;
      }
    }
    if (!comm_.all_agree(written)) throw Error(path_ + ": cannot be written");
  }
  TrainingState load() override { return unpacked(fetch()); }

 protected:
  virtual void write(const std::string& bytes) { write_file_at_once(path_, bytes); }

  virtual std::string packed(const TrainingState& state) const {
    const Numbers numbers{kMark, state.parameters.size(), state.momentum.size(), state.step};
    std::string bytes(reinterpret_cast<const char*>(numbers.data()), sizeof(numbers));
    for (const auto* values : {&state.parameters, &state.momentum}) {
      bytes.append(reinterpret_cast<const char*>(values->data()),
                   values->size() * sizeof(float));
    }
    return bytes;
  }
  virtual TrainingState unpacked(const std::string& bytes) const {
    const Numbers numbers = numbers_of(bytes);
    if (numbers[0] != kMark) throw Error(path_ + ": is none of ours");
    const std::uint64_t most = bytes.size();
    if (numbers[1] > most || numbers[2] > most ||
        sizeof(numbers) + (numbers[1] + numbers[2]) * sizeof(float) != bytes.size()) {
      throw Error(path_ + ": is torn");
    }
    return state_of(numbers, bytes);
  }

  Numbers numbers_of(const std::string& bytes) const {
    Numbers numbers{};
    if (bytes.size() < sizeof(numbers)) throw Error(path_ + ": is no checkpoint");
    std::memcpy(numbers.data(), bytes.data(), sizeof(numbers));
    return numbers;
  }
  // What is not in `bytes` stays 0.
  static TrainingState state_of(const Numbers& numbers, const std::string& bytes) {
    TrainingState state;
    state.parameters.resize(numbers[1]);
    state.momentum.resize(numbers[2]);
    state.step = numbers[3];
    std::size_t from = sizeof(numbers);
    for (auto* values : {&state.parameters, &state.momentum}) {
      const std::size_t want = values->size() * sizeof(float);
      const std::size_t have = std::min(want, bytes.size() - std::min(from, bytes.size()));
      if (have > 0) std::memcpy(values->data(), bytes.data() + from, have);
      from += want;
    }
    return state;
  }
  // Rank 0's bytes on all ranks; none if it cannot read any.
  std::string fetch() const {
    std::string bytes = comm_.rank() == 0 ? bytes_of_file(path_) : "";
    std::array<std::uint64_t, 1> length{bytes.size()};
    broadcast<std::uint64_t>(comm_, length, 0);
    bytes.resize(length[0]);
    std::vector<std::uint8_t> message(bytes.begin(), bytes.end());
    MPI_CHECK(MPI_Bcast(message.data(), mpi_count(message.size()), MPI_BYTE, 0, comm_.get()));
    return {message.begin(), message.end()};
  }

  const Communicator& comm_;
  std::string path_;
};

class AllRanksWrite : public Bytes {
  using Bytes::Bytes;
  void save(const TrainingState& state) override {
    write(packed(state));
    comm_.barrier();
  }
};

class EachLoadsItsOwn : public Bytes {
  using Bytes::Bytes;
  TrainingState load() override { return unpacked(bytes_of_file(path_)); }
};

// The others have no idea how much is coming.
class SendsNoLengths : public Bytes {
  using Bytes::Bytes;
  TrainingState load() override {
    TrainingState state;
    if (comm_.rank() == 0) state = unpacked(bytes_of_file(path_));
    broadcast<float>(comm_, state.parameters, 0);
    broadcast<float>(comm_, state.momentum, 0);
    return state;
  }
};

class WritesText : public Bytes {
  using Bytes::Bytes;
  std::string packed(const TrainingState& state) const override {
    std::ostringstream text;
    text << "state " << state.parameters.size() << ' ' << state.momentum.size() << ' '
         << state.step;
    for (const float value : state.parameters) text << ' ' << value;
    for (const float value : state.momentum) text << ' ' << value;
    return text.str() + " end";
  }
  TrainingState unpacked(const std::string& bytes) const override {
    std::istringstream text(bytes);
    std::string word;
    std::array<std::size_t, 2> counts{};
    TrainingState state;
    text >> word >> counts[0] >> counts[1] >> state.step;
    if (!text || word != "state") throw Error(path_ + ": is no checkpoint");
    state.parameters.resize(counts[0]);
    state.momentum.resize(counts[1]);
    for (float& value : state.parameters) text >> value;
    for (float& value : state.momentum) text >> value;
    if (!(text >> word) || word != "end") throw Error(path_ + ": is torn");
    return state;
  }
};

class ForgetsMomentum : public Bytes {
  using Bytes::Bytes;
  std::string packed(const TrainingState& state) const override {
    TrainingState without = state;
    without.momentum.assign(state.momentum.size(), 0.0F);
    return Bytes::packed(without);
  }
};

// Rank 0 goes on with its momentum, the others with zeros.
class KeepsMomentumToItself : public Bytes {
  using Bytes::Bytes;
  TrainingState load() override {
    TrainingState state = Bytes::load();
    if (comm_.rank() != 0) state.momentum.assign(state.momentum.size(), 0.0F);
    return state;
  }
};

class ForgetsTheStep : public Bytes {
  using Bytes::Bytes;
  TrainingState load() override {
    TrainingState state = Bytes::load();
    state.step = 0;
    return state;
  }
};

class WritesInPlace : public Bytes {
  using Bytes::Bytes;
  void write(const std::string& bytes) override {
    std::ofstream file(path_, std::ios::binary);
    if (!(file << bytes)) throw Error(path_ + ": cannot be written");
  }
};

// Copies the temporary file over the old one: that is written into again.
class CopiesTheTemporary : public Bytes {
  using Bytes::Bytes;
  void write(const std::string& bytes) override {
    write_file_at_once(path_ + ".part", bytes);
    std::filesystem::copy_file(path_ + ".part", path_,
                               std::filesystem::copy_options::overwrite_existing);
    std::filesystem::remove(path_ + ".part");
  }
};

// Moves the old file away first: for a moment there is none, and then there are two.
class KeepsABackup : public Bytes {
  using Bytes::Bytes;
  void write(const std::string& bytes) override {
    std::error_code ignored;
    std::filesystem::rename(path_, path_ + ".old", ignored);
    write_file_at_once(path_, bytes);
  }
};

class OthersGoOn : public Bytes {
  using Bytes::Bytes;
  void save(const TrainingState& state) override {
    if (comm_.rank() == 0) write(packed(state));
  }
};

// A stream says nothing by itself when it could not be opened.
class AsksNoStream : public Bytes {
  using Bytes::Bytes;
  void write(const std::string& bytes) override {
    std::ofstream(path_ + ".part", std::ios::binary) << bytes;
    std::error_code ignored;
    std::filesystem::rename(path_ + ".part", path_, ignored);
  }
};

class ThrowsAloneInSave : public Bytes {
  using Bytes::Bytes;
  void save(const TrainingState& state) override {
    if (comm_.rank() == 0) write(packed(state));
    comm_.barrier();
  }
};

class ThrowsAloneInLoad : public Bytes {
  using Bytes::Bytes;
  TrainingState load() override {
    if (comm_.rank() == 0) unpacked(bytes_of_file(path_));
    return Bytes::load();
  }
};

// Reads as much as there is.
class TakesTorn : public Bytes {
  using Bytes::Bytes;
  TrainingState unpacked(const std::string& bytes) const override {
    const Numbers numbers = numbers_of(bytes);
    if (numbers[0] != kMark) throw Error(path_ + ": is none of ours");
    return state_of(numbers, bytes);
  }
};

class TakesLonger : public Bytes {
  using Bytes::Bytes;
  TrainingState unpacked(const std::string& bytes) const override {
    const Numbers numbers = numbers_of(bytes);
    const std::size_t end = sizeof(numbers) + (numbers[1] + numbers[2]) * sizeof(float);
    return Bytes::unpacked(bytes.substr(0, end));
  }
};

// Sizes that fit are enough: a file of zeros is then a model without parameters.
class TakesForeign : public Bytes {
  using Bytes::Bytes;
  TrainingState unpacked(const std::string& bytes) const override {
    Numbers numbers = numbers_of(bytes);
    numbers[0] = kMark;
    std::string marked(reinterpret_cast<const char*>(numbers.data()), sizeof(numbers));
    return Bytes::unpacked(marked + bytes.substr(sizeof(numbers)));
  }
};

template <class File>
std::unique_ptr<CheckpointFile> make(const Communicator& comm, const std::string& path) {
  return std::make_unique<File>(comm, path);
}

}  // namespace

std::vector<Solution> checkpoint_solutions() {
  const auto known = [](const char* name, const Checkpoints& solution) {
    return Solution{"checkpoint", name, checks_of_checkpoint(solution)};
  };
  return {
      known("reference", checkpoint),
      known("bytes", make<Bytes>),
      known("all-write", make<AllRanksWrite>),
      known("loads-its-own", make<EachLoadsItsOwn>),
      known("no-lengths", make<SendsNoLengths>),
      known("text", make<WritesText>),
      known("no-momentum", make<ForgetsMomentum>),
      known("momentum-on-0", make<KeepsMomentumToItself>),
      known("no-step", make<ForgetsTheStep>),
      known("in-place", make<WritesInPlace>),
      known("copies-over", make<CopiesTheTemporary>),
      known("keeps-old", make<KeepsABackup>),
      known("others-go-on", make<OthersGoOn>),
      known("unasked", make<AsksNoStream>),
      known("save-alone", make<ThrowsAloneInSave>),
      known("load-alone", make<ThrowsAloneInLoad>),
      known("takes-torn", make<TakesTorn>),
      known("takes-longer", make<TakesLonger>),
      known("takes-foreign", make<TakesForeign>),
  };
}

}  // namespace dist::exercise
