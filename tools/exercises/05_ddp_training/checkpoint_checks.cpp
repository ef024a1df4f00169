// Checks of a checkpoint: who writes it, what is loaded, what is refused, and how training
// continues.
#include "common/join.hpp"
#include "tools/exercises/05_ddp_training/checkpoint_host.hpp"
#include "tools/exercises/message_checks.hpp"

#include <chrono>
#include <thread>

namespace dist::exercise {
namespace {

// Rank 0 saves late. Another rank's save must not return before rank 0 has started its own.
void expect_all_wait(Trial& trial, const Checkpoints& solution) {
  const Communicator own = trial.comm().duplicate();
  Host host(trial, solution);
  const TrainingState state = state_of(trial, 10, 1);
  if (trial.rank() != 0) {
    host.save(state);
    const CallScope over(kOver);
    MPI_CHECK(MPI_Send(nullptr, 0, MPI_BYTE, 0, 0, own.get()));
    return;
  }
  int early = 0;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(250);
  while (trial.size() > 1 && early == 0 && std::chrono::steady_clock::now() < limit) {
    MPI_CHECK(MPI_Iprobe(MPI_ANY_SOURCE, 0, own.get(), &early, MPI_STATUS_IGNORE));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  trial.expect(early == 0, "another rank returned from save before rank 0 had started");
  host.save(state);
  const CallScope over(kOver);
  for (int rank = 1; rank < trial.size(); ++rank) {
    MPI_CHECK(MPI_Recv(nullptr, 0, MPI_BYTE, rank, 0, own.get(), MPI_STATUS_IGNORE));
  }
}

const std::string kSaveHangHint =
    "only rank 0 threw an Error, or a rank waits for a message that no rank sends: agree first "
    "(comm.all_agree(ok) returns the same on all ranks), then throw on all ranks or on none";
const std::string kLoadHangHint =
    "only rank 0 knows that the file is bad, and the others wait for a broadcast: tell them "
    "before anything else is sent (comm.all_agree(ok)), and throw on all ranks";

const std::string kEverywhereHint =
    "the file is only on rank 0's disk, so only rank 0 may look for it and read it. The others "
    "hear from rank 0 whether it is there, and get the numbers by a broadcast (lesson 2): the "
    "lengths first, so that they can resize";
const std::map<Seen, std::string> kArrays{
    {Seen::uneven,
     "parameters and momentum need not be equally long, and either may be empty: write the "
     "length of each, and broadcast both"},
    {Seen::empty,
     "without parameters, there may be momentum all the same: write, read and broadcast each "
     "of the two, whatever the length of the other"},
    {Seen::elsewhere,
     "that is a number of the other array: write, read and broadcast the parameters and the "
     "momentum in the same order, and on all ranks"}};

}  // namespace

std::vector<Check> checks_of_checkpoint(const Checkpoints& solution) {
  const auto on_host = [=](const std::function<void(Trial&, Host&)>& run) {
    return [=](Trial& trial) {
      Host host(trial, solution);
      run(trial, host);
    };
  };
  const std::vector<Check> checks{
      {"rank-0-alone",
       "only rank 0 may write the file",
       "all ranks hold the same bits, so one writer is enough, and several writers would "
       "corrupt the file: if (comm.rank() == 0) ...",
       on_host([=](Trial& trial, Host& host) {
         test::FolderEvents events(host.folder().path());
         host.save(state_of(trial, 10, 1));
         const bool there = std::filesystem::exists(host.path());
         trial.expect(there == (trial.rank() == 0), "{}",
                      there ? "this rank also wrote a file" : "no file exists after save");
         if (trial.rank() == 0) return;
         for (const auto& event : events.read()) {
           trial.expect(event.name.empty(), "this rank has touched a file, {}", event.name);
         }
       }),
       {{Seen::hang, kSaveHangHint}}},
      {"everywhere",
       "all ranks must load the checkpoint from rank 0's host",
       kEverywhereHint,
       on_host([=](Trial& trial, Host& host) {
         const TrainingState saved = state_of(trial, 10, 3);
         const TrainingState loaded = host.there_and_back(saved);
         trial.expect(loaded.parameters.size() == 10,
                      "{} parameters were loaded, but 10 were saved", loaded.parameters.size());
       }),
       {{Seen::truncated, kEverywhereHint}}},
      {"values", "the loaded parameters must be the saved ones, bit for bit",
       "write the raw bytes, in binary: reinterpret_cast<const char*>(values.data()) and "
       "size() * sizeof(float). Printed numbers are rounded to six digits",
       on_host([=](Trial& trial, Host& host) {
         for (const std::size_t count : {997, 1, 0, 10}) {
           const TrainingState saved = state_of(trial, count, 5);
           expect_equal(trial, "parameters", host.there_and_back(saved).parameters,
                        saved.parameters, saved.momentum);
         }
         expect_equal(trial, "parameters", host.there_and_back(strange_state()).parameters,
                      strange_state().parameters);
       }),
       kArrays},
      {"momentum", "the loaded momentum must be the saved one, bit for bit, on all ranks",
       "the next step also depends on the optimizer's memory: save it and broadcast it. "
       "Without that memory, the run continues with different numbers",
       on_host([=](Trial& trial, Host& host) {
         const TrainingState saved = state_of(trial, 20, 5);
         expect_equal(trial, "momentum", host.there_and_back(saved).momentum, saved.momentum,
                      saved.parameters);
         TrainingState strange = strange_state();
         expect_equal(trial, "momentum", host.there_and_back(strange).momentum,
                      strange.momentum);
         strange.parameters.clear();
         const bool right = trial.mistake().empty();
         expect_equal(trial, "without parameters, momentum",
                      host.there_and_back(strange).momentum, strange.momentum);
         trial.wrong_in(right, Seen::empty);
       }),
       kArrays},
      {"step",
       "all ranks must load the step that was saved",
       "learning rates and the order of samples depend on the step, so the step is part of the "
       "state. Save its 8 bytes and broadcast them",
       on_host([=](Trial& trial, Host& host) {
         for (const std::uint64_t step : {std::uint64_t{41}, strange_state().step}) {
           const TrainingState loaded = host.there_and_back(state_of(trial, 3, step));
           const bool is_rounded =
               std::abs(static_cast<double>(loaded.step) / static_cast<double>(step) - 1) <
               1e-6;
           trial.expect(is_rounded ? Seen::single : Seen::something_else, loaded.step == step,
                        "the step is {}, but {} was saved", loaded.step, step);
         }
       }),
       {{Seen::single,
         "the step is rounded: it passes through a float or a double, which holds all whole "
         "numbers only up to 2^24 or 2^53. Send it as what it is, a std::uint64_t"}}},
      {"from-the-file", "load must read the file, also with the object that has saved",
       "what an object remembers of its save is not what the file holds: another process may "
       "have saved since, and the file may be damaged or gone",
       on_host([=](Trial& trial, Host& host) {
         const auto file = solution(trial.comm(), host.path());
         file->save(state_of(trial, 5, 1));
         host.save(state_of(trial, 7, 2));
         const TrainingState loaded = file->load();
         trial.expect(loaded.parameters.size() == 7 && loaded.step == 2,
                      "one object has saved 5 parameters of step 1, and another one 7 of step "
                      "2; the first one then loads {} of step {}",
                      loaded.parameters.size(), loaded.step);
       })},
      {"at-once",
       "the old file must stay complete until the new one replaces it",
       "write to a temporary file in the same folder, and rename it to the path when it is "
       "complete and the stream is closed: that replaces the old file in one step, so there is "
       "a complete checkpoint at any moment",
       on_host([=](Trial& trial, Host& host) {
         host.save(state_of(trial, 50, 1));
         std::string before;
         if (trial.rank() == 0) {
           before = test::content_of(host.path());
           // A second name for the old file, to show whether the file is overwritten in place.
           std::filesystem::create_hard_link(host.path(), host.folder() / "old");
         }
         test::FolderEvents events(host.folder().path());
         host.save(state_of(trial, 60, 2));
         if (trial.rank() == 0) {
           trial.expect(test::content_of(host.folder() / "old") == before,
                        "something was written into the old file");
           trial.wrong(what_happened(events.read(), "state.ckpt"));
         }
       }),
       {{Seen::hang, kSaveHangHint}}},
      {"one-file",
       "save must leave exactly one file, the checkpoint",
       "renaming removes the temporary file and replaces the old file, so there is no need to "
       "move anything first",
       on_host([=](Trial& trial, Host& host) {
         host.save(state_of(trial, 5, 1));
         host.save(state_of(trial, 5, 2));
         if (trial.rank() == 0) {
           trial.expect(host.folder().names() == std::vector<std::string>{"state.ckpt"},
                        "the folder contains: {}", join(host.folder().names(), ", "));
         }
       }),
       {{Seen::hang, kSaveHangHint}}},
      {"leftover",
       "what a killed save has left must not get into the next file",
       "the temporary file may be there already, from a save that was killed: open it so that "
       "it begins empty (the default for writing), and not with std::ios::app; and do not "
       "refuse "
       "to save because of it",
       on_host([=](Trial& trial, Host& host) {
         for (const std::size_t count : {50, 5}) {
           test::FolderEvents events(host.folder().path());
           host.save(state_of(trial, count, 1));
           if (trial.rank() != 0) continue;
           for (const auto& [what, moved, name] : events.read()) {  // all names that it uses
             if (name != "state.ckpt" && !name.empty())
               test::write_content(host.folder() / name, std::string(3000, 'x'));
           }
         }
         const TrainingState saved = state_of(trial, 40, 2);
         expect_equal(trial, "after a killed save, parameters",
                      host.there_and_back(saved).parameters, saved.parameters);
       }),
       {{Seen::hang, kSaveHangHint}}},
      {"there-on-return",
       "when save has returned on any rank, the file must exist",
       "the other ranks must wait in save until rank 0 is done: comm.all_agree(ok), which "
       "tells them whether it could write, also makes them wait",
       [=](Trial& trial) { expect_all_wait(trial, solution); },
       {{Seen::hang, kSaveHangHint}}},
      {"no-folder",
       "all ranks must throw when rank 0 cannot write",
       "if a file could not be opened or written, `!file` is true: call comm.all_agree(ok), "
       "and throw an Error on all ranks. A save that fails silently is worse than no "
       "checkpoint. (Do not make the folder: a name that is mistyped would go unnoticed)",
       on_host([=](Trial& trial, Host& host) {
         host.expect_error("a folder that does not exist", [&] {
           solution(trial.comm(), host.folder() / "none/state.ckpt")
               ->save(state_of(trial, 5, 1));
         });
       }),
       {{Seen::hang, kSaveHangHint}}},
      {"full-disk",
       "if rank 0 cannot write the file, all ranks must throw, and the old file must stay "
       "alone",
       "a write may fail only when the file is closed: close it, and look at `!file` before "
       "you rename. If it has failed, remove the temporary file, and throw on all ranks",
       on_host([=](Trial& trial, Host& host) {
         expect_old_file_on_full_disk(trial, host);
         if (trial.rank() == 0) {
           std::filesystem::create_directories(host.folder() / "taken/by a folder");
         }
         host.expect_error(
             "a folder of that name",
             [&] {
               solution(trial.comm(), host.folder() / "taken")->save(state_of(trial, 5, 1));
             },
             Seen::elsewhere);
         if (trial.rank() == 0) {
           trial.expect(host.folder().names().size() == 2,
                        "after a failure, the folder contains: {}",
                        join(host.folder().names(), ", "));
         }
       }),
       {{Seen::hang, kSaveHangHint},
        {Seen::elsewhere,
         "the rename may fail as well, here because a folder has that name: look at its error, "
         "too, before the ranks agree"}}},
      {"no-file", "all ranks must throw when there is no file to load",
       "rank 0 is the first to know and must tell the others: call comm.all_agree(ok) before "
       "the broadcasts, then throw Error on all ranks",
       on_host(
           [=](Trial&, Host& host) { host.expect_error("no file", [&] { host.load(); }); })},
      {"torn", "a file that is shorter or longer than what was written must be refused",
       "store at the beginning of the file how many numbers follow, and compare that with the "
       "file's size (std::filesystem::file_size) before you read or resize anything",
       on_host([=](Trial& trial, Host& host) {
         host.save(state_of(trial, 7, 1));
         const std::string whole = trial.rank() == 0 ? test::content_of(host.path()) : "";
         const std::size_t size = trial.comm().all_gather(whole.size())[0];
         for (std::size_t keep = 0; keep < size; keep += keep < 40 ? 1 : 5) {
           host.expect_refused(fmt::format("{} of {} bytes", keep, size),
                               whole.substr(0, keep));
         }
         host.expect_refused("one byte short", whole.substr(0, whole.size() - (size > 0)));
         host.expect_refused("one byte too many", whole + "x");
         host.expect_refused("four bytes too many", whole + std::string(4, '\0'));
       })},
      {"foreign", "a file from a different program must be refused",
       "start your file with a number of your choice (not 0), and refuse a file that starts "
       "differently: its first bytes are not lengths, and using them as sizes may use up all "
       "memory",
       on_host([=](Trial&, Host& host) {
         for (const std::size_t length : {8, 16, 20, 24, 28, 32, 40, 48, 56, 64, 200}) {
           for (const char byte : {'\0', '\xff', '\1', 'a'}) {
             host.expect_refused(fmt::format("{} bytes, all {}", length, int{byte}),
                                 std::string(length, byte));
           }
         }
         host.expect_refused("a text file", "3 parameters: 1 2 3\nstep 5\n");
       })},
      {"resume", "a resumed run must take exactly the steps that an uninterrupted run takes",
       "compare parameters, momentum and step before save and after load, bit by bit: one of "
       "them differs",
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
       }},
  };
  return with_hints(
      checks,
      {{Seen::hang, kLoadHangHint},
       {Seen::threw,
        "what the library throws, rank 0 throws alone, and the others wait, or go on as if "
        "all were well. rename and file_size also have forms with a std::error_code, which "
        "throw nothing: let all ranks agree (comm.all_agree) when everything that may fail is "
        "done, the rename too, and then throw on all ranks"}});
}

}  // namespace dist::exercise
