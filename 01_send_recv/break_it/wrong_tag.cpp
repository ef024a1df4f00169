// Belief:  a receive takes whatever arrives.
// Predict: rank 0 sends with tag 8, rank 1 receives with tag 7. Does it get the message?
// You see: two messages that are received in the opposite order are not confused. Then only tag
//          8 is sent, rank 1 hangs, and the report says "rank 1 waits for tag 7 from rank 0;
//          rank 0 has sent tag 8".
// Why:     a receive takes the next message that matches its sender, communicator and tag. MPI
//          keeps messages with other tags for other receives.
#include "01_send_recv/send_recv.hpp"
#include "common/program.hpp"

#include <array>
#include <cstdint>

namespace dist {

// Rank 0 sends tags 8 and 7; rank 1 receives tags 7 and 8. Each message holds its tag. Returns
// true if each receive got the message with its tag.
static bool receive_in_other_order(const Communicator& comm) {
  std::array<std::int32_t, 1> seven{7}, eight{8};
  if (comm.rank() == 0) {
    // Start both sends before waiting, because rank 1 receives the second message first.
    Request first = isend<std::int32_t>(comm, eight, 1, /*tag=*/8);
    Request second = isend<std::int32_t>(comm, seven, 1, /*tag=*/7);
    first.wait();
    second.wait();
  } else if (comm.rank() == 1) {
    seven = eight = {};
    recv<std::int32_t>(comm, seven, 0, /*tag=*/7);
    recv<std::int32_t>(comm, eight, 0, /*tag=*/8);
  }
  return seven[0] == 7 && eight[0] == 8;
}

bool break_wrong_tag(const Program& program) {
  const Communicator& comm = program.comm;
  const bool selected = comm.all_agree(receive_in_other_order(comm));
  program.console.line("  sent tag 8, then 7; received tag 7, then 8: {}",
                       selected ? "each receive got its own message" : "MIXED UP");
  program.console.line(
      "  now rank 0 sends only tag 8, and rank 1 receives tag 7: this will hang");
  std::array<std::int32_t, 1> number{8};
  if (comm.rank() == 0) send<std::int32_t>(comm, number, 1, /*tag=*/8);
  if (comm.rank() == 1) recv<std::int32_t>(comm, number, 0, /*tag=*/7);
  // The other ranks go on to the verdict, where they wait for rank 1.
  return false;
}

}  // namespace dist
