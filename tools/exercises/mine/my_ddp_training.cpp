// ddp_by_hand.cpp made of the reader's own exercises. The course's references replace exercises
// that are not written yet.
//
//   ./learn mine        mpirun -np 4 build/bin/my_ddp_training
//
// Each result of a part is compared with that of the course's own function. While all of them
// are equal, bit for bit, this is the course's own run.
// Look at: the end, which includes ddp_by_hand.cpp in a namespace. The names that it finds
// there hide the course's.
#include "01_send_recv/send_recv.hpp"
#include "03_all_reduce/all_reduce.hpp"
#include "common/watch.hpp"
#include "tools/exercises/confined.hpp"
#include "tools/exercises/not_started.hpp"

#include <mpi.h>

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <cstdio>
#include <new>
#include <string>
#include <string_view>
#include <vector>

namespace dist::mine {

// The reader's own code if its exercise is written, and otherwise the exercise's reference.
struct Part {
  std::string_view name;  // of the exercise and its function
  int lesson;
  bool yours;
  std::uint64_t runs = 0;  // on this rank
  bool wrong = false;      // on this rank: the course's own function gave another result
};

// The parts build on each other: sync_gradients calls ring_all_reduce, which sends its messages
// with ring_shift.
void ring_shift(const Communicator& comm, std::span<const float> out, std::span<float> in);
void ring_all_reduce(const Communicator& comm, std::span<float> data);
}  // namespace dist::mine

// Lesson 3's part calls send_recv<float>(comm, out, comm.right(), in, comm.left()), and lesson
// 5's all_reduce<float>(comm, message, ReduceOp::avg, AllReduceAlgorithm::ring). Both get these
// overloads: they are more constrained than the lessons' own, so the compiler prefers them.
namespace dist::exercise_3 {
template <MpiScalar T>
requires std::same_as<T, float>
void send_recv(const Communicator& comm, std::span<const T> out, int dest, std::span<T> in,
               int source, int tag = 0) {
  if (dest == comm.right() && source == comm.left()) return mine::ring_shift(comm, out, in);
  dist::send_recv<T>(comm, out, dest, in, source, tag);
}
}  // namespace dist::exercise_3

namespace dist::exercise_5 {
template <MpiScalar T>
requires std::same_as<T, float>
void all_reduce(const Communicator& comm, std::span<T> data, ReduceOp op,
                AllReduceAlgorithm algorithm = AllReduceAlgorithm::recursive_doubling) {
  if (op == ReduceOp::avg && algorithm == AllReduceAlgorithm::ring) {
    return mine::ring_all_reduce(comm, data);
  }
  dist::all_reduce<T>(comm, data, op, algorithm);
}
}  // namespace dist::exercise_5

#include "chosen.hpp"  // what ddp_by_hand.cpp includes, the exercises, and the table of parts

