// A checkpoint: who writes, what comes back, what is refused, and the steps that follow.
#include "tests/exercises/05_ddp_training/checkpoint_host.hpp"
#include "tests/exercises/05_ddp_training/checks.hpp"

#include <mpi.h>

#include <fmt/ranges.h>

#include <array>
#include <chrono>
#include <cmath>
#include <thread>

namespace dist::exercise {
namespace {

// Rank 0 comes late: whoever returns from save before it, knows nothing of a file.
void expect_all_wait(Trial& trial, const Checkpoints& solution) {
  const Communicator own = trial.comm().split(0, trial.rank());
  Host host(trial, solution);
  const TrainingState state = state_of(trial, 10, 1);
  if (trial.rank() != 0) {
    host.save(state);
    MPI_CHECK(MPI_Send(nullptr, 0, MPI_BYTE, 0, 0, own.get()));
    return;
  }
  int early = 0;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(250);
  while (trial.size() > 1 && early == 0 && std::chrono::steady_clock::now() < limit) {
    MPI_CHECK(MPI_Iprobe(MPI_ANY_SOURCE, 0, own.get(), &early, MPI_STATUS_IGNORE));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  trial.expect(early == 0,
               [] { return "another rank returned from save before rank 0 had begun"; });
  host.save(state);
  for (int rank = 1; rank < trial.size(); ++rank) {
    MPI_CHECK(MPI_Recv(nullptr, 0, MPI_BYTE, rank, 0, own.get(), MPI_STATUS_IGNORE));
  }
}

// SGD with momentum, whose gradient depends on the step.
void train(TrainingState& state, int steps) {
  for (int i = 0; i < steps; ++i, ++state.step) {
    for (std::size_t p = 0; p < state.parameters.size(); ++p) {
      const float gradient =
          0.3F * state.parameters[p] + std::sin(static_cast<float>(state.step + p));
      state.momentum[p] = 0.9F * state.momentum[p] + gradient;
      state.parameters[p] -= 0.01F * state.momentum[p];
    }
  }
}

const std::string kSaveHangHint =
    "rank 0 threw an Error alone, or one rank waits for a message that none sends: agree first "
    "(comm.all_agree(ok) is true on all ranks or on none), then all throw or none";
const std::string kLoadHangHint =
    "rank 0 knows alone that the file is bad: tell the others before anything else is sent "
    "(comm.all_agree(ok)), and let all of them throw; else they wait for a broadcast";

}  // namespace

std::vector<Check> checks_of_checkpoint(const Checkpoints& solution) {
  return {
      {"rank-0-alone", "rank 0 writes the file, and nobody else does",
       "all ranks hold the same bits: one writer is enough, and several writers of one file "
       "tear it. if (comm.rank() == 0) ...",
       [=](Trial& trial) {
         Host host(trial, solution);
         host.save(state_of(trial, 10, 1));
         const bool there = std::filesystem::exists(host.path());
         trial.expect(there == (trial.rank() == 0), [&] {
           return there ? "it wrote a file, too" : "there is no file after save";
         });
       },
       kSaveHangHint},
      {"everywhere", "all ranks load what rank 0's host holds",
       "the file is on rank 0's disk alone: rank 0 reads, and broadcast (02) carries the "
       "numbers. "
       "The others do not know the lengths: broadcast these first, so that they can resize",
       [=](Trial& trial) {
         Host host(trial, solution);
         const TrainingState saved = state_of(trial, 10, 3);
         const TrainingState loaded = host.there_and_back(saved);
         trial.expect(loaded.parameters.size() == 10, [&] {
           return fmt::format("{} parameters came back, 10 were saved",
                              loaded.parameters.size());
         });
       },
       kLoadHangHint},
      {"values", "the parameters come back, to the bit",
       "write the bytes themselves, in binary: reinterpret_cast<const char*>(values.data()) "
       "and size() * sizeof(float). Printed numbers are rounded to six digits",
       [=](Trial& trial) {
         Host host(trial, solution);
         for (const std::size_t count : {997, 1, 0, 10}) {
           const TrainingState saved = state_of(trial, count, 5);
           expect_equal(trial, "parameters", host.there_and_back(saved).parameters,
                        saved.parameters);
         }
         expect_equal(trial, "parameters", host.there_and_back(strange_state()).parameters,
                      strange_state().parameters);
       },
       kLoadHangHint},
      {"momentum", "the momentum comes back, to the bit, on all ranks",
       "the next step depends on the optimizer's memory too: save it and broadcast it. Without "
       "it the run goes on, with other numbers than it would have had",
       [=](Trial& trial) {
         Host host(trial, solution);
         const TrainingState saved = state_of(trial, 20, 5);
         expect_equal(trial, "momentum", host.there_and_back(saved).momentum, saved.momentum);
         expect_equal(trial, "momentum", host.there_and_back(strange_state()).momentum,
                      strange_state().momentum);
       },
       kLoadHangHint},
      {"step", "the step comes back on all ranks",
       "learning rates and the order of samples depend on it: it is part of the state, 8 "
       "bytes, and has to be broadcast as well",
       [=](Trial& trial) {
         Host host(trial, solution);
         for (const std::uint64_t step : {std::uint64_t{41}, strange_state().step}) {
           const TrainingState loaded = host.there_and_back(state_of(trial, 3, step));
           trial.expect(loaded.step == step, [&] {
             return fmt::format("the step is {}, {} was saved", loaded.step, step);
           });
         }
       },
       kLoadHangHint},
      {"at-once", "the old file is whole until the new one takes its place",
       "write to a temporary file beside it and rename that to the path when it is complete. "
       "Who opens the file itself for writing has, for a moment, no checkpoint at all",
       [=](Trial& trial) {
         Host host(trial, solution);
         host.save(state_of(trial, 50, 1));
         std::string before;
         if (trial.rank() == 0) {
           before = bytes_of_file(host.path());
           // Another name of the same file: it sees what is written into it.
           std::filesystem::create_hard_link(host.path(), host.folder().file("old"));
         }
         host.save(state_of(trial, 60, 2));
         if (trial.rank() == 0) {
           trial.expect(bytes_of_file(host.folder().file("old")) == before,
                        [] { return "the old file was written into"; });
         }
       },
       kSaveHangHint},
      {"one-file", "save leaves one file, the checkpoint",
       "the temporary file is gone when it was renamed, and rename replaces the old file by "
       "itself: there is nothing to move away first",
       [=](Trial& trial) {
         Host host(trial, solution);
         host.save(state_of(trial, 5, 1));
         host.save(state_of(trial, 5, 2));
         if (trial.rank() == 0) {
           trial.expect(host.folder().names() == std::vector<std::string>{"state.ckpt"}, [&] {
             return fmt::format("there are: {}", fmt::join(host.folder().names(), ", "));
           });
         }
       },
       kSaveHangHint},
      {"there-on-return", "when save has returned on any rank, the file is there",
       "the other ranks wait in save until rank 0 is done: comm.all_agree(ok), which tells "
       "them whether it could write, does that too",
       [=](Trial& trial) { expect_all_wait(trial, solution); }, kSaveHangHint},
      {"no-folder", "all ranks throw when rank 0 cannot write",
       "a stream that could not open or write says so by `!file`; make an Error of it on all "
       "ranks, by comm.all_agree(ok). A checkpoint that was silently not written is worse than "
       "none",
       [=](Trial& trial) {
         Host host(trial, solution);
         host.expect_error("a folder that does not exist", [&] {
           solution(trial.comm(), host.folder().file("none/state.ckpt"))
               ->save(state_of(trial, 5, 1));
         });
       },
       kSaveHangHint},
      {"no-file", "all ranks throw when there is nothing to load",
       "rank 0 finds out, and the others must hear of it: comm.all_agree(ok) before the "
       "broadcasts, then all throw Error",
       [=](Trial& trial) {
         Host host(trial, solution);
         host.expect_error("no file", [&] { host.load(); });
       },
       kLoadHangHint},
      {"torn", "a file that is shorter or longer than it was written is refused",
       "the file says at its beginning how many numbers follow: compare that with its size "
       "(std::filesystem::file_size), before you read and before you resize anything",
       [=](Trial& trial) {
         Host host(trial, solution);
         host.save(state_of(trial, 7, 1));
         const std::string whole = trial.rank() == 0 ? bytes_of_file(host.path()) : "";
         std::array<std::uint64_t, 1> size{whole.size()};
         MPI_CHECK(MPI_Bcast(size.data(), 1, MPI_UINT64_T, 0, trial.comm().get()));
         for (std::uint64_t keep = 0; keep < size[0]; keep += keep < 40 ? 1 : 5) {
           host.expect_refused(fmt::format("{} of {} bytes", keep, size[0]),
                               whole.substr(0, keep));
         }
         host.expect_refused("one byte short", whole.substr(0, whole.size() - (size[0] > 0)));
         host.expect_refused("one byte too many", whole + "x");
         host.expect_refused("four bytes too many", whole + std::string(4, '\0'));
       },
       kLoadHangHint},
      {"foreign", "a file of somebody else's is refused",
       "begin your file with a number of your choice (not 0) and refuse one that begins "
       "otherwise: its first bytes are no lengths, and resizing by them may take all memory",
       [=](Trial& trial) {
         Host host(trial, solution);
         for (const std::size_t length : {8, 16, 20, 24, 28, 32, 40, 48, 56, 64, 200}) {
           for (const char byte : {'\0', '\xff', '\1', 'a'}) {
             host.expect_refused(fmt::format("{} bytes, all {}", length, int{byte}),
                                 std::string(length, byte));
           }
         }
         host.expect_refused("a text", "3 parameters: 1 2 3\nstep 5\n");
       },
       kLoadHangHint},
      {"resume", "a run that goes on takes the very steps that it would have taken",
       "compare parameters, momentum and step before save and after load, bit by bit: one of "
       "them is not the same",
       [=](Trial& trial) {
         TrainingState whole = state_of(trial, 33, 0);
         TrainingState cut = whole;
         train(whole, 9);
         Host host(trial, solution);
         for (int part = 0; part < 3; ++part) {
           train(cut, 3);
           cut = host.there_and_back(cut);
         }
         expect_equal(trial, "parameters after 9 steps", cut.parameters, whole.parameters);
       },
       kLoadHangHint},
  };
}

}  // namespace dist::exercise
