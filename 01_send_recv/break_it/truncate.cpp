// Belief:  a receive takes as much as its buffer can hold.
// Predict: rank 1 sends four numbers to a buffer for three. What does MPI_Recv return?
// You see: MPI_ERR_TRUNCATE. The memory after the buffer does not change. Receiving three
//          numbers in a buffer for four is not an error: only the status shows the length.
// Why:     a receive's count is the capacity of its buffer, not the length of the message. MPI
//          accepts a message that is too short, so our recv() checks the status and throws.
#include "01_send_recv/send_recv.hpp"
#include "01_send_recv/tracer_numbers.hpp"
#include "common/join.hpp"
#include "common/program.hpp"

#include <mpi.h>

#include <fmt/format.h>

#include <array>
#include <span>
#include <string>

namespace dist {

// MPI_Recv without our recv()'s check. Returns what MPI reports.
static std::string receive_raw(const Communicator& comm, std::span<float> room) {
  MPI_Status status{};
  const int code = MPI_Recv(room.data(), mpi_count(room.size()), MPI_FLOAT, 1, /*tag=*/0,
                            comm.get(), &status);
  int error = 0, count = 0;
  MPI_CHECK(MPI_Error_class(code, &error));
  MPI_CHECK(MPI_Get_count(&status, MPI_FLOAT, &count));
  if (error == MPI_ERR_TRUNCATE) return "MPI_ERR_TRUNCATE";
  if (error != MPI_SUCCESS) return "another error";
  return fmt::format("MPI_SUCCESS; its status counts {}", count);
}

bool break_truncate(const Program& program) {
  const Communicator& comm = program.comm;
  std::array<float, 4> memory{-1, -1, -1, -1};
  const std::span<float> all(memory);
  if (comm.rank() == 1) {
    fill_tracer_numbers(all, 1);
    send<float>(comm, all, 0);
    send<float>(comm, all.first(3), 0);
    send<float>(comm, all.first(3), 0);
  }
  if (comm.rank() != 0) return true;

  const std::string refused = receive_raw(comm, all.first(3));
  const bool untouched = memory[3] == -1;
  memory.fill(-1);
  const std::string accepted = receive_raw(comm, all);
  const Console& console = program.console;
  console.line("  4 numbers, room for 3: MPI_Recv returns " + refused);
  console.line("      memory after the buffer: {}", untouched ? "unchanged" : "OVERWRITTEN");
  console.line("  3 numbers, room for 4: MPI_Recv returns " + accepted);
  console.line("      memory: {} (each was -1 before)", join(memory, " "));
  std::string ours = "nothing";
  try {
    recv<float>(comm, all, 1);
  } catch (const Error& error) {
    ours = error.what();
  }
  console.line("  3 numbers, room for 4: recv() reports \"{}\"", ours);
  return refused == "MPI_ERR_TRUNCATE" && untouched && accepted.starts_with("MPI_SUCCESS") &&
         ours != "nothing";
}

}  // namespace dist
