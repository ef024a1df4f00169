// The judge of the exercises. It consists of named checks of what a solution must do, each with
// a hint for a reader whose solution fails. The reader's code, the reference, and other known
// solutions, right and wrong, all run the same checks.
//
// Whatever a solution does, the reader gets an answer. A check reports a wrong number. Guard
// zones (message_checks.hpp) find writes out of bounds. An exception is shown with its text.
// Messages that nobody received are reported after the check. A deadlock is reported by the
// watch. A crash is reported with the check in which it happened. Deadlocks and crashes end the
// process, so the verdict for them is written to the --verdict file before each check, and
// judge.py reads it from there.
#pragma once

#include "01_send_recv/tracer_numbers.hpp"
#include "common/communicator.hpp"
#include "tools/exercises/drawing.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dist::exercise {

// What was seen of a solution that is wrong. A check may have a hint for some of these.
enum class Seen {
  something_else,
  too_many,
  too_few,
  collective,
  unfinished,
  from_anyone,  // a receive takes a message of any rank
  out_of_bounds,
  changed,      // what the caller wanted to keep
  uneven,       // right if the ranks' chunks are equally long
  a_quarter,    // only the first quarter of the elements is right
  zero,         // instead of a number
  times_ranks,  // the number is N times too large
  over_ranks,   // the number is N times too small
  scaled,  // all shares are in the number, which is too large or too small by another factor
  copied_first,   // one rank's share, N times, instead of all shares
  truncated,      // a message was longer than its receive had room for
  short_message,  // ... or shorter
  doubled,        // twice as many bytes, in as many messages
  fewer,          // there are fewer elements than ranks
  empty,          // something of length 0 is among the arguments
  elsewhere,      // what is missing is in another place
  alone,          // the rank is alone
  reordered,      // right, but for the order
  single,         // right to the precision of a float
  last_bit,       // right but for rounding
  gone,           // read from memory that had been freed
  nan,            // instead of a number
  threw,          // on this rank, not an Error
  added,          // to what stood there before
  stale,          // of an earlier step
  own,            // what this rank alone would get
  explained,      // by a slip that is named beside it
  // The rest is seen by the judge, when the program has ended (hang_hints.py).
  hang,
  sends,        // all of a cycle of ranks wait in a send
  receives,     // all of a cycle of ranks wait in a receive
  collectives,  // ranks wait in a collective
  crash,
};

inline const std::string kCountsBegin;

// The collectives with which a check goes on after a solution has returned are in a CallScope
// of this name, so that nobody takes them for the solution's (hang_hints.py).
inline constexpr std::string_view kOver = "the end of the check";

// What a check works with on this rank.
class Trial {
 public:
  using Note = std::function<void(const std::string&)>;
  using NoteMistake = std::function<void(const std::string&, Seen)>;
  explicit Trial(const Communicator& comm, Note note = {}, NoteMistake note_mistake = {})
      : comm_(comm), note_(std::move(note)), note_mistake_(std::move(note_mistake)) {}

  // Made for this check alone, so no message of an earlier check can arrive on it.
  const Communicator& comm() const { return comm_; }
  int rank() const { return comm_.rank(); }
  int size() const { return comm_.size(); }
  std::size_t n() const { return static_cast<std::size_t>(size()); }  // for numbers of elements

  // Element `index` of rank `rank`'s data: a number that tells where it came from, with
  // quarters, and sometimes negative. If all numbers were equal, more than half of the wrong
  // solutions would pass a test of values; if all were whole, so would those that add whole
  // numbers.
  float value(int rank, std::size_t index) const {
    const float sign = index % 5 == 3 ? -1.0F : 1.0F;
    return sign * (tracer_number(rank, index) + 0.25F * static_cast<float>(index % 4));
  }
  // The sum of element `index` over all ranks, which is exact, and its mean.
  double sum(std::size_t index) const;
  double mean(std::size_t index) const { return sum(index) / size(); }

  // Says with which arguments the solution is called next, for the answer if it never returns.
  void call(const std::string& arguments) {
    ++calls_;
    last_call_ = arguments;
    if (note_) note_(arguments);
  }
  const std::string& last_call() const { return last_call_; }

  // Reports a mistake on this rank; only the first one counts. The check continues, because the
  // other ranks would otherwise wait for this one.
  void wrong(const std::string& what, Seen seen = Seen::something_else);
  // Reports a mistake, formatted with fmt, unless `ok`.
  template <class... Args>
  void expect(bool ok, fmt::format_string<Args...> what, Args&&... args) {
    if (!ok) wrong(fmt::format(what, std::forward<Args>(args)...));
  }
  template <class... Args>
  void expect(Seen otherwise, bool ok, fmt::format_string<Args...> what, Args&&... args) {
    if (!ok) wrong(fmt::format(what, std::forward<Args>(args)...), otherwise);
  }

  // If the last call of the solution was the first that was wrong: what else is known of it.
  void wrong_in(bool so_far_right, Seen seen) {
    if (so_far_right && !mistake_.empty()) seen_ = seen;
  }

  const std::string& mistake() const { return mistake_; }
  Seen seen() const { return seen_; }                     // of the mistake
  std::size_t wrong_call() const { return wrong_call_; }  // how many calls there were before it

  // What the solution costs and what a right one costs, for the reader to see: for example
  // "rounds" and "2 / 2". The text at kCountsBegin replaces "on 4 ranks, yours / right".
  std::map<std::string, std::string>& counts() { return counts_; }

 private:
  const Communicator& comm_;
  Note note_;
  NoteMistake note_mistake_;
  std::string mistake_, last_call_;
  std::size_t calls_ = 0, wrong_call_ = 0;
  Seen seen_ = Seen::something_else;
  std::map<std::string, std::string> counts_;
};

struct Check {
  std::string name;  // for example "values"
  std::string must;  // what a right solution must do: a sentence without a full stop
  std::string hint;  // addresses the most likely mistake; no final full stop
  std::function<void(Trial&)> run;      // called on all ranks
  std::map<Seen, std::string> hints{};  // where `hint` would lead away from what was seen

  const std::string& hint_for(Seen seen) const;
};

// Gives these hints to the checks that have none of their own for what was seen.
std::vector<Check> with_hints(std::vector<Check> checks,
                              const std::map<Seen, std::string>& hints);
inline std::vector<Check> with_hang_hint(std::vector<Check> checks, const std::string& hint) {
  return with_hints(std::move(checks), {{Seen::hang, hint}});
}

struct Solution {
  std::string exercise;
  std::string name;  // "yours", "reference", or what is wrong with it
  std::vector<Check> checks;
  bool pure = false;    // its function sends nothing, so it does not matter who calls it
  bool of_all = false;  // emulated NCCL connects all ranks or none, so there are no groups
  std::optional<Drawing> drawing{};  // if its messages can be drawn

  std::string full_name() const { return exercise + "/" + name; }
};

// The main() of a program that holds `solutions`: runs the checks of the solutions named by
// --solution EXERCISE/NAME[,...] (by default, the first) on all ranks. Exit status 0: right so
// far, on this number of ranks; 1: wrong; 3: not started; any other: it hung or crashed. With
// --list alone, it prints all checks instead.
//
// With --draw FILE, it judges nothing: it writes a small run of the first solution to FILE
// (draw()).
//
// The solutions are called with communicators whose ranks are not the world's: in another
// order, and with --groups K in K groups, which are judged beside each other.
int run(int argc, char** argv, const std::vector<Solution>& solutions);

}  // namespace dist::exercise
