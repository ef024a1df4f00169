// The parts of my_ddp_training: each calls the reader's exercise, or our solution of it, and
// compares what it does with the course's own function, bit for bit.
#pragma once

#include "01_send_recv/send_recv.hpp"
#include "02_broadcast/binomial_tree.hpp"
#include "03_all_reduce/all_reduce.hpp"
#include "03_all_reduce/ring.hpp"
#include "04_distributed_sampler/distributed_sampler.hpp"
#include "04_distributed_sampler/exercise/policy.hpp"
#include "05_ddp_training/data_parallel/bucket_plan.hpp"
#include "05_ddp_training/exercise/gradient_sync.hpp"
#include "05_ddp_training/exercise/training_state.hpp"
#include "common/watch.hpp"
#include "tools/exercises/confined.hpp"
#include "tools/exercises/not_started.hpp"

#include <mpi.h>

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <cstdio>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

namespace dist::mine {

struct Part {
  std::string_view name;  // of the exercise and its function
  int lesson;
  bool yours;
  std::uint64_t runs = 0;  // on this rank
  bool wrong = false;      // on this rank: the course's own function gave another result
};

// The parts build on each other: sync_gradients calls ring_all_reduce, which sends its messages
// with ring_shift.
void ring_shift(const Communicator& comm, std::span<const float> out, std::span<float> in);
void ring_all_reduce(const Communicator& comm, std::span<float> data);
}  // namespace dist::mine

// Lesson 3's part calls send_recv<float>(comm, out, comm.right(), in, comm.left()), and lesson
// 5's all_reduce<float>(comm, message, ReduceOp::avg, AllReduceAlgorithm::ring). Both get these
// overloads: they are more constrained than the lessons' own, so the compiler prefers them.
namespace dist::exercise::of_ring_all_reduce {
template <MpiScalar T>
requires std::same_as<T, float>
void send_recv(const Communicator& comm, std::span<const T> out, int dest, std::span<T> in,
               int source, int tag = 0) {
  if (dest == comm.right() && source == comm.left()) return mine::ring_shift(comm, out, in);
  dist::send_recv<T>(comm, out, dest, in, source, tag);
}
}  // namespace dist::exercise::of_ring_all_reduce

namespace dist::exercise::of_sync_gradients {
template <MpiScalar T>
requires std::same_as<T, float>
void all_reduce(const Communicator& comm, std::span<T> data, ReduceOp op,
                AllReduceAlgorithm algorithm = AllReduceAlgorithm::recursive_doubling) {
  if (op == ReduceOp::avg && algorithm == AllReduceAlgorithm::ring) {
    return mine::ring_all_reduce(comm, data);
  }
  dist::all_reduce<T>(comm, data, op, algorithm);
}
}  // namespace dist::exercise::of_sync_gradients
namespace dist::exercise::of_accumulate {
using of_sync_gradients::all_reduce;
}

#include "chosen.hpp"  // the exercises, each in a namespace of_NAME, and the table of parts

