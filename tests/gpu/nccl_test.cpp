// NCCL in every lesson, on 1 to 4 ranks with a GPU each, and in the emulated build.
//
// The host does not wait between two queued operations unless the test is about that. Streams
// and events must order the operations, or else the numbers are wrong.
#include "01_send_recv/gpu/nccl_communicator.hpp"
#include "01_send_recv/nccl_send_recv.hpp"
#include "02_broadcast/binomial_tree.hpp"
#include "02_broadcast/nccl_broadcast.hpp"
#include "03_all_reduce/more_algorithms/nccl_all_reduce.hpp"
#include "05_ddp_training/model/kernels.hpp"
#include "05_ddp_training/process_group/process_group.hpp"
#include "common/buffer.hpp"
#include "common/check.hpp"
#include "tests/support/tracer_data.hpp"

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace dist;
using namespace dist::test;

static Device my_gpu() {
  return find_gpu(world().local_rank()).device;
}

// The numbers that are on their way to a GPU. The copies may not be done before result() has
// waited for them.
static std::vector<std::vector<float>> uploads;

// Copies `numbers` to `tensor` on `stream`, without waiting for the copy.
static void upload(const Stream& stream, const Tensor& tensor, std::vector<float> numbers) {
  uploads.push_back(std::move(numbers));
  copy_bytes(stream, tensor.data(), uploads.back().data(), tensor.size_bytes());
}

// The content of `tensor` once `stream` has finished. The wait is limited, so a hang makes the
// test fail.
static std::vector<float> result(NcclCommunicator& nccl, const Stream& stream,
                                 const Tensor& tensor) {
  nccl.synchronize(stream);
  uploads.clear();
  return to_host(stream, tensor);
}

TEST_CASE("a group of one send and one receive moves every tensor to the next rank",
          "[nccl][gpu]") {
  const Stream stream(my_gpu());
  NcclCommunicator nccl = connect_nccl_by_messages(world(), my_gpu());
  for (const std::size_t count : tricky_sizes()) {
    const Tensor out({count}, my_gpu());
    const Tensor in({count}, my_gpu());
    upload(stream, out, my_numbers(count));
    send_recv_nccl(nccl, out, world().right(), in, world().left(), stream);
    INFO(count << " elements");
    CHECK(all_from(result(nccl, stream, in), world().left()));
    CHECK(all_from(to_host(stream, out), world().rank()));
  }
}

TEST_CASE("every root's numbers reach every rank", "[nccl][gpu]") {
  const Stream stream(my_gpu());
  NcclCommunicator nccl = connect_nccl(world(), my_gpu());
  for (int root = 0; root < world().size(); ++root) {
    for (const std::size_t count : tricky_sizes()) {
      const Tensor tensor({count}, my_gpu());
      upload(stream, tensor, my_numbers(count));
      broadcast_nccl(nccl, tensor, root, stream);
      INFO("root " << root << ", " << count << " elements");
      CHECK(all_from(result(nccl, stream, tensor), root));
    }
  }
}

TEST_CASE("an all-reduce on a second stream sums, averages and finds the maximum",
          "[nccl][gpu]") {
  const Stream compute(my_gpu());
  NcclCommunicator nccl = connect_nccl(world(), my_gpu());
  const Stream communication(my_gpu());  // destroyed before the communicator that used it
  for (const std::size_t count : tricky_sizes()) {
    const Tensor tensor = allocate_nccl(nccl, {count});
    for (const auto& [name, op] : kReduceOps) {
      upload(compute, tensor, my_numbers(count));
      communication.wait(compute.record_event());
      all_reduce_nccl(nccl, tensor, op, communication);
      compute.wait(communication.record_event());
      INFO(name << " of " << count << " elements");
      CHECK(wrong_after(op, result(nccl, compute, tensor), 2.4e-7) == 0);
    }
  }
}

TEST_CASE("a process group orders kernels and all-reduces without waiting on the host",
          "[nccl][gpu]") {
  // Repeats p = p + (the sum of g over the ranks). All operations are queued at once, so
  // a missing wait for an event, on either side, would let a kernel or an all-reduce run too
  // early.
  const Stream compute(my_gpu());
  const auto group = make_nccl_process_group(world(), my_gpu());
  constexpr std::size_t kCount = 1003;
  constexpr int kSteps = 40;
  const Tensor gradient = group->allocate({kCount});
  const Tensor parameter({kCount}, my_gpu());
  const Tensor mine({kCount}, my_gpu());
  upload(compute, mine, my_numbers(kCount));
  upload(compute, parameter, std::vector<float>(kCount, 1.0F));
  std::vector<std::unique_ptr<Work>> works;
  for (int step = 0; step < kSteps; ++step) {
    copy(compute, gradient, mine);
    works.push_back(group->all_reduce(gradient, ReduceOp::sum, compute));
    works.back()->wait(compute);
    add_to(compute, kCount, gradient.data(), parameter.data());
  }
  group->synchronize(compute.record_event());
  const auto want = [](std::size_t i) { return 1.0 + kSteps * sum_of_all(i); };
  CHECK(count_wrong(to_host(compute, parameter), want) == 0);
}

