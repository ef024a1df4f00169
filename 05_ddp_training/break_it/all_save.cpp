// Belief:  replicas are equal, so every rank may save the checkpoint.
// Predict: rank 0 writes a checkpoint, and rank 1, which is one step ahead, writes the same
//          file. What does the file contain while both are writing, and at the end?
// You see: when rank 1 opens the file, it becomes empty, so a job killed at this moment leaves
//          an empty file, even if both ranks were to write the same bytes. At the end one half
//          of the file is rank 0's and the other half rank 1's. The checksum reveals this, but
//          a reader that verifies no checksum would load the file.
// Why:     opening a file for writing empties it, and each writer has its own position in the
//          file. Messages force this order, so that the symptom appears every time, but an
//          operating system could choose the same order. write_safetensors lets each rank write
//          its own file and then rename it. For the last line of the output, all ranks do so at
//          the same time, in any order. The file is then whole, but which rank wrote it is a
//          matter of chance.
// In the wild: NVIDIA/apex#886 (one saver per node), Lightning-AI/pytorch-lightning#19970.
#include "02_broadcast/broadcast.hpp"
#include "03_all_reduce/all_reduce.hpp"
#include "05_ddp_training/break_it/small_training.hpp"
#include "05_ddp_training/checkpoint/checkpoint.hpp"
#include "common/check.hpp"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace dist {
namespace {

// A folder that all ranks on one host can access. It is removed at the end.
class CommonFolder {
 public:
  explicit CommonFolder(const Communicator& comm) : comm_(comm) {
    std::array<char, 256> name{};
    if (comm.rank() == 0) {
      std::string pattern =
          (std::filesystem::temp_directory_path() / "all-save-XXXXXX").string();
      if (::mkdtemp(pattern.data()) != nullptr) {
        pattern.copy(name.data(), name.size() - 1);
      }
    }
    broadcast<char>(comm, name, 0);
    path_ = name.data();
    if (path_.empty()) throw Error("cannot create a folder for temporary files");
  }
  ~CommonFolder() {
    std::error_code ignored;
    if (comm_.rank() == 0) std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  const Communicator& comm_;
  std::string path_;
};

std::string bytes_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// What the Checkpoint class of this lesson reports when it reads the file.
std::string read_by_reader(const std::string& path) {
  try {
    return fmt::format("whole, of step {}", Checkpoint(path).position(/*samples=*/1).step);
  } catch (const Error& error) {
    const std::string what = error.what();
    return what.substr(what.rfind('/') + 1);
  }
}

}  // namespace

bool break_all_save(const Program& program) {
  const Communicator& comm = program.comm;
  const CommonFolder folder(comm);
  const std::string path = folder / "model.safetensors";
  SmallTraining job(program);
  const auto save = [&](const std::string& to, std::size_t step) {
    save_checkpoint(to, checkpoint_tensors(job.model.parameters(), *job.optimizer),
                    *job.optimizer, {.step = step}, {}, program.stream);
  };
  const auto take_step = [&] {
    job.model.backward(job.forward(), program.stream);
    job.step();
  };
  // The two files that the ranks would write if each were the only writer.
  std::string mine;
  take_step();
  if (comm.rank() == 1) take_step();
  if (comm.rank() < 2) {
    const std::string own = folder / fmt::format("rank{}.safetensors", comm.rank());
    save(own, 10 + static_cast<std::size_t>(comm.rank()));
    mine = bytes_of_file(own);
  }

  std::ofstream file;
  const auto write = [&](std::size_t begin, std::size_t end) {
    file.write(mine.data() + begin, static_cast<std::streamsize>(end - begin)).flush();
  };
  const std::size_t half = mine.size() / 2;
  std::array<std::string, 4> seen;
  // In each turn one rank acts, and then rank 0 reads the file.
  const auto turn = [&](std::size_t number, int rank, auto act) {
    if (comm.rank() == rank) act();
    comm.barrier();
    if (comm.rank() == 0) seen.at(number) = read_by_reader(path);
    comm.barrier();
  };
  turn(0, 0, [&] {
    file.open(path, std::ios::binary);
    write(0, half);
  });
  turn(1, 1, [&] { file.open(path, std::ios::binary); });
  turn(2, 1, [&] { write(0, mine.size()); });
  turn(3, 0, [&] { write(half, mine.size()); });
  file.close();
  program.console.line("  rank 0 writes half its file:   " + seen[0]);
  program.console.line("  rank 1 opens the same file:    " + seen[1]);
  program.console.line("  rank 1 writes its whole file:  " + seen[2]);
  program.console.line("  rank 0 writes the other half:  " + seen[3]);

  std::string problem;
  try {
    save(path, 12);
  } catch (const Error& error) {
    problem = error.what();
  }
  std::array<double, 1> failed{problem.empty() ? 0.0 : 1.0};
  all_reduce<double>(comm, failed, ReduceOp::sum, AllReduceAlgorithm::recursive_doubling);
  const auto failures = static_cast<int>(failed[0]);
  const std::string result = comm.rank() == 0 ? read_by_reader(path) : "";
  program.console.line(fmt::format(
      "  all {} save at once, in any order, and rename at the end: {} failed; the file: {}",
      comm.size(), failures, result));
  comm.barrier();  // rank 0 removes the folder
  return comm.all_agree(comm.rank() != 0 ||
                        (seen[1].find("0 bytes") != std::string::npos &&
                         seen[2] == "whole, of step 11" &&
                         seen[3].find("its checksum does not match") != std::string::npos &&
                         failures == 0 && result == "whole, of step 12"));
}

}  // namespace dist
