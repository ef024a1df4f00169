// The thread that sends while backward goes on.
#include "05_ddp_training/process_group/communication_thread.hpp"

#include "05_ddp_training/process_group/process_group.hpp"
#include "common/check.hpp"
#include "tests/support/mpi_test.hpp"

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

using namespace dist;
using namespace dist::test;

TEST_CASE("the communication thread keeps the order and passes exceptions to the waiter",
          "[one process]") {
  std::vector<int> order;
  std::thread::id other;
  {
    CommunicationThread thread(Device{});
    const Stream stream(Device{});
    const auto submit = [&](auto job) {
      CommunicationThread::Job task([job] {
        job();
        return 0.0;
      });
      auto work = std::make_unique<Work>(Event(), task.get_future().share());
      thread.submit(std::move(task));
      return work;
    };
    std::vector<std::unique_ptr<Work>> works;
    for (int i = 0; i < 50; ++i) {
      works.push_back(submit([&, i] {
        order.push_back(i);
        other = std::this_thread::get_id();
      }));
    }
    const auto failing = submit([] { throw Error("the network is gone"); });
    CHECK(error_of([&] { failing->wait(stream); }) == "the network is gone");
    for (const auto& work : works) work->wait(stream);
    works.push_back(submit([&] { order.push_back(50); }));  // never waited for
  }
  CHECK(order.size() == 51);
  CHECK(std::is_sorted(order.begin(), order.end()));
  CHECK(other != std::this_thread::get_id());
}
