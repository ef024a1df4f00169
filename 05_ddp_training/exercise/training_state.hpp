// What `checkpoint` saves, and the interface that it implements. This file is complete.
#pragma once

#include <cstdint>
#include <vector>

namespace dist::exercise {

// Everything that the next step of a small training run depends on.
struct TrainingState {
  std::vector<float> parameters;
  std::vector<float> momentum;  // the optimizer's state
  std::uint64_t step = 0;       // steps done
};

class CheckpointFile {
 public:
  virtual ~CheckpointFile() = default;
  virtual void save(const TrainingState& state) = 0;
  virtual TrainingState load() = 0;
};

}  // namespace dist::exercise
