// Solutions to lesson 5's exercises, except edited copies of others (see solutions.txt).
#pragma once

#include "02_broadcast/broadcast.hpp"
#include "03_all_reduce/all_reduce.hpp"
#include "03_all_reduce/ring.hpp"
#include "05_ddp_training/exercise/gradient_sync.hpp"
#include "05_ddp_training/exercise/training_state.hpp"
#include "common/atomic_file.hpp"
#include "common/check.hpp"
#include "common/communicator.hpp"
#include "common/stream.hpp"
#include "tests/exercises/05_ddp_training/scratch_folder.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#if DIST_WITH_NCCL
#include "01_send_recv/gpu/nccl_communicator.hpp"
#include "common/check_cuda.hpp"
#include "common/tensor.hpp"
#endif

namespace dist::exercise {

// == sync_gradients/reference
// Lesson 3's all-reduce, with a copy before and after it. The lesson needs no
// copies, because its gradients are views of the message (see Reducer).
inline void sync_gradients_reference(const Communicator& comm,
                                     const std::vector<std::span<float>>& gradients) {
  std::vector<float> message;
  for (const auto& from : gradients) message.insert(message.end(), from.begin(), from.end());
  all_reduce<float>(comm, message, ReduceOp::avg, AllReduceAlgorithm::ring);
  auto next = message.cbegin();
  for (const auto& to : gradients) {
    const auto end = next + static_cast<std::ptrdiff_t>(to.size());
    std::copy(next, end, to.begin());
    next = end;
  }
}

// == sync_gradients/by-offsets
// Right, but written differently: keeps an offset, and calls the two halves of the ring.
inline void sync_gradients_by_offsets(const Communicator& comm,
                                      const std::vector<std::span<float>>& gradients) {
  std::size_t total = 0;
  for (const auto& gradient : gradients) total += gradient.size();
  std::vector<float> message(total);
  std::size_t offset = 0;
  for (const auto& gradient : gradients) {
    for (const float value : gradient) message[offset++] = value;
  }
  ring_reduce_scatter<float>(comm, message, ReduceOp::avg);
  ring_all_gather<float>(comm, message);
  offset = 0;
  for (const auto& gradient : gradients) {
    for (float& value : gradient) value = message[offset++];
  }
}

// == sync_gradients/padded
// Packs the gradients into a table whose rows are all as long as the longest gradient.
inline void sync_gradients_padded(const Communicator& comm,
                                  const std::vector<std::span<float>>& gradients) {
  std::size_t longest = 0;
  for (const auto& gradient : gradients) longest = std::max(longest, gradient.size());
  std::vector<float> message(longest * gradients.size());
  for (std::size_t k = 0; k < gradients.size(); ++k) {
    std::ranges::copy(gradients[k], message.begin() + static_cast<std::ptrdiff_t>(k * longest));
  }
  all_reduce<float>(comm, message, ReduceOp::avg, AllReduceAlgorithm::ring);
  for (std::size_t k = 0; k < gradients.size(); ++k) {
    std::ranges::copy(std::span(message).subspan(k * longest, gradients[k].size()),
                      gradients[k].begin());
  }
}

// == accumulate/reference
// Sums the gradients in one flat message and averages it once.
inline void accumulate_reference(const Communicator& comm, std::size_t parts,
                                 const std::vector<std::span<float>>& gradients,
                                 const std::function<void(std::size_t k)>& backward) {
  std::size_t total = 0;
  for (const auto& gradient : gradients) total += gradient.size();
  std::vector<float> sums(total);
  for (std::size_t k = 0; k < parts; ++k) {
    backward(k);
    std::size_t next = 0;
    for (const auto& gradient : gradients) {
      for (const float value : gradient) sums[next++] += value / static_cast<float>(parts);
    }
  }
  all_reduce<float>(comm, sums, ReduceOp::avg, AllReduceAlgorithm::ring);
  std::size_t next = 0;
  for (const auto& gradient : gradients) {
    for (float& value : gradient) value = sums[next++];
  }
}

// == helpers
// Sums with the same lengths as the gradients.
class Sums {
 public:
  explicit Sums(const std::vector<std::span<float>>& gradients) : gradients_(gradients) {
    for (const auto& gradient : gradients) sums_.emplace_back(gradient.size(), 0.0F);
  }
  void add() {
    for (std::size_t g = 0; g < sums_.size(); ++g) {
      for (std::size_t i = 0; i < sums_[g].size(); ++i) sums_[g][i] += gradients_[g][i];
    }
  }
  void put_back(float factor) const {
    for (std::size_t g = 0; g < sums_.size(); ++g) {
      for (std::size_t i = 0; i < sums_[g].size(); ++i) gradients_[g][i] = factor * sums_[g][i];
    }
  }

