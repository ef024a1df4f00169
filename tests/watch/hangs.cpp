// Programs that hang, one for each --case (test_hang_report.py).
#include "01_send_recv/send_recv.hpp"
#include "02_broadcast/broadcast.hpp"
#include "03_all_reduce/all_reduce.hpp"
#include "03_all_reduce/choice/all_reducer.hpp"
#include "common/watch.hpp"
#include "tests/watch/run_case.hpp"

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <span>
#include <unistd.h>
#include <vector>

namespace {

using namespace dist;

constexpr int kSkips = 2;  // the rank that behaves differently from the others

std::atomic<int> never_set{0};

void spin() {
  while (never_set.load() == 0) continue;
}

void barriers(const Communicator& comm, int count) {
  for (int i = 0; i < count; ++i) comm.barrier();
}

void all_reduce_once(const Communicator& comm) {
  int one = 1;
  MPI_CHECK(MPI_Allreduce(MPI_IN_PLACE, &one, 1, MPI_INT, MPI_SUM, comm.get()));
}

void wrong_tag(const Communicator& comm) {
  std::vector<float> data(4);
  if (comm.rank() == 0) send<float>(comm, data, 1, /*tag=*/8);
  if (comm.rank() == 1) recv<float>(comm, data, 0, /*tag=*/7);
  comm.barrier();
}

void skipped_collective(const Communicator& comm) {
  barriers(comm, 6);
  std::vector<float> data(4);
  if (comm.rank() == kSkips) recv<float>(comm, data, 3);
  all_reduce_once(comm);
}

void other_collective(const Communicator& comm) {
  int number = 1;
  if (comm.rank() == kSkips) MPI_CHECK(MPI_Bcast(&number, 1, MPI_INT, 0, comm.get()));
  all_reduce_once(comm);
  comm.barrier();
}

// Each of two ranks gathers, and waits for what the other would send to it.
void other_root(const Communicator& comm) {
  std::vector<int> numbers(4);
  MPI_CHECK(
      MPI_Gather(&numbers[3], 1, MPI_INT, numbers.data(), 1, MPI_INT, comm.rank(), comm.get()));
}

void from_finished(const Communicator& comm) {
  std::vector<float> data(4);
  if (comm.rank() == 0) recv<float>(comm, data, 1);
}

void stopped(const Communicator& comm, int rank) {
  if (comm.rank() == rank) ::kill(::getpid(), SIGSTOP);
  all_reduce_once(comm);
}

// What keeps the others busy, such as a wait that the watch does not know, may be for this
// rank.
void stopped_while_all_compute(const Communicator& comm) {
  if (comm.rank() == kSkips) ::kill(::getpid(), SIGSTOP);
  spin();
}

// MPI_Finalize first frees MPI_COMM_SELF and its attributes, which calls `stop`.
void stopped_in_finalize(const Communicator& comm) {
  if (comm.rank() != kSkips) return;
  int key = MPI_KEYVAL_INVALID;
  const auto stop = [](MPI_Comm, int, void*, void*) {
    ::kill(::getpid(), SIGSTOP);
    return MPI_SUCCESS;
  };
  MPI_CHECK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, stop, &key, nullptr));
  MPI_CHECK(MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr));
}

void waiting_for_requests(const Communicator& comm) {
  std::vector<float> data(4), more(8);
  if (comm.rank() == 0) {
    std::vector<MPI_Request> requests(2);
    MPI_CHECK(MPI_Irecv(data.data(), 4, MPI_FLOAT, 1, 5, comm.get(), &requests[0]));
    MPI_CHECK(MPI_Irecv(more.data(), 8, MPI_FLOAT, 2, 6, comm.get(), &requests[1]));
    MPI_CHECK(MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE));
  }
  comm.barrier();
}

// Broadcasts a tensor that is too large for MPI to buffer.
void skipped_broadcast(const Communicator& comm) {
  std::vector<float> data(1 << 20);
  if (comm.rank() != kSkips) {
    broadcast<float>(comm, data, /*root=*/0, BroadcastAlgorithm::tree);
  }
  comm.barrier();
}

void skipped_shared_memory(const Communicator& comm) {
  AllReducer reducer(comm);
  std::vector<float> data(4);
  reducer.all_reduce<float>(data, ReduceOp::sum, AllReduceAlgorithm::shared_memory);
  if (comm.rank() != kSkips) {
    reducer.all_reduce<float>(data, ReduceOp::sum, AllReduceAlgorithm::shared_memory);
  }
  comm.barrier();
}

// Lesson 3's ring with a blocking send instead of send_recv.
void blocking_ring(const Communicator& comm) {
  std::vector<float> data(1 << 20);
  const std::size_t chunk = data.size() / static_cast<std::size_t>(comm.size());
  const std::span<float> whole(data);
  send<float>(comm, whole.first(chunk), comm.right());
  recv<float>(comm, whole.last(chunk), comm.left());
}

