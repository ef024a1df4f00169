// What `checkpoint` saves, and the interface that it implements. Given: nothing to fill in.
#pragma once

#include <cstdint>
#include <vector>

namespace dist::exercise {

// All that the next step of a small training depends on.
struct TrainingState {
  std::vector<float> parameters;
  std::vector<float> momentum;  // the optimizer's memory
  std::uint64_t step = 0;       // steps done
};

class CheckpointFile {
 public:
  virtual ~CheckpointFile() = default;
  virtual void save(const TrainingState& state) = 0;
  virtual TrainingState load() = 0;
};

}  // namespace dist::exercise
