// A patient rank sleeps while it waits. Apart from that, it is like any other: it makes the
// same calls, gets the same messages and errors, and works with ranks that do not sleep.
#include "01_send_recv/send_recv.hpp"
#include "common/watch.hpp"
#include "tests/support/tracer_data.hpp"

#include <mpi.h>

#include <array>
#include <chrono>
#include <cstdarg>
#include <ctime>
#include <sched.h>
#include <set>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <vector>

using namespace dist;
using namespace dist::test;

namespace {

struct WithPatience {
  explicit WithPatience(Patience patience) { set_patience(patience); }
  ~WithPatience() { set_patience(Patience::by_load); }
};

// Runs the checks with all ranks patient, with none, and with every second one, as on hosts
// with different loads.
template <class Checks>
void with_every_patience(Checks checks) {
  for (const bool odd : {false, true}) {
    for (const bool even : {false, true}) {
      CAPTURE(odd, even);
      const bool mine = world().rank() % 2 == 1 ? odd : even;
      const WithPatience patience(mine ? Patience::always : Patience::never);
      checks();
    }
  }
}

// What this thread has used: its processor time, and how often it went to sleep. (A yield is
// not a sleep.)
struct Used {
  std::chrono::nanoseconds time{};
  long sleeps = 0;

  static Used so_far() {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    rusage use{};
    ::getrusage(RUSAGE_THREAD, &use);
    return {std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec),
            use.ru_nvcsw};
  }
};

// Rank 0 keeps the others waiting, first for a message and then in a collective. Calls
// check(used, late) on them, with what they used in each wait and how long it was.
template <class Check>
void check_two_waits(Check check) {
  constexpr std::chrono::milliseconds kLate{200};
  std::array<float, 1> number{};
  for (const bool collective : {false, true}) {
    CAPTURE(collective);
    world().barrier();
    if (world().rank() == 0) std::this_thread::sleep_for(kLate);
    const Used before = Used::so_far();
    if (collective) {
      world().barrier();
    } else if (world().rank() > 0) {
      recv<float>(world(), number, 0);
    } else {
      for (int peer = 1; peer < world().size(); ++peer) send<float>(world(), number, peer);
    }
    const Used after = Used::so_far();
    if (world().rank() == 0) {
      others_check();
    } else {
      check(Used{after.time - before.time, after.sleeps - before.sleeps}, kLate);
    }
  }
}

// Open MPI leaves the processor to others while it waits; MPICH does not.
#ifdef OPEN_MPI
constexpr bool kMpiYields = true;
#else
constexpr bool kMpiYields = false;
#endif

void check_that_waits_sleep() {
  if (!kMpiYields) return skip("this MPI does not yield");
  check_two_waits([](const Used& used, auto late) {
    CHECK(used.time < late / 2);  // polling would use the core all the time
    CHECK(used.sleeps > 100);
  });
}

// The call that MPI names when an operation on `comm` fails. Open MPI passes it to an error
// handler as its third argument.
thread_local std::string failed_call;

void note_failed_call(MPI_Comm*, int* error, ...) {
  std::va_list arguments;
  va_start(arguments, error);
  failed_call = va_arg(arguments, const char*);
  va_end(arguments);
}

template <class Call>
std::string call_named_by_error(Call call) {
  failed_call = "none";
  static_cast<void>(call());
  return failed_call;
}

}  // namespace

