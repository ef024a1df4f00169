// The hint for what was seen of a wrong solution: the check's own, or one that means the same
// in every exercise.
#include "tools/exercises/exercise.hpp"

namespace dist::exercise {

const std::string& Check::hint_for(Seen seen) const {
  // What means the same in every exercise.
  static const std::map<Seen, std::string> kHints{
      {Seen::uneven,
       "it works only if N divides the number of elements. Otherwise chunks differ in length "
       "by one: take each chunk's length from chunk_range"},
      {Seen::a_quarter,
       "a count of bytes, as memcpy and MPI_BYTE want it, is four times the number of floats: "
       "multiply by sizeof(float)"},
      {Seen::zero,
       "in C++, a whole number divided by a larger one is 0, like 1 / comm.size(): write 1.0F "
       "/ comm.size()"},
      {Seen::scaled,
       "every share is in it, once, but it is multiplied by a wrong factor: divide by the "
       "number of ranks, comm.size(), and by nothing else"},
      {Seen::truncated,
       "more arrived than this receive had room for. Either the two sides disagree about this "
       "message's length (in elements; chunks may differ by one), or it is another message "
       "than the one that was meant, because a rank has left out an earlier one. Numbers that "
       "are 0 are sent like others, and what is empty is left out on both sides or on none"},
      {Seen::short_message,
       "fewer elements arrived than this receive has room for: both sides must agree on the "
       "length of this very message. If it is a chunk, receive exactly as many as this chunk "
       "has: into its place in `data` alone, or into the first so many of a spare vector"},
      {Seen::doubled,
       "there are as many messages as there must be, but exactly twice as many bytes. A double "
       "has 8 bytes, and a float 4: of which type are the elements that are sent?"},
      {Seen::explained, "look for that one thing first: it explains every number that you get"},
      {Seen::gone,
       "a number near 1.5e16 is from memory that had been freed: a span, a pointer or a "
       "reference owns nothing, and the vector to which it refers is gone (its function or "
       "block has ended) or has moved (push_back, resize). Keep the vector itself"},
      {Seen::fewer,
       "it works with as many elements as there are ranks, and not with fewer: which condition "
       "looks at the length? What is not empty must still be sent, and every rank takes part"},
      {Seen::from_anyone,
       "a receive from any rank may take an early message of another call: name the rank. In "
       "C++, (0 - 1) % 4 is -1, which Open MPI reads as MPI_ANY_SOURCE; comm.left() is never "
       "negative"},
      {Seen::added,
       "that is the right number and what stood there before, in sum: the result must replace "
       "what was there (=, not +=)"},
      {Seen::collective,
       "it calls one of MPI's collectives, perhaps a barrier: leave it out, because single "
       "messages are enough"}};
  for (const auto* const all : {&hints, &kHints}) {
    if (const auto found = all->find(seen); found != all->end()) return found->second;
  }
  return hint;
}

std::vector<Check> with_hints(std::vector<Check> checks,
                              const std::map<Seen, std::string>& hints) {
  for (Check& check : checks) check.hints.insert(hints.begin(), hints.end());
  return checks;
}

}  // namespace dist::exercise