 private:
  const std::vector<std::span<float>>& gradients_;
  std::vector<std::vector<float>> sums_;
};

inline float over(std::size_t parts) {
  return 1.0F / static_cast<float>(parts);
}

// == accumulate/by-sync
// Right, but written differently: keeps one sum per gradient, then calls the base exercise.
inline void accumulate_by_sync(const Communicator& comm, std::size_t parts,
                               const std::vector<std::span<float>>& gradients,
                               const std::function<void(std::size_t k)>& backward) {
  Sums sums(gradients);
  for (std::size_t k = 0; k < parts; ++k) {
    backward(k);
    sums.add();
  }
  sums.put_back(over(parts));
  sync_gradients_reference(comm, gradients);
}

// == accumulate/before-the-last
// Sends one message, but without the last micro-batch.
inline void accumulate_before_the_last(const Communicator& comm, std::size_t parts,
                                       const std::vector<std::span<float>>& gradients,
                                       const std::function<void(std::size_t k)>& backward) {
  if (parts == 1) return accumulate_reference(comm, parts, gradients, backward);
  Sums sums(gradients);
  for (std::size_t k = 0; k + 1 < parts; ++k) {
    backward(k);
    sums.add();
  }
  sums.put_back(1);
  sync_gradients_reference(comm, gradients);
  Sums all(gradients);
  all.add();
  backward(parts - 1);
  all.add();
  all.put_back(over(parts));
}

// == accumulate/running-mean
// The mean of the previous mean and the next micro-batch, so the last micro-batch has a weight
// of one half.
inline void accumulate_running_mean(const Communicator& comm, std::size_t parts,
                                    const std::vector<std::span<float>>& gradients,
                                    const std::function<void(std::size_t k)>& backward) {
  backward(0);
  for (std::size_t k = 1; k < parts; ++k) {
    Sums sums(gradients);
    sums.add();
    backward(k);
    sums.add();
    sums.put_back(0.5F);
  }
  sync_gradients_reference(comm, gradients);
}

// == accumulate/sends-all
// Keeps all micro-batches and sends them in one message.
inline void accumulate_sends_all(const Communicator& comm, std::size_t parts,
                                 const std::vector<std::span<float>>& gradients,
                                 const std::function<void(std::size_t k)>& backward) {
  std::vector<float> message;
  for (std::size_t k = 0; k < parts; ++k) {
    backward(k);
    for (const auto& gradient : gradients) {
      message.insert(message.end(), gradient.begin(), gradient.end());
    }
  }
  all_reduce<float>(comm, message, ReduceOp::avg, AllReduceAlgorithm::ring);
  const std::size_t total = message.size() / parts;
  std::size_t next = 0;
  for (const auto& gradient : gradients) {
    for (float& value : gradient) {
      value = 0;
      for (std::size_t k = 0; k < parts; ++k) value += message[k * total + next] * over(parts);
      ++next;
    }
  }
}

// == overlap/reference
// The reference. In the lesson's Reducer, the gradients are views of the messages, so nothing
// is copied.
class BucketedSync : public GradientSync {
 public:
  BucketedSync(ProcessGroup& group, std::vector<Gradient> gradients, BucketPlan plan,
               const Stream& compute)
      : group_(group),
        gradients_(std::move(gradients)),
        plan_(std::move(plan)),
        compute_(compute),
        ready_(gradients_.size(), false),
        works_(plan_.size()) {
    for (const auto& bucket : plan_) {
      std::size_t count = 0;
      for (const std::size_t index : bucket) count += gradients_[index].values.size();
      messages_.push_back(group_.allocate({count}));
    }
  }

  void mark_ready(std::size_t index) override {
    ready_[index] = true;
    while (next_ < plan_.size() && is_full(next_)) start(next_++);
  }

