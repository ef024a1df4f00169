// Belief:  a receive takes whatever arrives.
// Predict: rank 0 sends with tag 8, and rank 1 receives with tag 7. Does rank 1 get the
//          message?
// You see: two messages that are received in the opposite order are not confused. Then only tag
//          8 is sent, rank 1 hangs, and the report says "rank 1 waits for tag 7 from rank 0;
//          rank 0 has sent tag 8".
// Why:     a receive takes the next message that matches its sender, communicator and tag. MPI
//          keeps messages with other tags for other receives.
#include "01_send_recv/send_recv.hpp"
#include "01_send_recv/tracer_numbers.hpp"
#include "common/program.hpp"

#include <fmt/core.h>

#include <array>

namespace dist {
namespace {

constexpr int kAsked = 7;
constexpr int kOther = 8;
using FourNumbers = std::array<float, 4>;

FourNumbers numbers_of(int tag) {
  FourNumbers numbers{};
  fill_tracer_numbers(numbers, tag);  // so the thousands digit shows the tag
  return numbers;
}

// Rank 0 sends tags 8 and 7; rank 1 receives tags 7 and 8. Returns true if each receive got the
// message with its tag.
bool receive_in_other_order(const Communicator& comm) {
  if (comm.rank() == 0) {
    const FourNumbers other = numbers_of(kOther);
    const FourNumbers asked = numbers_of(kAsked);
    // Start both sends before waiting, because rank 1 receives the second message first.
    Request first = isend<float>(comm, other, 1, kOther);
    Request second = isend<float>(comm, asked, 1, kAsked);
    first.wait();
    second.wait();
  } else if (comm.rank() == 1) {
    FourNumbers asked{};
    FourNumbers other{};
    recv<float>(comm, asked, 0, kAsked);
    recv<float>(comm, other, 0, kOther);
    return asked == numbers_of(kAsked) && other == numbers_of(kOther);
  }
  return true;
}

}  // namespace

bool break_wrong_tag(const Program& program) {
  const Communicator& comm = program.comm;
  const bool selected = comm.all_agree(receive_in_other_order(comm));
  program.console.line(fmt::format("  sent tag 8, then 7; received tag 7, then 8: {}",
                                   selected ? "each receive got its own message" : "MIXED UP"));
  program.console.line(
      "  now rank 0 sends only tag 8, and rank 1 receives tag 7: this will hang");
  FourNumbers numbers = numbers_of(kOther);
  if (comm.rank() == 0) send<float>(comm, numbers, 1, kOther);
  if (comm.rank() == 1) recv<float>(comm, numbers, 0, kAsked);
  // The other ranks go on to the verdict, where they wait for rank 1.
  return false;
}

}  // namespace dist
