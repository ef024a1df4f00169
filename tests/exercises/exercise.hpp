// The judge of exercises: what a solution must do, as named checks, each with the hint that its
// failure deserves. The reader's code, the reference, other right solutions and typical wrong
// ones all meet the same checks.
//
// Whatever a solution does, the reader gets an answer. A wrong number: the check says which. A
// write outside of what was given: guard zones (guarded.hpp). An exception: its text. A message
// too many: found after the check. A deadlock: the watch's report. A crash: which check it was.
// The last two end the process, so before each check the verdict that would be due stands in
// the file --verdict already; `judge` (beside this file) reads it there.
#pragma once

#include "common/communicator.hpp"

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace dist::exercise {

// What one check has to work with on this rank.
class Trial {
 public:
  Trial(const Communicator& comm, bool ones) : comm_(comm), ones_(ones) {}

  // Made for this check: no message of an earlier one can arrive here.
  const Communicator& comm() const { return comm_; }
  int rank() const { return comm_.rank(); }
  int size() const { return comm_.size(); }

  // Element `index` of rank `rank`'s data: a number that says where it comes from
  // (01_send_recv/show/tracer_numbers.hpp). With --data ones it is 1, which is how tests lie.
  float value(int rank, std::size_t index) const;

  // This rank saw a mistake. The first one counts. Does not end the check: the other ranks
  // would wait.
  void wrong(const std::string& what);
  // Calls wrong(what()) unless `ok`.
  void expect(bool ok, const std::function<std::string()>& what);

  const std::string& mistake() const { return mistake_; }

 private:
  const Communicator& comm_;
  bool ones_;
  std::string mistake_;
};

struct Check {
  std::string name;  // "values": what mutants are killed by
  std::string must;  // what a right solution does, as a sentence without a full stop
  std::string hint;  // for the mistake that most likely fails it
  std::function<void(Trial&)> run;  // called on all ranks
  std::string hint_if_it_hangs;     // empty: `hint`
};

struct Solution {
  std::string exercise;
  std::string name;  // "yours", "reference", or what is wrong with it
  std::vector<Check> checks;
};

// main() of a program that holds `solutions`: runs the checks of one of them (--solution
// EXERCISE/NAME; not needed where there is but one) on all ranks. Exit status 0: right so far,
// on this number of ranks; 1: wrong; 3: not started; else it hung or crashed. With --list alone
// it prints all checks instead, for bug_pages.py.
int run(int argc, char** argv, const std::vector<Solution>& solutions);

}  // namespace dist::exercise
