// Lesson 1's part.
#define exercise exercise_1
#include "chosen_1.hpp"
#include "tools/mine/parts.hpp"

namespace dist::mine {

Part ring_shift_part{"ring_shift", 1, exercise::kYours};

void ring_shift(const Communicator& comm, std::span<const float> out, std::span<float> in) {
  run_part(ring_shift_part, [&] { exercise::ring_shift(comm, out, in); });
}

}  // namespace dist::mine
