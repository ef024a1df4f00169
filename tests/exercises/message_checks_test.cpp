// An exercise's check chooses its hint by what it saw.
#include "tools/exercises/message_checks.hpp"

#include "01_send_recv/send_recv.hpp"
#include "tests/support/mpi_test.hpp"

using namespace dist;
using exercise::Seen;

// What is seen of a solution that should send one message per rank to the right.
static exercise::Trial judged(const Communicator& comm, const std::function<void()>& solution) {
  exercise::Trial trial(comm);
  const std::uint64_t each = comm.size() > 1 ? 1 : 0;  // messages to oneself are not needed
  exercise::expect_traffic(trial, "", {.messages_per_rank = each}, solution);
  return trial;
}

TEST_CASE("a check sees too many messages, too few, and collectives") {
  const Communicator comm = Communicator::world();
  const auto shift = [&] {
    float out = 1, in = 0;
    send_recv<float>(comm, {&out, 1}, comm.right(), {&in, 1}, comm.left());
  };
  if (comm.size() > 1) {
    CHECK(judged(comm, shift).mistake().empty());
    CHECK(judged(comm, [] {}).seen() == Seen::too_few);
  }
  const auto twice = [&] { shift(), shift(); };
  CHECK(judged(comm, twice).seen() == Seen::too_many);
  const auto barrier = [&] {
    if (comm.size() > 1) shift();
    comm.barrier();
  };
  CHECK(judged(comm, barrier).seen() == Seen::collective);
}

TEST_CASE("a check's hint is the one for what was seen, or its own") {
  const exercise::Check check{
      "messages", "it sends one message", "think", {}, {{Seen::too_many, "send fewer"}}};
  CHECK(check.hint_for(Seen::too_many) == "send fewer");
  CHECK(check.hint_for(Seen::too_few) == "think");
}

TEST_CASE("the first mistake counts, and what was seen of it") {
  const Communicator comm = Communicator::world();
  exercise::Trial trial(comm);
  trial.wrong("");  // no mistake
  trial.expect(Seen::unfinished, false, "{} is left", 1);
  trial.expect(Seen::too_many, false, "later");
  CHECK(trial.mistake() == "1 is left");
  CHECK(trial.seen() == Seen::unfinished);
}