  void finalize() override {
    for (std::size_t i = 0; i < gradients_.size(); ++i) {
      if (!ready_[i]) throw Error("the gradient of " + gradients_[i].name + " is missing");
    }
    for (std::size_t b = 0; b < plan_.size(); ++b) {
      works_[b]->wait(compute_);
      const float* from = messages_[b].data();
      for (const std::size_t index : plan_[b]) {
        const auto& values = gradients_[index].values;
        std::copy_n(from, values.size(), values.begin());
        from += values.size();
      }
    }
    ready_.assign(ready_.size(), false);
    next_ = 0;
  }

 private:
  bool is_full(std::size_t bucket) const {
    return std::ranges::all_of(plan_[bucket], [&](std::size_t index) { return ready_[index]; });
  }
  void start(std::size_t bucket) {
    float* to = messages_[bucket].data();
    for (const std::size_t index : plan_[bucket]) {
      to = std::ranges::copy(gradients_[index].values, to).out;
    }
    works_[bucket] = group_.all_reduce(messages_[bucket], ReduceOp::avg, compute_);
  }

  ProcessGroup& group_;
  std::vector<Gradient> gradients_;
  BucketPlan plan_;
  const Stream& compute_;
  std::vector<Tensor> messages_;
  std::vector<bool> ready_;
  std::vector<std::unique_ptr<Work>> works_;
  std::size_t next_{0};  // the next bucket to start
};

inline std::unique_ptr<GradientSync> overlap_reference(ProcessGroup& group,
                                                       std::vector<Gradient> gradients,
                                                       BucketPlan plan, const Stream& compute) {
  return std::make_unique<BucketedSync>(group, std::move(gradients), std::move(plan), compute);
}

// == overlap/counting
// Right, but written differently: counts the gradients that each bucket is missing, and copies
// them into the message as they become ready.
class Counting : public GradientSync {
 public:
  Counting(ProcessGroup& group, std::vector<Gradient> gradients, BucketPlan plan,
           const Stream& compute)
      : group_(group),
        gradients_(std::move(gradients)),
        plan_(std::move(plan)),
        compute_(compute),
        bucket_of_(gradients_.size()),
        place_(gradients_.size()),
        works_(plan_.size()) {
    for (std::size_t b = 0; b < plan_.size(); ++b) {
      std::size_t count = 0;
      for (const std::size_t index : plan_[b]) count += gradients_[index].values.size();
      messages_.push_back(group_.allocate({count}));
      std::size_t begin = 0;
      for (const std::size_t index : plan_[b]) {
        bucket_of_[index] = b;
        place_[index] = messages_[b].span().subspan(begin, gradients_[index].values.size());
        begin += gradients_[index].values.size();
      }
    }
    Counting::reset();
  }

  void mark_ready(std::size_t index) override {
    ready_[index] = true;
    std::ranges::copy(gradients_[index].values, place_[index].begin());
    --missing_[bucket_of_[index]];
    for (; next_ < plan_.size() && missing_[next_] == 0; ++next_) {
      works_[next_] = group_.all_reduce(messages_[next_], ReduceOp::avg, compute_);
    }
  }
  void finalize() override {
    for (std::size_t i = 0; i < ready_.size(); ++i) {
      if (!ready_[i]) throw Error(gradients_[i].name + " never became ready");
    }
    for (const auto& work : works_) work->wait(compute_);
    for (std::size_t i = 0; i < gradients_.size(); ++i) {
      std::ranges::copy(place_[i], gradients_[i].values.begin());
    }
    reset();
  }

 private:
  void reset() {
    ready_.assign(gradients_.size(), false);
    missing_.clear();
    for (const auto& bucket : plan_) missing_.push_back(bucket.size());
    next_ = 0;
  }

