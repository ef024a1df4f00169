// Belief:  replicas are equal, so every rank may save the checkpoint.
// Predict: rank 0 and rank 1, which is one step ahead, write the same file at the same time.
//          What does it contain meanwhile, and at the end?
// You see: when rank 1 opens the file, it becomes empty, and so it stays if the job is killed
//          then. At the end each half is another rank's. Only the checksum shows it.
// Why:     opening a file for writing empties it, and each writer has its own position in it.
//          Messages force this order here, which can also happen by chance. save_checkpoint
//          therefore writes a new file and renames it, and only rank 0 calls it.
#include "02_broadcast/broadcast.hpp"
#include "05_ddp_training/checkpoint/checkpoint.hpp"
#include "05_ddp_training/small_training/small_training.hpp"
#include "common/check.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace dist {

bool break_all_save(const Program& program) {
  const Communicator& comm = program.comm;
  std::string folder = (std::filesystem::temp_directory_path() / "all-save-XXXXXX").string();
  if (comm.rank() == 0 && ::mkdtemp(folder.data()) == nullptr) {
    throw Error("cannot create a folder for temporary files");
  }
  broadcast<char>(comm, folder, 0);
  const std::string path = folder + "/model.safetensors";
  SmallTraining job(program);
  // What a reader on rank 0 finds in the file.
  const auto content = [&]() -> std::string {
    if (comm.rank() != 0) return "";
    try {
      return fmt::format("whole, of step {}", Checkpoint(path).position(/*samples=*/1).step);
    } catch (const Error& error) {
      const std::string what = error.what();
      return what.substr(what.rfind('/') + 1);
    }
  };

  // What this rank writes if it is the only writer. Each rank is a step ahead of the previous.
  for (int step = 0; step <= comm.rank(); ++step) {
    job.backward();
    job.step();
  }
  const std::string own = fmt::format("{}/rank{}", folder, comm.rank());
  save_checkpoint(own, checkpoint_tensors(job.model.parameters(), job.optimizer), job.optimizer,
                  {.step = 10 + static_cast<std::size_t>(comm.rank())}, {}, job.stream);
  std::ifstream saved(own, std::ios::binary);
  const std::string mine(std::istreambuf_iterator<char>(saved), {});

  std::ofstream file;
  // In each turn one rank acts, and then rank 0 reads the file.
  const auto turn = [&](const char* what, int rank, auto act) {
    if (comm.rank() == rank) act();
    comm.barrier();
    const std::string seen = content();
    comm.barrier();
    say(program, "  {:<31}{}", what, seen);
    return seen;
  };
  const std::size_t half = mine.size() / 2;
  turn("rank 0 writes half its file:", 0, [&] {
    file.open(path, std::ios::binary);
    file << mine.substr(0, half) << std::flush;
  });
  const std::string opened =
      turn("rank 1 opens the same file:", 1, [&] { file.open(path, std::ios::binary); });
  const std::string written =
      turn("rank 1 writes its whole file:", 1, [&] { file << mine << std::flush; });
  const std::string mixed = turn("rank 0 writes the other half:", 0,
                                 [&] { file << mine.substr(half) << std::flush; });

  if (comm.rank() != 0) return true;
  std::filesystem::remove_all(folder);
  return opened.find("an empty file") != std::string::npos && written == "whole, of step 11" &&
         mixed.find("its checksum does not match") != std::string::npos;
}

}  // namespace dist
