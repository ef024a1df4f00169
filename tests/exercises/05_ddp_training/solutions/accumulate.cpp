// Right and wrong ways to take a batch in parts.
#include "tests/exercises/05_ddp_training/reference/accumulate.hpp"

#include "tests/exercises/05_ddp_training/reference/sync_gradients.hpp"
#include "tests/exercises/05_ddp_training/solutions/solutions.hpp"

#include <algorithm>

namespace dist::exercise {
namespace {

// Sums of the gradients' shape, and what is done with them.
class Sums {
 public:
  explicit Sums(const Gradients& gradients) : gradients_(gradients) {
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
  const Gradients& gradients_;
  std::vector<std::vector<float>> sums_;
};

float over(std::size_t parts) {
  return 1.0F / static_cast<float>(parts);
}

// Right, differently written: sums of the gradients' own shape, then the base exercise.
void by_sync_gradients(const Communicator& comm, std::size_t parts, const Gradients& gradients,
                       const Backward& backward) {
  Sums sums(gradients);
  for (std::size_t k = 0; k < parts; ++k) {
    backward(k);
    sums.add();
  }
  sums.put_back(over(parts));
  sync_gradients(comm, gradients);
}

void last_one_only(const Communicator& comm, std::size_t parts, const Gradients& gradients,
                   const Backward& backward) {
  for (std::size_t k = 0; k < parts; ++k) backward(k);
  sync_gradients(comm, gradients);
}

void one_too_few(const Communicator& comm, std::size_t parts, const Gradients& gradients,
                 const Backward& backward) {
  Sums sums(gradients);
  for (std::size_t k = 0; k + 1 < parts || k == 0; ++k) {
    backward(k);
    sums.add();
  }
  sums.put_back(over(parts));
  sync_gradients(comm, gradients);
}

void communicates_each_time(const Communicator& comm, std::size_t parts,
                            const Gradients& gradients, const Backward& backward) {
  Sums sums(gradients);
  for (std::size_t k = 0; k < parts; ++k) {
    backward(k);
    sync_gradients(comm, gradients);
    sums.add();
  }
  sums.put_back(over(parts));
}

void forgets_k(const Communicator& comm, std::size_t parts, const Gradients& gradients,
               const Backward& backward) {
  Sums sums(gradients);
  for (std::size_t k = 0; k < parts; ++k) {
    backward(k);
    sums.add();
  }
  sums.put_back(1);
  sync_gradients(comm, gradients);
}

void divides_by_k_twice(const Communicator& comm, std::size_t parts, const Gradients& gradients,
                        const Backward& backward) {
  Sums sums(gradients);
  for (std::size_t k = 0; k < parts; ++k) {
    backward(k);
    sums.add();
  }
  sums.put_back(over(parts) * over(parts));
  sync_gradients(comm, gradients);
}

void divides_by_n_twice(const Communicator& comm, std::size_t parts, const Gradients& gradients,
                        const Backward& backward) {
  Sums sums(gradients);
  for (std::size_t k = 0; k < parts; ++k) {
    backward(k);
    sums.add();
  }
  sums.put_back(over(parts) / static_cast<float>(comm.size()));
  sync_gradients(comm, gradients);
}

// The step before left its gradients there.
void adds_to_what_is_there(const Communicator& comm, std::size_t parts,
                           const Gradients& gradients, const Backward& backward) {
  Sums sums(gradients);
  sums.add();
  for (std::size_t k = 0; k < parts; ++k) {
    backward(k);
    sums.add();
  }
  sums.put_back(over(parts));
  sync_gradients(comm, gradients);
}

// One message, but the last micro-batch is not in it.
void sends_before_the_last(const Communicator& comm, std::size_t parts,
                           const Gradients& gradients, const Backward& backward) {
  if (parts == 1) return accumulate(comm, parts, gradients, backward);
  Sums sums(gradients);
  for (std::size_t k = 0; k + 1 < parts; ++k) {
    backward(k);
    sums.add();
  }
  sums.put_back(1);
  sync_gradients(comm, gradients);
  Sums all(gradients);
  all.add();
  backward(parts - 1);
  all.add();
  all.put_back(over(parts));
}

// The mean of the mean so far and the next: the last micro-batch weighs a half.
void running_mean(const Communicator& comm, std::size_t parts, const Gradients& gradients,
                  const Backward& backward) {
  backward(0);
  for (std::size_t k = 1; k < parts; ++k) {
    Sums sums(gradients);
    sums.add();
    backward(k);
    sums.add();
    sums.put_back(0.5F);
  }
  sync_gradients(comm, gradients);
}

void per_parameter(const Communicator& comm, std::size_t parts, const Gradients& gradients,
                   const Backward& backward) {
  Sums sums(gradients);
  for (std::size_t k = 0; k < parts; ++k) {
    backward(k);
    sums.add();
  }
  sums.put_back(over(parts));
  for (const auto& gradient : gradients) {
    all_reduce<float>(comm, gradient, ReduceOp::avg, AllReduceAlgorithm::ring);
  }
}

// Keeps all micro-batches, and sends them all in one message.
void sends_them_all(const Communicator& comm, std::size_t parts, const Gradients& gradients,
                    const Backward& backward) {
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

}  // namespace

std::vector<Solution> accumulate_solutions() {
  const auto known = [](const char* name, const Accumulates& solution) {
    return Solution{"accumulate", name, checks_of_accumulate(solution)};
  };
  return {
      known("reference", accumulate),
      known("by-sync", by_sync_gradients),
      known("last-only", last_one_only),
      known("one-too-few", one_too_few),
      known("each-time", communicates_each_time),
      known("forgets-k", forgets_k),
      known("k-twice", divides_by_k_twice),
      known("n-twice", divides_by_n_twice),
      known("adds-to-old", adds_to_what_is_there),
      known("before-the-last", sends_before_the_last),
      known("running-mean", running_mean),
      known("per-parameter", per_parameter),
      known("sends-all", sends_them_all),
  };
}

}  // namespace dist::exercise
