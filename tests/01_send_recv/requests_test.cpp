// Non-blocking messages: when a request is done.
#include "01_send_recv/send_recv.hpp"
#include "tests/support/tracer_data.hpp"

#include <chrono>
#include <thread>
#include <vector>

using namespace dist;
using namespace dist::test;

TEST_CASE("a request is done when its message has arrived, and not before") {
  if (world().size() < 2) return skip("needs 2 ranks");
  if (world().rank() > 1) return others_check();
  const int peer = 1 - world().rank();
  std::vector<float> numbers = my_numbers(3);
  if (world().rank() == 0) {
    Request receive = irecv<float>(world(), numbers, peer, /*tag=*/1);
    CHECK_FALSE(receive.is_done());
    send<float>(world(), numbers, peer, /*tag=*/2);  // rank 1 receives this before it sends
    receive.wait();
    CHECK(receive.is_done());
    CHECK(all_from(numbers, 1));
  } else {
    std::vector<float> signal(3);
    recv<float>(world(), signal, peer, /*tag=*/2);
    send<float>(world(), numbers, peer, /*tag=*/1);
    others_check();
  }
}

TEST_CASE("a request that nobody waits for is complete when it goes out of scope") {
  if (world().size() < 2) return skip("needs 2 ranks");
  if (world().rank() > 1) return others_check();
  const int peer = 1 - world().rank();
  std::vector<float> signal = my_numbers(1);
  if (world().rank() == 0) {
    std::vector<float> numbers(3);
    {
      const Request receive = irecv<float>(world(), numbers, peer, /*tag=*/1);
      send<float>(world(), signal, peer, /*tag=*/2);
    }
    CHECK(all_from(numbers, 1));
  } else {
    recv<float>(world(), signal, peer, /*tag=*/2);
    std::this_thread::sleep_for(
        std::chrono::milliseconds(50));  // long after that scope could end
    send<float>(world(), my_numbers(3), peer, /*tag=*/1);
    others_check();
  }
}