  ProcessGroup& group_;
  std::vector<Gradient> gradients_;
  BucketPlan plan_;
  const Stream& compute_;
  std::vector<std::size_t> bucket_of_;
  std::vector<std::span<float>> place_;  // each gradient's place in its message
  std::vector<bool> ready_;
  std::vector<Tensor> messages_;
  std::vector<std::unique_ptr<Work>> works_;
  std::vector<std::size_t> missing_;  // per bucket
  std::size_t next_ = 0;
};

inline std::unique_ptr<GradientSync> overlap_counting(ProcessGroup& group,
                                                      std::vector<Gradient> gradients,
                                                      BucketPlan plan, const Stream& compute) {
  return std::make_unique<Counting>(group, std::move(gradients), std::move(plan), compute);
}

// == checkpoint/reference
// A file of four numbers, followed by the values. The lesson's own checkpoint
// (05_ddp_training/checkpoint/checkpoint.hpp) is a safetensors file, so PyTorch can read it,
// and has a checksum.
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

inline std::unique_ptr<CheckpointFile> checkpoint_reference(const Communicator& comm,
                                                            const std::string& path) {
  return std::make_unique<StateFile>(comm, path);
}

// == checkpoint/bytes
// Right, but written differently. The wrong solutions are edited copies of this file.
using Numbers = std::array<std::uint64_t, 4>;
constexpr std::uint64_t kMark = 20240117;

// Broadcasts the file's bytes. Every rank parses them, so all ranks find the same mistakes.
class BytesFile : public CheckpointFile {
 public:
  BytesFile(const Communicator& comm, std::string path) : comm_(comm), path_(std::move(path)) {}

  void save(const TrainingState& state) override {
    bool written = true;
    if (comm_.rank() == 0) {
      try {
        write(packed(state));
      } catch (const Error&) {
        written = false;
      }
    }
    if (!comm_.all_agree(written)) throw Error(path_ + " cannot be written");
  }
  TrainingState load() override { return unpacked(fetch()); }

 private:
  void write(const std::string& bytes) { write_file_at_once(path_, bytes); }

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
    const Numbers numbers = numbers_of(bytes);
    if (numbers[0] != kMark) throw Error(path_ + " is not one of our files");
    const std::uint64_t most = bytes.size();
    if (numbers[1] > most || numbers[2] > most ||
        sizeof(numbers) + (numbers[1] + numbers[2]) * sizeof(float) != bytes.size()) {
      throw Error(path_ + " is torn");
    }
    return state_of(numbers, bytes);
  }

  Numbers numbers_of(const std::string& bytes) const {
    Numbers numbers{};
    if (bytes.size() < sizeof(numbers)) throw Error(path_ + " is not a checkpoint");
    std::memcpy(numbers.data(), bytes.data(), sizeof(numbers));
    return numbers;
  }
  // Values that are not in `bytes` stay 0.
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
  // On all ranks, returns the bytes that rank 0 reads; empty if rank 0 cannot read any.
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

inline std::unique_ptr<CheckpointFile> checkpoint_bytes(const Communicator& comm,
                                                        const std::string& path) {
  return std::make_unique<BytesFile>(comm, path);
}

#if DIST_WITH_NCCL

// == nccl_average/reference
// Lesson 5's NcclProcessGroup::all_reduce and its Work's wait, in one function.
inline void nccl_average_reference(NcclCommunicator& nccl, const Tensor& tensor,
                                   const Stream& compute, const Stream& communication) {
  communication.wait(compute.record_event());
  NCCL_CHECK(nccl, ncclAllReduce(tensor.data(), tensor.data(), tensor.numel(), ncclFloat,
                                 ncclAvg, nccl.get(), communication.get()));
  compute.wait(communication.record_event());
}

// == nccl_average/cuda-events
// Right: calls CUDA directly, and uses one event for both waits.
inline void nccl_average_cuda_events(NcclCommunicator& nccl, const Tensor& tensor,
                                     const Stream& compute, const Stream& communication) {
  cudaEvent_t event = nullptr;
  CUDA_CHECK(cudaEventCreate(&event));
  CUDA_CHECK(cudaEventRecord(event, compute.get()));
  CUDA_CHECK(cudaStreamWaitEvent(communication.get(), event, 0));
  NCCL_CHECK(nccl, ncclAllReduce(tensor.data(), tensor.data(), tensor.numel(), ncclFloat,
                                 ncclAvg, nccl.get(), communication.get()));
  CUDA_CHECK(cudaEventRecord(event, communication.get()));
  CUDA_CHECK(cudaStreamWaitEvent(compute.get(), event, 0));
  CUDA_CHECK(cudaEventDestroy(event));
}

#endif

}  // namespace dist::exercise