TEST_CASE("two all-reduces in flight keep their order on every rank", "[nccl][gpu]") {
  // The tensors have the same size, so swapping them on one rank would add up numbers from
  // different tensors.
  const Stream compute(my_gpu());
  const auto group = make_nccl_process_group(world(), my_gpu());
  constexpr std::size_t kCount = 500;
  for (int round = 0; round < 10; ++round) {
    const Tensor first = group->allocate({kCount});
    const Tensor second = group->allocate({kCount});
    std::vector<float> negative = my_numbers(kCount);
    for (float& number : negative) number = -number - static_cast<float>(round);
    upload(compute, first, my_numbers(kCount));
    upload(compute, second, negative);
    const auto work_of_first = group->all_reduce(first, ReduceOp::sum, compute);
    const auto work_of_second = group->all_reduce(second, ReduceOp::sum, compute);
    work_of_second->wait(compute);
    work_of_first->wait(compute);
    group->synchronize(compute.record_event());
    CHECK(count_wrong(to_host(compute, first), sum_of_all) == 0);
    CHECK(count_wrong(to_host(compute, second), [&](std::size_t i) {
            return -sum_of_all(i) - round * world().size();
          }) == 0);
  }
}

TEST_CASE("an error within a group closes the group", "[nccl][gpu]") {
  const Stream stream(my_gpu());
  NcclCommunicator nccl = connect_nccl(world(), my_gpu());
  const Tensor tensor({10}, my_gpu());
  upload(stream, tensor, my_numbers(10));
  CHECK_THROWS_AS(send_recv_nccl(nccl, tensor, world().size(), tensor, 0, stream), Error);
  all_reduce_nccl(nccl, tensor, ReduceOp::sum, stream);
  CHECK(count_wrong(result(nccl, stream, tensor), sum_of_all) == 0);
}

#if DIST_CUDA_EMULATED
TEST_CASE("an event that cannot be created is not used by the next call", "[nccl][gpu]") {
  const Stream stream(my_gpu());
  ::setenv("EMULATED_EVENTS", "0", 1);
  CHECK_THROWS_AS(stream.record_event(), Error);
  ::unsetenv("EMULATED_EVENTS");
  stream.record_event().synchronize();
}
#endif

TEST_CASE("a rank that never joins is reported within the time limit, on every rank",
          "[nccl][gpu]") {
  if (world().size() == 1) return skip("needs 2 ranks");
  const Stream stream(my_gpu());
  const Tensor tensor({10}, my_gpu());
  // `late` ranks join after the others have given up, and find no other rank.
  const auto report_of = [&](bool is_late, bool connected, auto wait) {
    NcclId id{};
    if (world().rank() == 0) id = make_nccl_id();
    broadcast_tree<char>(world(), id, 0);
    NcclCommunicator nccl(id, world().rank(), world().size(), my_gpu());
    if (connected) {  // which takes seconds on some hosts
      all_reduce_nccl(nccl, tensor, ReduceOp::sum, stream);
      nccl.synchronize(stream);
    }
    nccl.set_limit(std::chrono::milliseconds(500));
    if (is_late) world().barrier();
    const std::string report = error_of([&] {
      all_reduce_nccl(nccl, tensor, ReduceOp::sum, stream);
      wait();
      nccl.synchronize(stream);
    });
    if (!is_late) world().barrier();
    return report;
  };
  // An ordinary wait behind a collective ends, too.
  const std::string connected =
      report_of(world().rank() == 0, true, [&] { to_host(stream, tensor); });
  CHECK(connected != "nothing thrown");
  if (!NcclWatchdog::can_end_calls()) return skip("this NCCL cannot end a call");
  const bool late = world().rank() == world().size() - 1;
  const std::string report = report_of(late, false, [] {});
  INFO(report);
  // A rank may find the connections of a rank that has given up before it.
  const bool is_first = world().size() == 2 && !late;
  CHECK(((contains(report, "NCCL on rank ") && contains(report, "nothing moved for 0.5 s")) ||
         (!is_first &&
          (contains(report, "remote process exited") ||
           contains(report, "unhandled system error") || contains(report, "internal error")))));
}

TEST_CASE("ranks that would share a GPU get an error before NCCL starts", "[nccl][gpu]") {
  CHECK(can_use_nccl(world(), my_gpu()).possible);
  const char* const allowed = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  const std::string before = allowed != nullptr ? allowed : "";
  ::unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
  const bool alone = world().size() == 1;
  const NcclSupport same = can_use_nccl(world(), {DeviceType::cuda, 0});
  CHECK(same.possible == alone);
  if (!alone) CHECK(same.reason.find("ranks 0 and 1") == 0);
  if (allowed != nullptr) ::setenv("NCCL_MULTI_RANK_GPU_ENABLE", before.c_str(), 1);
  const Device one_on_cpu = world().rank() == 0 ? Device{} : my_gpu();
  CHECK_FALSE(can_use_nccl(world(), one_on_cpu).possible);
}
