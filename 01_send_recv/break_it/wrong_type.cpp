// Belief:  MPI compares the sender's type with the receiver's.
// Predict: rank 0 sends four floats. Rank 1 receives four ints, or two doubles. What arrives?
// You see: no error. The same 16 bytes are read as a different type, and 1000.0F becomes
//          1148846080.
// Why:     a message carries bytes, its sender and its tag. The MPI standard requires matching
//          types but leaves this duty to the program, and Open MPI does not check them. (If an
//          MPI implementation checks the types, this experiment reports that the symptom did
//          not appear.) Our send<float> and recv<float> keep type and pointer consistent on
//          each side, but cannot compare the two sides.
// In the wild: MPI_FLOAT stayed when the array's type became double (visit-dav/visit#2005)
#include "01_send_recv/break_it/experiments.hpp"
#include "01_send_recv/send_recv.hpp"
#include "01_send_recv/show/tracer_numbers.hpp"
#include "common/join.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <array>
#include <bit>
#include <cstdint>
#include <string>

namespace dist {
namespace {

using FourFloats = std::array<float, 4>;

FourFloats sent_numbers() {
  FourFloats numbers{};
  fill_tracer_numbers(numbers, 1);
  return numbers;
}

// Rank 1 receives the numbers as four ints and as two doubles. Neither call reports an error;
// if one did, recv() would throw.
bool receive_as_others(const Communicator& comm, Json& row, std::string& text) {
  std::array<std::int32_t, 4> ints{};
  recv<std::int32_t>(comm, ints, 0);
  std::array<double, 2> doubles{};
  recv<double>(comm, doubles, 0);
  const FourFloats sent = sent_numbers();
  row = {{"break", "wrong-type"}, {"sent", sent}, {"as_ints", ints}, {"as_doubles", doubles}};
  text = fmt::format(
      "  sent as floats:      {}\n"
      "  received as ints:    {}\n"
      "  received as doubles: {}\n"
      "  no call returned an error; the bits are the same in all three lines",
      join(sent, " "), join(ints, " "), join(doubles, " ", "{:g}"));
  return std::bit_cast<FourFloats>(ints) == sent && std::bit_cast<FourFloats>(doubles) == sent;
}

}  // namespace

bool break_wrong_type(const Program& program) {
  const Communicator& comm = program.comm;
  if (comm.rank() == 0) {
    const FourFloats numbers = sent_numbers();
    send<float>(comm, numbers, 1);
    send<float>(comm, numbers, 1);
  }
  bool seen = true;
  Json row;
  std::string text;
  if (comm.rank() == 1) seen = receive_as_others(comm, row, text);
  const auto texts = gather_text(comm, text);
  const auto rows = gather_text(comm, row.dump());
  if (comm.rank() == 0) {
    program.console.line(texts[1]);
    program.console.row(Json::parse(rows[1]));
  }
  return seen;
}

}  // namespace dist