namespace dist::mine {

using Gradients = std::vector<std::span<float>>;

inline Part& part_called(std::string_view name) {
  return *std::ranges::find(parts, name, &Part::name);
}

inline std::vector<float> joined(const Gradients& gradients) {
  std::vector<float> all;
  for (const auto& each : gradients) all.insert(all.end(), each.begin(), each.end());
  return all;
}

template <class T>
void compare(Part& part, std::span<const T> result, const std::vector<T>& expected) {
  const auto wanted = std::as_bytes(std::span(expected));
  if (!std::ranges::equal(std::as_bytes(result), wanted)) part.wrong = true;
}

// Calls the part. Throws Error with its name if it throws.
void guarded(Part& part, const auto& call) {
  const std::string name = fmt::format("{} {}", part.yours ? "your" : "our", part.name);
  const CallScope scope(name);  // in a hang report
  const Confined confined(name.c_str(), [&](const std::string& what) {
    fmt::print(stderr, "WRONG: {} {}\n", name, what);
    std::fflush(nullptr);
    MPI_Abort(MPI_COMM_WORLD, 1);
  });
  ++part.runs;
  try {
    call();
  } catch (const NotStarted&) {
    throw Error(name + ": it calls something that is not written yet");
  } catch (const std::bad_alloc&) {
    throw Error(name + ": it ran out of memory");
  } catch (const std::exception& error) {
    throw Error(name + ": " + error.what());
  }
}

// Called on all ranks, as everything below. `call` calls the part, and returns what must be
// equal to `expected`.
template <class T>
void run(const Communicator& comm, std::string_view name, const std::vector<T>& expected,
         const auto& call) {
  Part& part = part_called(name);
  std::span<const T> result;
  guarded(part, [&] {
    result = call();
    comm.barrier();  // a message that this part did not send must not come from the next call
  });
  compare(part, result, expected);
}

inline void ring_shift(const Communicator& comm, std::span<const float> out,
                       std::span<float> in) {
  std::vector<float> expected(in.size());
  dist::send_recv<float>(comm, out, comm.right(), expected, comm.left());
  run(comm, "ring_shift", expected, [&] {
    exercise::of_ring_shift::ring_shift(comm, out, in);
    return in;
  });
}

inline void ring_all_reduce(const Communicator& comm, std::span<float> data) {
  std::vector<float> expected(data.begin(), data.end());
  dist::all_reduce_ring<float>(comm, expected, ReduceOp::avg);
  run(comm, "ring_all_reduce", expected, [&] {
    exercise::of_ring_all_reduce::ring_all_reduce(comm, data);
    return data;
  });
}

inline void tree_broadcast(const Communicator& comm, std::span<float> data, int root) {
  std::vector<float> expected(data.begin(), data.end());
  dist::broadcast_tree<float>(comm, expected, root);
  // In the opposite order, rank 0 is the last rank: a broadcast that ignores its root is found.
  const Communicator opposite = comm.split(0, comm.size() - comm.rank());
  run(comm, "tree_broadcast", expected, [&] {
    exercise::of_tree_broadcast::tree_broadcast(opposite, data, comm.size() - 1 - root);
    return data;
  });
}

// This rank's share of the epoch's `order`.
inline std::vector<std::size_t> my_indices(const Communicator& comm,
                                           const std::vector<std::size_t>& order,
                                           const std::vector<std::size_t>& expected) {
  std::vector<std::size_t> mine;
  run(comm, "my_indices", expected, [&] {
    mine = exercise::of_my_indices::my_indices(order, comm.size(), comm.rank(),
                                               exercise::Policy::pad);
    return std::span<const std::size_t>(mine);
  });
  return mine;
}

inline void sync_gradients(const Communicator& comm, const Gradients& gradients) {
  std::vector<float> expected = joined(gradients), result;
  dist::all_reduce_ring<float>(comm, expected, ReduceOp::avg);
  run(comm, "sync_gradients", expected, [&] {
    exercise::of_sync_gradients::sync_gradients(comm, gradients);
    result = joined(gradients);
    return std::span<const float>(result);
  });
}

inline void accumulate(const Communicator& comm, std::size_t micro_batches,
                       const Gradients& gradients,
                       const std::function<void(std::size_t)>& backward) {
  Part& part = part_called("accumulate");
  std::vector<float> expected(joined(gradients).size());
  guarded(part, [&] {
    exercise::of_accumulate::accumulate(comm, micro_batches, gradients, [&](std::size_t k) {
      backward(k);
      auto sum = expected.begin();
      for (const float each : joined(gradients)) {
        *sum++ += each / static_cast<float>(micro_batches);
      }
    });
    comm.barrier();
  });
  dist::all_reduce_ring<float>(comm, expected, ReduceOp::avg);
  compare<float>(part, joined(gradients), expected);
}

// Carries the gradients in buckets, while backward computes others.
class Overlap {
 public:
  Overlap(ProcessGroup& group, std::span<Parameter> parameters, const Stream& stream)
      : comm_(group.comm()) {
    std::vector<exercise::Gradient> named;
    for (const Parameter& p : parameters) {
      named.push_back({p.name, p.grad.span()});
      gradients_.push_back(p.grad.span());
    }
    for (const BucketPlan& bucket : plan_buckets(parameters, BucketCaps{})) {
      plan_.push_back(bucket.parameters);
    }
    guarded(part_, [&] {
      sync_ = exercise::of_overlap::overlap(group, std::move(named), plan_, stream);
    });
  }
  void mark_ready(std::size_t index) {
    guarded(part_, [&] { sync_->mark_ready(index); });
  }
  // With `compares`, sync_gradients must come to the same result.
  void finalize(bool compares) {
    std::vector<std::vector<float>> own;  // of each gradient
    for (const auto& each : gradients_) own.emplace_back(each.begin(), each.end());
    guarded(part_, [&] { sync_->finalize(); });
    for (const auto& bucket : plan_) {
      Gradients before, after;
      for (const std::size_t g : bucket) {
        before.emplace_back(own[g]);
        after.push_back(gradients_[g]);
      }
      std::vector<float> expected = joined(before);
      dist::all_reduce_ring<float>(comm_, expected, ReduceOp::avg);
      compare<float>(part_, joined(after), expected);
      if (compares) sync_gradients(comm_, before);
    }
  }

 private:
  const Communicator& comm_;
  Part& part_ = part_called("overlap");
  Gradients gradients_;
  exercise::BucketPlan plan_;
  std::unique_ptr<exercise::GradientSync> sync_;
};

// What a new process would load after `state` has been saved.
inline exercise::TrainingState there_and_back(const Communicator& comm, const std::string& path,
                                              const exercise::TrainingState& state) {
  Part& part = part_called("checkpoint");
  exercise::TrainingState loaded;
  guarded(part, [&] {
    exercise::of_checkpoint::checkpoint(comm, path)->save(state);
    loaded = exercise::of_checkpoint::checkpoint(comm, path)->load();
  });
  compare<float>(part, loaded.parameters, state.parameters);
  compare<float>(part, loaded.momentum, state.momentum);
  if (loaded.step != state.step) part.wrong = true;
  return loaded;
}
inline exercise::TrainingState loaded_from(const Communicator& comm, const std::string& path) {
  exercise::TrainingState loaded;
  guarded(part_called("checkpoint"),
          [&] { loaded = exercise::of_checkpoint::checkpoint(comm, path)->load(); });
  return loaded;
}

}  // namespace dist::mine