namespace dist::mine {

static Part& part_called(std::string_view name) {
  return *std::ranges::find(parts, name, &Part::name);
}

// Called on all ranks. `call` calls the part and returns what should be equal to `expected`.
// Throws Error with the part's name if the part throws.
template <class T>
void run(const Communicator& comm, Part& part, const std::vector<T>& expected,
         const auto& call) {
  const std::string name = fmt::format("{} {}", part.yours ? "your" : "our", part.name);
  const CallScope scope(name);  // in a hang report
  const Confined confined(name.c_str(), [&](const std::string& what) {
    fmt::print(stderr, "WRONG: {} {}\n", name, what);
    std::fflush(nullptr);
    MPI_Abort(MPI_COMM_WORLD, 1);
  });
  ++part.runs;
  try {
    const std::span<const T> result = call();
    comm.barrier();  // a message that this part did not send must not come from the next call
    const auto wanted = std::as_bytes(std::span(expected));
    if (!std::ranges::equal(std::as_bytes(result), wanted)) part.wrong = true;
  } catch (const NotStarted&) {
    throw Error(name + ": it calls something that is not written yet");
  } catch (const std::bad_alloc&) {
    throw Error(name + ": it ran out of memory");
  } catch (const std::exception& error) {
    throw Error(name + ": " + error.what());
  }
}

void ring_shift(const Communicator& comm, std::span<const float> out, std::span<float> in) {
  std::vector<float> expected(in.size());
  dist::send_recv<float>(comm, out, comm.right(), expected, comm.left());
  run(comm, part_called("ring_shift"), expected, [&] {
    exercise_1::ring_shift(comm, out, in);
    return in;
  });
}

void ring_all_reduce(const Communicator& comm, std::span<float> data) {
  std::vector<float> expected(data.begin(), data.end());
  dist::all_reduce_ring<float>(comm, expected, ReduceOp::avg);
  run(comm, part_called("ring_all_reduce"), expected, [&] {
    exercise_3::ring_all_reduce(comm, data);
    return data;
  });
}

// The following hide the course's own in ddp_by_hand.cpp.

void broadcast_tree(const Communicator& comm, std::span<float> data, int root) {
  std::vector<float> expected(data.begin(), data.end());
  dist::broadcast_tree<float>(comm, expected, root);
  // In the opposite order, rank 0 is the last rank: a broadcast that ignores its root is found.
  const Communicator opposite = comm.split(0, comm.size() - comm.rank());
  run(comm, part_called("tree_broadcast"), expected, [&] {
    exercise_2::tree_broadcast(opposite, data, comm.size() - 1 - root);
    return data;
  });
}

void all_reduce_ring(const Communicator& comm, std::span<float> data, ReduceOp op) {
  std::vector<float> expected(data.begin(), data.end());
  dist::all_reduce_ring<float>(comm, expected, op);
  // Three gradients, of which one is empty, in memory of their own, for the part to join.
  const auto half = data.begin() + std::ssize(data) / 2;
  std::vector<float> first(data.begin(), half), none, last(half, data.end());
  run(comm, part_called("sync_gradients"), expected, [&] {
    exercise_5::sync_gradients(comm, {first, none, last});
    std::ranges::copy(last, std::ranges::copy(first, data.begin()).out);
    return data;
  });
}

class DistributedSampler : public dist::DistributedSampler {
 public:
  DistributedSampler(std::size_t size, int ranks, int rank)
      : dist::DistributedSampler(size, ranks, rank), everyone_(size, 1, 0) {}
  void set_epoch(std::uint64_t epoch) {
    dist::DistributedSampler::set_epoch(epoch);
    everyone_.set_epoch(epoch);
  }
  std::vector<std::size_t> indices() const {
    const Communicator comm = Communicator::world();
    std::vector<std::size_t> mine;
    run(comm, part_called("my_indices"), dist::DistributedSampler::indices(), [&] {
      mine = exercise_4::my_indices(everyone_.indices(), comm.size(), comm.rank(),
                                    exercise_4::Policy::pad);
      return std::span(mine);
    });
    return mine;
  }

 private:
  dist::DistributedSampler everyone_;  // the epoch's common order
};

// Prints whose each part is, and in the end whether all of them are right.
class Console : public dist::Console {
 public:
  Console(bool json, bool speaks) : dist::Console(json, speaks) {
    name_crashes();
    limit_memory(std::size_t{4} << 30);  // far more than needed; more makes a machine unusable
    for (const Part& part : parts) {
      const std::string whose = part.yours ? "yours" : "ours";
      line(fmt::format("{}: {}", whose, part.name));
      dist::Console::row({{"part", part.name}, {"whose", whose}});
    }
  }

  // Called on all ranks.
  void row(Json last) const {
    last["yours"] = std::ranges::count_if(parts, &Part::yours);
    last["bit_for_bit"] = problem().empty();
    dist::Console::row(last);
  }
  // Called on all ranks.
  int verdict(const Communicator& comm, bool correct, const std::string& verified,
              const std::string& wrong) const {
    std::string calls;
    for (const Part& part : parts) calls += fmt::format(" {} {}", part.name, part.runs);
    line("calls on rank 0:" + calls);
    const std::string found = problem();
    return dist::Console::verdict(
        comm, correct && found.empty(),
        fmt::format("{} of {} parts are yours; the parameters equal the course's, bit for bit",
                    std::ranges::count_if(parts, &Part::yours), std::size(parts)),
        found.empty() ? wrong : found);
  }

 private:
  // What is wrong with the parts; empty if nothing is.
  static std::string problem() {
    const Communicator comm = Communicator::world();
    for (const Part& part : parts) {
      if (!comm.all_agree(!part.wrong)) {
        return fmt::format("{}; run ./learn check {} {} to see why", part.name, part.lesson,
                           part.name);
      }
    }
    for (const Part& part : parts) {
      if (comm.size() > 1 && !comm.all_agree(part.runs > 0)) {
        return std::string(part.name) +
               " never ran: the part that should call it calls something else (see "
               "the contracts of lessons 3 and 5)";
      }
    }
    return "";
  }
};

#include "05_ddp_training/ddp_by_hand.cpp"

}  // namespace dist::mine

int main(int argc, char** argv) {
  return dist::mine::main(argc, argv);
}
