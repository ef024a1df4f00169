// Belief:  a receive takes as much as it has room for.
// Predict: rank 0 sends four numbers; rank 1 has room for three. What does MPI_Recv return?
// You see: MPI_ERR_TRUNCATE. The memory behind the room is as it was; what stands in the room
//          MPI leaves open. The other way round, three numbers into room for four, MPI is
//          content: only the status tells, and the fourth number is an old one.
// Why:     a receive's count is how much fits, not how much comes. More is an error, which most
//          programs never see as one: MPI's default handler ends them. Less is no error for
//          MPI, so our recv() looks at the status and throws.
// In the wild: CFT-HY/HILA#35: a receive that took the message of another: this error, or, of
//          equal length, silently wrong numbers
#include "01_send_recv/break_it/experiments.hpp"
#include "01_send_recv/send_recv.hpp"
#include "01_send_recv/show/tracer_numbers.hpp"
#include "common/join.hpp"
#include "common/json.hpp"

#include <mpi.h>

#include <fmt/core.h>

#include <array>
#include <span>
#include <string>

namespace dist {
namespace {

constexpr float kOld = -1.0F;  // what stood in the memory before

struct Received {
  int error_class = MPI_SUCCESS;
  std::string error;
  int count = 0;  // by the status
  std::array<float, 4> memory{kOld, kOld, kOld, kOld};
};

// Rank 1 receives into the first `room` of four floats, without the check of our recv().
Received receive_raw(const Communicator& comm, int room) {
  Received result;
  MPI_Status status{};
  const int code =
      MPI_Recv(result.memory.data(), room, MPI_FLOAT, 0, /*tag=*/0, comm.get(), &status);
  MPI_CHECK(MPI_Error_class(code, &result.error_class));
  result.error.resize(MPI_MAX_ERROR_STRING);
  int length = 0;
  MPI_CHECK(MPI_Error_string(code, result.error.data(), &length));
  result.error.resize(static_cast<std::size_t>(length));
  MPI_CHECK(MPI_Get_count(&status, MPI_FLOAT, &result.count));
  return result;
}

std::string what_recv_says(const Communicator& comm, std::span<float> data) {
  try {
    recv<float>(comm, data, 0);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

bool receive_three_ways(const Program& program, Json& row, std::string& text) {
  const Received too_long = receive_raw(program.comm, 3);
  const Received too_short = receive_raw(program.comm, 4);
  std::array<float, 4> data{};
  const std::string ours = what_recv_says(program.comm, data);
  const bool refused = too_long.error_class == MPI_ERR_TRUNCATE;
  const bool behind_is_untouched = too_long.memory[3] == kOld;
  const bool short_is_fine = too_short.error_class == MPI_SUCCESS && too_short.count == 3;
  row = {{"break", "truncate"},
         {"truncated", refused},
         {"behind_is_untouched", behind_is_untouched},
         {"short_is_an_error", too_short.error_class != MPI_SUCCESS},
         {"short_count", too_short.count},
         {"short_memory", too_short.memory},
         {"recv_says", ours}};
  text = fmt::format(
      "  4 numbers, room for 3: MPI_Recv returns {}\n"
      "                         memory behind the room: {}\n"
      "  3 numbers, room for 4: MPI_Recv returns {}; its status says {} came\n"
      "                         memory: {} (where {} stood)\n"
      "  the same, with recv(): {}",
      too_long.error, behind_is_untouched ? "as before" : "OVERWRITTEN", too_short.error,
      too_short.count, join(too_short.memory, " "), kOld, ours);
  return refused && behind_is_untouched && short_is_fine && ours != "nothing";
}

}  // namespace

bool break_truncate(const Program& program) {
  const Communicator& comm = program.comm;
  if (comm.rank() == 0) {
    std::array<float, 4> numbers{};
    fill_tracer_numbers(numbers, 1);
    const std::span<const float> all(numbers);
    send<float>(comm, all, 1);
    send<float>(comm, all.first(3), 1);
    send<float>(comm, all.first(3), 1);
  }
  bool seen = true;
  Json row;
  std::string text;
  if (comm.rank() == 1) seen = receive_three_ways(program, row, text);
  // Rank 1 has seen it, rank 0 speaks.
  const auto texts = gather_text(comm, text);
  const auto rows = gather_text(comm, row.dump());
  if (comm.rank() == 0) {
    program.console.line(texts[1]);
    program.console.row(*Json::parse(rows[1]));
  }
  return seen;
}

}  // namespace dist