// Ranks 0 and 1 exchange data without trouble. Rank 2 waits for rank 0, which waits for rank 3.
void chain_without_cycle(const Communicator& comm) {
  std::vector<float> out(4), in(4);
  if (comm.rank() < 2) send_recv<float>(comm, out, 1 - comm.rank(), in, 1 - comm.rank());
  if (comm.rank() == 2) recv<float>(comm, in, 0);
  if (comm.rank() == 0) recv<float>(comm, in, 3);
  if (comm.rank() % 2 == 1) spin();
}

void named(const Communicator& comm) {
  std::vector<float> out(4), in(4);
  for (int i = 1; i <= 7; ++i) {
    if (i == 7 && comm.rank() == kSkips) break;
    const CallScope scope("all_reduce", "bucket 2: 2.weight, 2.bias");
    send_recv<float>(comm, out, comm.right(), in, comm.left());
  }
  if (comm.rank() == kSkips) spin();
}

void wait_in_shared_memory(const Communicator& comm) {
  if (comm.rank() == 1) {
    const WaitScope wait("a flag in shared memory", comm, 0);
    spin();
  }
  comm.barrier();
}

// Rank 1 receives on a communicator of the odd ranks, but rank 3 sends on the world's.
void other_communicator(const Communicator& comm) {
  const Communicator part = comm.split(comm.rank() % 2, comm.rank());
  std::vector<float> data(4);
  if (comm.rank() == 3) send<float>(comm, data, 1);
  if (comm.rank() == 1) recv<float>(part, data, 1);
  part.barrier();
}

// Rank 3 sends on one duplicate of the world, and rank 1 receives on another.
void other_duplicate(const Communicator& comm) {
  const Communicator one = comm.duplicate(), other = comm.duplicate();
  std::vector<float> data(4);
  if (comm.rank() == 3) send<float>(one, data, 1);
  if (comm.rank() == 1) recv<float>(other, data, 3);
  comm.barrier();
}

// Rank 0 receives from the second of the odd ranks, which are a group of their own.
void between_groups(const Communicator& comm) {
  const bool is_odd = comm.rank() % 2 == 1;
  const Communicator group = comm.split(is_odd ? 1 : 0, comm.rank());
  MPI_Comm both = MPI_COMM_NULL;
  MPI_CHECK(MPI_Intercomm_create(group.get(), 0, comm.get(), is_odd ? 0 : 1, 0, &both));
  std::vector<float> data(4);
  if (comm.rank() == 0) {
    MPI_CHECK(MPI_Recv(data.data(), 4, MPI_FLOAT, 1, 0, both, MPI_STATUS_IGNORE));
  }
  comm.barrier();
}

// The last duplicate is made after a communicator that rank 0 is no member of.
void after_a_part(const Communicator& comm) {
  MPI_Comm part = MPI_COMM_NULL;
  MPI_CHECK(MPI_Comm_split(comm.get(), comm.rank() == 0 ? MPI_UNDEFINED : 0, 0, &part));
  const Communicator same = comm.duplicate();
  if (comm.rank() != kSkips) same.barrier();
  comm.barrier();
}

// Rank 0 finds a message with MPI_Iprobe, and then computes while the others wait.
void found(const Communicator& comm) {
  const std::vector<float> data(4);
  if (comm.rank() == 1) send<float>(comm, data, 0);
  for (int here = 0; comm.rank() == 0 && here == 0;) {
    MPI_CHECK(MPI_Iprobe(1, 0, comm.get(), &here, MPI_STATUS_IGNORE));
  }
  if (comm.rank() == 0) spin();
  comm.barrier();
}

