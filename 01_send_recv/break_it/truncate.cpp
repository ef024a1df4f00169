// Belief:  a receive takes as much as its buffer can hold.
// Predict: rank 0 sends four numbers, and rank 1's buffer holds three. What does MPI_Recv
//          return?
// You see: MPI_ERR_TRUNCATE. The memory after the buffer does not change, but the contents of
//          the buffer are undefined. Receiving three numbers in a buffer for four is not an
//          error: only the status shows the length, and the fourth number keeps its old value.
// Why:     a receive's count is the capacity of its buffer, not the length of the message. When
//          a message is too long, MPI's default handler ends the program. MPI accepts a message
//          that is too short, so our recv() checks the status and throws.
// In the wild: CFT-HY/HILA#35, where a receive took the message meant for another receive. The
//          result was this error or, if the lengths were equal, wrong numbers without an error.
#include "01_send_recv/break_it/experiments.hpp"
#include "01_send_recv/send_recv.hpp"
#include "01_send_recv/show/tracer_numbers.hpp"
#include "common/join.hpp"

#include <mpi.h>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <array>
#include <span>
#include <string>

namespace dist {
namespace {

constexpr float kOld = -1.0F;  // what the memory held before the receive

struct Received {
  int error_class = MPI_SUCCESS;
  std::string error;
  int count = 0;  // according to the status
  std::array<float, 4> memory{kOld, kOld, kOld, kOld};
};

// Rank 1 receives into the first `room` of four floats, without our recv()'s check.
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
      "                         memory after the buffer: {}\n"
      "  3 numbers, room for 4: MPI_Recv returns {}; its status counts {}\n"
      "                         memory: {} (each was {} before)\n"
      "  3 numbers, room for 4: recv() reports \"{}\"",
      too_long.error, behind_is_untouched ? "unchanged" : "OVERWRITTEN", too_short.error,
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
  // Rank 1 has the result, and rank 0 prints it.
  const auto texts = gather_text(comm, text);
  const auto rows = gather_text(comm, row.dump());
  if (comm.rank() == 0) {
    program.console.line(texts[1]);
    program.console.row(Json::parse(rows[1]));
  }
  return seen;
}

}  // namespace dist
