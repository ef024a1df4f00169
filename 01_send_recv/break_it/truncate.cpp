// Belief:  a receive takes as much as its buffer can hold.
// Predict: rank 1 sends four numbers, and rank 0's buffer holds three. What does MPI_Recv
//          return?
// You see: MPI_ERR_TRUNCATE. The memory after the buffer does not change. Receiving three
//          numbers in a buffer for four is not an error: only the status shows the length.
// Why:     a receive's count is the capacity of its buffer, not the length of the message. MPI
//          accepts a message that is too short, so our recv() checks the status and throws.
#include "01_send_recv/send_recv.hpp"
#include "01_send_recv/tracer_numbers.hpp"
#include "common/join.hpp"
#include "common/program.hpp"

#include <mpi.h>

#include <fmt/core.h>

#include <array>
#include <span>
#include <string>

namespace dist {

using FourNumbers = std::array<float, 4>;

// Rank 0 receives a message of `sent` numbers into the first `room` of four, without our
// recv()'s check. Returns the class of MPI's error.
static int receive_raw(const Program& program, int sent, int room, FourNumbers& memory) {
  memory.fill(-1.0F);
  MPI_Status status{};
  const int code =
      MPI_Recv(memory.data(), room, MPI_FLOAT, 1, /*tag=*/0, program.comm.get(), &status);
  int error = 0;
  int count = 0;
  MPI_CHECK(MPI_Error_class(code, &error));
  MPI_CHECK(MPI_Get_count(&status, MPI_FLOAT, &count));
  std::string result = "another error";
  if (error == MPI_ERR_TRUNCATE) result = "MPI_ERR_TRUNCATE";
  if (error == MPI_SUCCESS) result = fmt::format("MPI_SUCCESS; its status counts {}", count);
  program.console.line(
      fmt::format("  {} numbers, room for {}: MPI_Recv returns {}", sent, room, result));
  return error;
}

bool break_truncate(const Program& program) {
  const Communicator& comm = program.comm;
  if (comm.rank() == 1) {
    FourNumbers numbers{};
    fill_tracer_numbers(numbers, 1);
    const std::span<const float> all(numbers);
    send<float>(comm, all, 0);
    send<float>(comm, all.first(3), 0);
    send<float>(comm, all.first(3), 0);
  }
  if (comm.rank() != 0) return true;

  FourNumbers memory{};
  const bool refused = receive_raw(program, 4, 3, memory) == MPI_ERR_TRUNCATE;
  const bool untouched = memory[3] == -1.0F;
  program.console.line(fmt::format("      memory after the buffer: {}",
                                   untouched ? "unchanged" : "OVERWRITTEN"));
  const bool accepted = receive_raw(program, 3, 4, memory) == MPI_SUCCESS;
  program.console.line(fmt::format("      memory: {} (each was -1 before)", join(memory, " ")));
  std::string ours = "nothing";
  try {
    recv<float>(comm, memory, 1);
  } catch (const Error& error) {
    ours = error.what();
  }
  program.console.line(fmt::format("  3 numbers, room for 4: recv() reports \"{}\"", ours));
  return refused && untouched && accepted && ours != "nothing";
}

}  // namespace dist