TEST_CASE("patient and impatient ranks exchange messages and meet in collectives") {
  with_every_patience([] {
    // below and above the eager limit
    for (const unsigned count : {0U, 1U, 1000U, 300'000U}) check_ring_shift<float>(count);
    for (int root = 0; root < world().size(); ++root) {
      int sum = world().rank() + 1, largest = sum, from_root = sum;
      MPI_CHECK(MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, world().get()));
      MPI_CHECK(MPI_Reduce(&from_root, &largest, 1, MPI_INT, MPI_MAX, root, world().get()));
      MPI_CHECK(MPI_Bcast(&from_root, 1, MPI_INT, root, world().get()));
      world().barrier();
      CHECK(sum == world().size() * (world().size() + 1) / 2);
      CHECK(largest == (world().rank() == root ? world().size() : world().rank() + 1));
      CHECK(from_root == root + 1);
    }
  });
  world().barrier();
}

TEST_CASE("a patient thread sleeps while it waits, for a message and in a collective") {
  if (world().size() == 1) return skip("needs 2 ranks");
  const WithPatience patience(Patience::always);
  check_that_waits_sleep();
  world().barrier();
}

TEST_CASE("threads are patient by themselves if the host has more ranks than processors") {
  if (world().size() == 1) return skip("needs 2 ranks");
  cpu_set_t mine;
  CPU_ZERO(&mine);
  ::sched_getaffinity(0, sizeof mine, &mine);
  std::set<int> processors;
  for (const cpu_set_t& set : world().all_gather(mine)) {
    for (int p = 0; p < CPU_SETSIZE; ++p) {
      if (CPU_ISSET(p, &set)) processors.insert(p);
    }
  }
  if (world().size() > static_cast<int>(processors.size())) {
    check_that_waits_sleep();
  } else {
    check_two_waits([](const Used& used, auto) { CHECK(used.sleeps < 50); });
  }
  world().barrier();
}

TEST_CASE("a call with a wrong argument leaves no message and no receive behind") {
  const int right = world().right(), left = world().left(), nobody = world().size();
  for (const bool strict : {false, true}) {
    watch_table()->set_strict(strict);
    with_every_patience([&] {
      const std::vector<float> out(5, 1.0F);
      std::vector<float> in(5);
      CHECK_THROWS_AS(send_recv<float>(world(), out, nobody, in, left), Error);
      CHECK_THROWS_AS(send_recv<float>(world(), out, right, in, nobody), Error);
      const std::vector<float> next(5, 2.0F);
      send_recv<float>(world(), next, right, in, left);
      CHECK(in == next);
      world().barrier();
    });
    watch_table()->set_strict(false);
  }
  world().barrier();
}

TEST_CASE("a message that is too long is an error of the call that receives it") {
  // Open MPI 4.1 does not always notice this error in a message that a rank sends to itself.
  if (world().size() == 1) return skip("needs 2 ranks");
#ifndef OPEN_MPI
  return skip("needs Open MPI, which gives an error handler the name of the call");
#endif
  const Communicator own = world().duplicate();  // with an error handler of its own
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_CHECK(MPI_Comm_create_errhandler(note_failed_call, &handler));
  MPI_CHECK(MPI_Comm_set_errhandler(own.get(), handler));
  const int right = own.right(), left = own.left();
  with_every_patience([&] {
    const std::vector<float> out(10);
    std::vector<float> in(5);
    CHECK_THROWS_AS(send_recv<float>(world(), out, right, in, left), Error);
    CHECK(call_named_by_error([&] {
            return MPI_Sendrecv(out.data(), 10, MPI_FLOAT, right, 0, in.data(), 5, MPI_FLOAT,
                                left, 0, own.get(), MPI_STATUS_IGNORE);
          }) == "MPI_Sendrecv");
    Request sending = isend<float>(own, out, right);
    CHECK(call_named_by_error([&] {
            return MPI_Recv(in.data(), 5, MPI_FLOAT, left, 0, own.get(), MPI_STATUS_IGNORE);
          }) == "MPI_Recv");
    sending.wait();
    Request sending_again = isend<float>(own, out, right);
    MPI_Request receiving = MPI_REQUEST_NULL;
    MPI_CHECK(MPI_Irecv(in.data(), 5, MPI_FLOAT, left, 0, own.get(), &receiving));
    CHECK(call_named_by_error([&] { return MPI_Wait(&receiving, MPI_STATUS_IGNORE); }) ==
          "MPI_Wait");
    sending_again.wait();
  });
  MPI_CHECK(MPI_Errhandler_free(&handler));
  world().barrier();
}

TEST_CASE("collectives between two groups, of which one has the root") {
  if (world().size() < 2) return skip("needs 2 ranks");
  const bool is_odd = world().rank() % 2 == 1;
  const Communicator group = world().split(is_odd ? 1 : 0, world().rank());
  MPI_Comm both = MPI_COMM_NULL;
  MPI_CHECK(MPI_Intercomm_create(group.get(), /*local_leader=*/0, world().get(),
                                 /*remote_leader=*/is_odd ? 0 : 1, /*tag=*/0, &both));
  with_every_patience([&] {
    int number = world().rank();
    const int root = is_odd ? 0 : world().rank() == 0 ? MPI_ROOT : MPI_PROC_NULL;
    for (int i = 0; i < 3; ++i) {
      MPI_CHECK(MPI_Bcast(&number, 1, MPI_INT, root, both));
      MPI_CHECK(MPI_Barrier(both));
    }
    CHECK(number == (is_odd ? 0 : world().rank()));
    int sum = 0;  // of the other group
    MPI_CHECK(MPI_Allreduce(&number, &sum, 1, MPI_INT, MPI_SUM, both));
    const int evens = (world().size() + 1) / 2;
    CHECK(sum == (is_odd ? evens * (evens - 1) : 0));
  });
  MPI_CHECK(MPI_Comm_free(&both));
  world().barrier();
}
