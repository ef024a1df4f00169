// Lesson 3's part, which sends its messages with lesson 1's part.
#define exercise exercise_3
#include "01_send_recv/send_recv.hpp"
#include "tools/mine/parts.hpp"

#include <concepts>

namespace dist::exercise {

// The ring's send_recv<float>(comm, out, comm.right(), in, comm.left()) calls this overload: it
// is more constrained than lesson 1's, so the compiler prefers it.
template <MpiScalar T>
requires std::same_as<T, float>
void send_recv(const Communicator& comm, std::span<const T> out, int dest, std::span<T> in,
               int source, int tag = 0) {
  if (dest == comm.right() && source == comm.left()) {
    mine::ring_shift(comm, out, in);
  } else {
    dist::send_recv<T>(comm, out, dest, in, source, tag);
  }
}

}  // namespace dist::exercise

#include "chosen_3.hpp"

namespace dist::mine {

Part ring_all_reduce_part{"ring_all_reduce", 3, exercise::kYours};

void ring_all_reduce(const Communicator& comm, std::span<float> data) {
  run_part(ring_all_reduce_part, [&] { exercise::ring_all_reduce(comm, data); });
}

}  // namespace dist::mine
