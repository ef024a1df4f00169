// Belief:  MPI compares the sender's type with the receiver's.
// Predict: rank 1 sends four floats. Rank 0 receives four ints, or two doubles. What arrives?
// You see: no error. The 16 bytes are read as another type: 1000.0F becomes 1148846080.
// Why:     a message carries bytes, its sender and its tag. The MPI standard requires matching
//          types but leaves this duty to the program, and Open MPI does not check them. Our
//          send<float> and recv<float> keep type and pointer consistent on each side, but
//          cannot compare the two sides.
#include "01_send_recv/send_recv.hpp"
#include "01_send_recv/tracer_numbers.hpp"
#include "common/join.hpp"
#include "common/program.hpp"

#include <array>
#include <bit>
#include <cstdint>

namespace dist {

bool break_wrong_type(const Program& program) {
  const Console& console = program.console;
  const Communicator& comm = program.comm;
  using FourFloats = std::array<float, 4>;
  FourFloats numbers{};
  fill_tracer_numbers(numbers, 1);
  if (comm.rank() == 1) {
    send<float>(comm, numbers, 0);
    send<float>(comm, numbers, 0);
  }
  if (comm.rank() != 0) return true;

  // If a call returned an error, recv() would throw.
  std::array<std::int32_t, 4> ints{};
  recv<std::int32_t>(comm, ints, 1);
  std::array<double, 2> doubles{};
  recv<double>(comm, doubles, 1);
  console.line("  sent as floats:      {}", join(numbers, " "));
  console.line("  received as ints:    {}", join(ints, " "));
  console.line("  received as doubles: {}", join(doubles, " ", "{:g}"));
  return std::bit_cast<FourFloats>(ints) == numbers &&
         std::bit_cast<FourFloats>(doubles) == numbers;
}

}  // namespace dist