// Rank 2 only starts what the others wait for.
void started(const Communicator& comm) {
  int number = 1, sum = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_CHECK(MPI_Iallreduce(&number, &sum, 1, MPI_INT, MPI_SUM, comm.get(), &request));
  if (comm.rank() == kSkips) spin();
  MPI_CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

// Every collective once, each with another number of floats from a rank, root 1, and on the
// other ranks nothing for the parameters that MPI ignores there.
void every_collective(const Communicator& comm) {
  const int size = comm.size();
  const bool root = comm.rank() == 1;
  const auto n = [size](int count) { return static_cast<std::size_t>(count * size); };
  std::vector<float> in(n(20)), out(n(20));
  const MPI_Datatype type = MPI_FLOAT;
  const MPI_Datatype of_root = root ? MPI_FLOAT : MPI_DATATYPE_NULL;
  const MPI_Comm all = comm.get();
  std::vector<int> counts(n(1)), begins(n(1));
  const auto each = [&](int count) {
    std::ranges::fill(counts, count);
    for (std::size_t i = 0; i < begins.size(); ++i) begins[i] = static_cast<int>(i) * count;
    return counts.data();
  };
  float* const a = in.data();
  float* const b = out.data();
  MPI_CHECK(MPI_Bcast(a, 2, type, 1, all));
  MPI_CHECK(MPI_Gather(a, 3, type, root ? b : nullptr, root ? 3 : 0, of_root, 1, all));
  MPI_CHECK(MPI_Gatherv(a, 4, type, root ? b : nullptr, root ? each(4) : nullptr,
                        root ? begins.data() : nullptr, of_root, 1, all));
  MPI_CHECK(MPI_Scatter(root ? a : nullptr, root ? 5 : 0, of_root, b, 5, type, 1, all));
  MPI_CHECK(MPI_Scatterv(root ? a : nullptr, root ? each(6) : nullptr,
                         root ? begins.data() : nullptr, of_root, b, 6, type, 1, all));
  MPI_CHECK(MPI_Allgather(a, 7, type, b, 7, type, all));
  MPI_CHECK(MPI_Allgatherv(a, 8, type, b, each(8), begins.data(), type, all));
  MPI_CHECK(MPI_Alltoall(a, 9, type, b, 9, type, all));
  MPI_CHECK(MPI_Reduce(a, root ? b : nullptr, 10, type, MPI_SUM, 1, all));
  MPI_CHECK(MPI_Allreduce(a, b, 11, type, MPI_SUM, all));
  MPI_CHECK(MPI_Reduce_scatter_block(a, b, 12, type, MPI_SUM, all));
  MPI_CHECK(MPI_Scan(a, b, 13, type, MPI_SUM, all));
  MPI_CHECK(MPI_Exscan(a, b, 14, type, MPI_SUM, all));
  MPI_CHECK(MPI_Barrier(all));
  MPI_CHECK(MPI_Reduce_scatter(a, b, each(15), type, MPI_SUM, all));

  // The same, without blocking.
  MPI_Request request = MPI_REQUEST_NULL;
  const auto wait = [&request](int status) {
    MPI_CHECK(status);
    MPI_CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  };
  wait(MPI_Ibcast(a, 2, type, 1, all, &request));
  wait(MPI_Igather(a, 3, type, root ? b : nullptr, root ? 3 : 0, of_root, 1, all, &request));
  wait(MPI_Iscatter(root ? a : nullptr, root ? 5 : 0, of_root, b, 5, type, 1, all, &request));
  wait(MPI_Iallgather(a, 7, type, b, 7, type, all, &request));
  wait(MPI_Iallgatherv(a, 8, type, b, each(8), begins.data(), type, all, &request));
  wait(MPI_Ireduce(a, root ? b : nullptr, 10, type, MPI_SUM, 1, all, &request));
  wait(MPI_Iallreduce(a, b, 11, type, MPI_SUM, all, &request));
  wait(MPI_Ireduce_scatter_block(a, b, 12, type, MPI_SUM, all, &request));
  wait(MPI_Ibarrier(all, &request));
}

// Rank 0 sends to rank 1, which takes a message of any tag.
void any_tag(const Communicator& comm) {
  std::vector<float> data(4);
  if (comm.rank() == 0) send<float>(comm, data, 1, /*tag=*/5);
  if (comm.rank() != 1) return;
  MPI_CHECK(MPI_Recv(data.data(), 4, MPI_FLOAT, 0, MPI_ANY_TAG, comm.get(), MPI_STATUS_IGNORE));
}

}  // namespace

int main(int argc, char** argv) {
  return run_case(
      argc, argv, "hangs", "Hangs in the way that --case selects.",
      {{"wrong-tag", wrong_tag},
       {"skipped-collective", skipped_collective},
       {"other-collective", other_collective},
       {"other-root", other_root},
       {"from-finished", from_finished},
       {"stopped", [](auto& all) { stopped(all, kSkips); }},
       {"first-stopped", [](auto& all) { stopped(all, 0); }},  // rank 0 usually reports hangs
       {"stopped-while-all-compute", stopped_while_all_compute},
       {"stopped-in-finalize", stopped_in_finalize},
       {"skipped-broadcast", skipped_broadcast},
       {"skipped-shared-memory", skipped_shared_memory},
       {"blocking-ring", blocking_ring},
       {"requests", waiting_for_requests},
       {"chain", chain_without_cycle},
       {"named", named},
       {"named-patiently", [](auto& all) { set_patience(Patience::always), named(all); }},
       {"shared-memory", wait_in_shared_memory},
       {"other-communicator", other_communicator},
       {"other-duplicate", other_duplicate},
       {"between-groups", between_groups},
       {"after-a-part", after_a_part},
       {"found", found},
       {"started", started},
       {"every-collective", every_collective},
       {"any-tag", any_tag}});
}
