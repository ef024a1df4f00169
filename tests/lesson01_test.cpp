// Lesson 1: messages arrive whole, where they were sent, and mistakes are errors.
#include "01_send_recv/alpha_beta.hpp"
#include "01_send_recv/eager_limit.hpp"
#include "01_send_recv/exchanges.hpp"
#include "01_send_recv/ping_pong.hpp"
#include "01_send_recv/raw_messages.hpp"
#include "01_send_recv/send_recv.hpp"
#include "common/tracer_numbers.hpp"
#include "common/traffic.hpp"
#include "tests/support/mpi_test.hpp"
#include "tests/support/run_command.hpp"

#include <mpi.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

using namespace dist;
using dist::test::all_ranks;
using dist::test::content_of;
using dist::test::TemporaryFolder;
using dist::test::tricky_sizes;
using dist::test::world;

namespace {

std::vector<float> my_numbers(std::size_t count) {
  std::vector<float> numbers(count);
  fill_tracer_numbers(numbers, world().rank());
  return numbers;
}

bool all_from(const std::vector<float>& data, int rank) {
  return count_wrong(data, [&](std::size_t i) { return tracer_number(rank, i); }) == 0;
}

bool close(double a, double b, double tolerance) {
  return std::abs(a - b) <= tolerance * std::abs(b);
}

// Points on the line 2 us + n x 0.5 ns, by factors of 4 from 4 bytes.
std::vector<CostPoint> points_on_a_line(std::size_t count) {
  std::vector<CostPoint> points;
  for (std::size_t bytes = 4; points.size() < count; bytes *= 4) {
    points.push_back({bytes, 2e-6 + 0.5e-9 * static_cast<double>(bytes)});
  }
  return points;
}

// While it lives, this process works in a folder of its own.
class InOwnFolder {
 public:
  InOwnFolder() : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(folder_.path());
  }
  ~InOwnFolder() { std::filesystem::current_path(before_); }
  InOwnFolder(const InOwnFolder&) = delete;
  InOwnFolder& operator=(const InOwnFolder&) = delete;

 private:
  TemporaryFolder folder_;
  std::filesystem::path before_;
};

template <class T>
bool ring_shift_arrives(std::size_t count) {
  const auto value = [](int rank, std::size_t i) {
    return static_cast<T>(static_cast<std::size_t>(rank) * 29 + i % 97);
  };
  std::vector<T> out(count);
  std::vector<T> in(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = value(world().rank(), i);
  send_recv<T>(world(), out, world().right(), in, world().left());
  for (std::size_t i = 0; i < count; ++i) {
    if (in[i] != value(world().left(), i)) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("a communicator knows its seats") {
  const Communicator& comm = world();
  CHECK(comm.right() == (comm.rank() + 1) % comm.size());
  CHECK((comm.left() + 1) % comm.size() == comm.rank());
  CHECK(comm.local_size() == comm.size());  // the tests run on one host
  CHECK(comm.local_rank() == comm.rank());
}

TEST_CASE("a verdict that one rank denies is false on all") {
  CHECK(world().all_agree(true));
  for (int denier = 0; denier < world().size(); ++denier) {
    CHECK_FALSE(world().all_agree(world().rank() != denier));
  }
}

TEST_CASE("a split groups ranks by color, in the order of key") {
  const Communicator part = world().split(world().rank() % 2, -world().rank());
  const int same_parity = (world().size() + 1 - world().rank() % 2) / 2;
  CHECK(part.size() == same_parity);
  CHECK(part.rank() == same_parity - 1 - world().rank() / 2);
}

TEST_CASE("the raw message goes from rank 0 to rank 1 only") {
  for (const std::size_t count : tricky_sizes()) {
    std::vector<float> numbers = my_numbers(count);
    raw_message(world(), numbers);
    CHECK(all_from(numbers, world().rank() == 1 ? 0 : world().rank()));
  }
}

TEST_CASE("the raw ring leaves the sum of ranks 0 .. r on rank r, and of all on rank 0") {
  for (const std::size_t count : tricky_sizes()) {
    std::vector<float> numbers = my_numbers(count);
    raw_ring(world(), numbers);
    const int last = world().rank() == 0 ? world().size() - 1 : world().rank();
    const auto sum = [&](std::size_t i) {
      double total = 0;
      for (int rank = 0; rank <= last; ++rank) total += tracer_number(rank, i);
      return total;
    };
    CHECK(count_wrong(numbers, sum) == 0);
  }
}

TEST_CASE("send and recv carry every size from every rank to every other") {
  for (const std::size_t count : tricky_sizes()) {
    for (int source = 0; source < world().size(); ++source) {
      for (int dest = 0; dest < world().size(); ++dest) {
        if (source == dest) continue;
        std::vector<float> numbers = my_numbers(count);
        if (world().rank() == source) send<float>(world(), numbers, dest, /*tag=*/source);
        if (world().rank() == dest) {
          recv<float>(world(), numbers, source, /*tag=*/source);
          CHECK(all_from(numbers, source));
        }
      }
    }
  }
}

TEST_CASE("send_recv shifts the ring at once, with every element type") {
  for (const std::size_t count : {std::size_t{0}, std::size_t{5}, std::size_t{1'000'003}}) {
    CHECK(ring_shift_arrives<float>(count));
    CHECK(ring_shift_arrives<double>(count));
    CHECK(ring_shift_arrives<std::int32_t>(count));
    CHECK(ring_shift_arrives<std::int64_t>(count));
    CHECK(ring_shift_arrives<std::uint64_t>(count));
    CHECK(ring_shift_arrives<char>(count));
  }
}

TEST_CASE("isend and irecv deliver what stood there when they were waited for") {
  for (const std::size_t count : tricky_sizes()) {
    const std::vector<float> out = my_numbers(count);
    std::vector<float> in(count, -1.0F);
    Request receive = irecv<float>(world(), in, world().left());
    Request sending = isend<float>(world(), out, world().right());
    receive.wait();
    sending.wait();
    CHECK(all_from(in, world().left()));
  }
}

TEST_CASE("messages with different tags are not mixed up") {
  if (world().size() < 2 || world().rank() > 1) return;
  std::vector<float> first(10);
  std::vector<float> second(10);
  if (world().rank() == 0) {
    fill_tracer_numbers(first, 1);
    fill_tracer_numbers(second, 2);
    const Request a = isend<float>(world(), first, 1, /*tag=*/1);
    const Request b = isend<float>(world(), second, 1, /*tag=*/2);
  } else {
    recv<float>(world(), second, 0, /*tag=*/2);  // asks for the later one first
    recv<float>(world(), first, 0, /*tag=*/1);
    CHECK(all_from(first, 1));
    CHECK(all_from(second, 2));
  }
}

TEST_CASE("a message shorter than expected is an error, not half a tensor") {
  if (world().size() < 2 || world().rank() > 1) return;
  std::vector<float> numbers = my_numbers(10);
  if (world().rank() == 0) {
    send<float>(world(), std::span<const float>(numbers).first(7), 1);
  } else {
    CHECK_THROWS_AS(recv<float>(world(), numbers, 0), Error);
  }
}

TEST_CASE("a message longer than expected is an error that names MPI's reason") {
  if (world().size() < 2 || world().rank() > 1) return;
  std::vector<float> numbers = my_numbers(10);
  if (world().rank() == 0) {
    send<float>(world(), numbers, 1);
  } else {
    std::string message;
    try {
      recv<float>(world(), std::span<float>(numbers).first(7), 0);
    } catch (const Error& error) {
      message = error.what();
    }
    CHECK(message.find("MPI_ERR_TRUNCATE") != std::string::npos);
    CHECK(message.find("send_recv.hpp") != std::string::npos);
  }
}

TEST_CASE("a rank that does not exist is an error, not a crash") {
  std::vector<float> numbers(1);
  CHECK_THROWS_AS(send<float>(world(), numbers, world().size()), Error);
}

TEST_CASE("ping-pong returns the data whole and times above zero") {
  if (world().size() < 2) return;
  const Stream stream(Device{});
  for (const std::size_t count : {std::size_t{1}, std::size_t{997}, std::size_t{100'003}}) {
    const Tensor tensor({count}, Device{});
    const PingPongTimes times = ping_pong(world(), tensor, stream);
    CHECK(times.correct);
    if (world().rank() == 0) {
      CHECK(times.one_way_us > 0);
      CHECK(times.combined_us > 0);
      CHECK(times.nonblocking_us > 0);
      CHECK(times.ring_step_us > 0);
    }
  }
}

TEST_CASE("every way of an exchange brings the left neighbour's numbers, at every size") {
  if (world().size() < 2) return;
  for (const WayToExchange& way : kWaysToExchange) {
    std::vector<std::size_t> sizes = tricky_sizes();
    sizes.push_back(1'000'003);
    for (const std::size_t count : sizes) {
      const std::vector<float> out = my_numbers(count);
      std::vector<float> in(count, -1.0F);
      way.exchange(world(), out, in);
      INFO(way.name << ", " << count << " numbers");
      CHECK(all_from(in, world().left()));
    }
  }
}

TEST_CASE("every way of an exchange is one message per rank, to the right") {
  if (world().size() < 2) return;
  for (const WayToExchange& way : kWaysToExchange) {
    const std::vector<float> out = my_numbers(100'003);
    std::vector<float> in(out.size());
    const Traffic traffic = count_traffic(world(), [&] { way.exchange(world(), out, in); });
    INFO(way.name);
    CHECK(traffic.messages_per_rank == 1);
    CHECK(traffic.bytes_per_rank == out.size() * sizeof(float));
    CHECK(traffic.peers == std::vector<int>{1});
    CHECK(traffic.collectives == 0);
  }
}

TEST_CASE("a request is done when its message is there, and not before") {
  if (world().size() < 2 || world().rank() > 1) return;
  const int peer = 1 - world().rank();
  std::vector<float> numbers = my_numbers(3);
  if (world().rank() == 0) {
    Request receive = irecv<float>(world(), numbers, peer, /*tag=*/1);
    CHECK_FALSE(receive.is_done());
    send<float>(world(), numbers, peer, /*tag=*/2);  // rank 1 sends only after this
    receive.wait();
    CHECK(receive.is_done());
    CHECK(all_from(numbers, 1));
  } else {
    std::vector<float> signal(3);
    recv<float>(world(), signal, peer, /*tag=*/2);
    send<float>(world(), numbers, peer, /*tag=*/1);
  }
}

TEST_CASE("messages up to the eager limit leave without their receive, longer ones do not") {
  const std::vector<EagerLimit> limits = find_eager_limits(world());
  REQUIRE(all_ranks(limits.size() == (world().size() < 2 ? 0U : 1U)));  // one host
  for (const EagerLimit& limit : limits) {
    CHECK(limit.sender == 0);
    CHECK(limit.receiver == 1);
    CHECK(limit.same_host);
    REQUIRE(all_ranks(limit.found));
    for (const std::size_t bytes : {limit.bytes, limit.bytes + 1}) {
      std::vector<char> data(bytes, world().rank() == 0 ? 'x' : '.');
      if (world().rank() == 0) {
        Request sending = isend<char>(world(), data, 1);
        // Three: rank 1 may have spoken for the first, and MPI for the second, too early.
        for (int i = 0; i < 3; ++i) world().barrier();
        CHECK(sending.is_done() == (bytes == limit.bytes));
        world().barrier();
        sending.wait();
      } else {
        for (int i = 0; i < 4; ++i) world().barrier();
        if (world().rank() == 1) recv<char>(world(), data, 0);
        CHECK((world().rank() > 1 || data == std::vector<char>(bytes, 'x')));
      }
    }
  }
}

TEST_CASE("more elements than MPI can count are refused before a byte is touched") {
  char byte = 0;
  const std::size_t count = std::size_t{1} << 31;
  const std::span<char> huge(&byte, count);  // nothing of it may be read
  const std::span<const char> out = huge;
  std::string message;
  try {
    send<char>(world(), out, world().right());
  } catch (const Error& error) {
    message = error.what();
  }
  CHECK(message.find("2147483648 elements") != std::string::npos);
  CHECK(message.find("2147483647") != std::string::npos);
  CHECK_THROWS_AS(recv<char>(world(), huge, world().left()), Error);
  CHECK_THROWS_AS(isend<char>(world(), out, world().right()), Error);
  CHECK_THROWS_AS(irecv<char>(world(), huge, world().left()), Error);
  CHECK_THROWS_AS(send_recv<char>(world(), out, world().right(), huge, world().left()), Error);
}

TEST_CASE("alpha and beta come back from points on a line") {
  const LinkCost cost = fit_link_cost(points_on_a_line(11));
  CHECK(close(cost.alpha_s, 2e-6, 1e-9));
  CHECK(close(cost.beta_s_per_byte, 0.5e-9, 1e-9));
  CHECK(close(cost.r2, 1, 1e-12));
  CHECK(cost.message.size() == 11);
}

TEST_CASE("one wild measurement, whichever it is, does not move the line") {
  for (std::size_t wild = 0; wild < 11; ++wild) {
    for (const double factor : {0.2, 5.0, 100.0}) {
      std::vector<CostPoint> points = points_on_a_line(11);
      points[wild].seconds *= factor;
      const LinkCost cost = fit_link_cost(points);
      INFO("point " << wild << " times " << factor);
      CHECK(close(cost.alpha_s, 2e-6, 0.01));
      CHECK(close(cost.beta_s_per_byte, 0.5e-9, 0.01));
      CHECK(cost.r2 < 0.999);
    }
  }
}

TEST_CASE("every size counts alike: a kink of the largest does not cost alpha") {
  // Noise of 10 % up and down on every point, and twice the time per byte from 1 MiB on.
  std::vector<CostPoint> points = points_on_a_line(11);
  for (std::size_t i = 0; i < points.size(); ++i) points[i].seconds *= i % 2 == 0 ? 1.1 : 0.9;
  points[9].seconds *= 2;
  points[10].seconds *= 2;
  const LinkCost cost = fit_link_cost(points);
  CHECK(close(cost.alpha_s, 2e-6, 0.15));
  CHECK(close(cost.beta_s_per_byte, 0.5e-9, 0.5));
}

TEST_CASE("neither alpha nor beta is ever negative") {
  const std::vector<CostPoint> falling{{4, 3e-6}, {16, 2e-6}, {64, 1e-6}};
  CHECK(fit_link_cost(falling).beta_s_per_byte == 0);
  const std::vector<CostPoint> steep{{1000, 1e-6}, {2000, 4e-6}, {4000, 16e-6}};
  CHECK(fit_link_cost(steep).alpha_s >= 0);
}

TEST_CASE("too few points, or points that cannot be, have no fit") {
  CHECK_THROWS_AS(fit_link_cost({}), Error);
  CHECK_THROWS_AS(fit_link_cost(points_on_a_line(2)), Error);
  CHECK_THROWS_AS(fit_link_cost({{4, 1e-6}, {4, 1e-6}, {16, 1e-6}}), Error);
  CHECK_THROWS_AS(fit_link_cost({{4, 1e-6}, {8, 0}, {16, 1e-6}}), Error);
  CHECK_THROWS_AS(fit_link_cost({{4, 1e-6}, {8, std::nan("")}, {16, 1e-6}}), Error);
}

TEST_CASE("costs are read between the points, and go on as the line does beyond them") {
  LinkCost cost;
  cost.alpha_s = 1e-6;
  cost.beta_s_per_byte = 1e-9;
  CHECK(close(cost.message_seconds(1000), 2e-6, 1e-12));  // no points: the line
  cost.message = {{1000, 4e-6}, {3000, 6e-6}};
  CHECK(close(cost.message_seconds(1000), 4e-6, 1e-12));
  CHECK(close(cost.message_seconds(1500), 4.5e-6, 1e-12));
  CHECK(close(cost.message_seconds(3000), 6e-6, 1e-12));
  CHECK(close(cost.message_seconds(0), 2e-6, 1e-12));      // line 1, against 2 at the first
  CHECK(close(cost.message_seconds(7000), 12e-6, 1e-12));  // line 8, against 4 at the last
  CHECK(close(cost.exchange_seconds(1000), 2e-6, 1e-12));
}

TEST_CASE("what is kept is what is read") {
  const InOwnFolder folder;
  CHECK_FALSE(load_link_cost().has_value());
  LinkCost cost = fit_link_cost(points_on_a_line(5));
  cost.exchange = {{4, 7e-6}, {1 << 20, 8e-4}};
  cost.ranks = 3;
  cost.device = DeviceType::cuda;
  save_link_cost(cost);
  cost.ranks = 4;
  save_link_cost(cost);  // replaces the first
  const std::optional<LinkCost> read = load_link_cost();
  CHECK(read.has_value());
  if (!read) return;
  CHECK(close(read->alpha_s, cost.alpha_s, 1e-12));
  CHECK(close(read->beta_s_per_byte, cost.beta_s_per_byte, 1e-12));
  CHECK(close(read->r2, cost.r2, 1e-12));
  CHECK(read->ranks == 4);
  CHECK(read->device == DeviceType::cuda);
  CHECK(read->message.size() == 5);
  CHECK(read->exchange.size() == 2);
  CHECK(read->exchange.back().bytes == 1 << 20);
  CHECK(close(read->exchange_seconds(1 << 20), 8e-4, 1e-12));
  // Nothing else is left behind.
  const std::filesystem::directory_iterator files(".learn");
  CHECK(std::distance(begin(files), end(files)) == 1);
}

TEST_CASE("a damaged file is an error that names it, wherever it is cut") {
  const InOwnFolder folder;
  LinkCost cost = fit_link_cost(points_on_a_line(3));
  cost.exchange = cost.message;
  cost.ranks = 2;
  save_link_cost(cost);
  const std::string whole = content_of(kLinkCostFile);
  const auto message_for = [](const std::string& content) -> std::string {
    std::ofstream(kLinkCostFile) << content;
    try {
      static_cast<void>(load_link_cost());
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  CHECK(message_for(whole).empty());
  const std::size_t end = whole.rfind('}');
  for (std::size_t cut = 0; cut <= end; ++cut) {
    if (message_for(whole.substr(0, cut)).find(kLinkCostFile) == std::string::npos) FAIL(cut);
  }
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = whole;
    text.replace(text.find(from), from.size(), to);
    return message_for(text);
  };
  CHECK(with("\"alpha_us\": ", "\"alpha_us\": -").find("'alpha_us' is -") != std::string::npos);
  CHECK(with("\"alpha_us\"", "\"alpha\"").find("no number 'alpha_us'") != std::string::npos);
  CHECK(with("\"beta_ns_per_byte\": ", "\"beta_ns_per_byte\": 1e999, \"x\": ") != "");
  CHECK(with("\"cpu\"", "\"tpu\"").find("no 'device'") != std::string::npos);
  CHECK(with("\"bytes\": 16", "\"bytes\": 4").find("does not ascend") != std::string::npos);
  CHECK(with("\"bytes\": 16", "\"bytes\": -16").find("without its bytes") != std::string::npos);
  CHECK(with("\"ranks\": 2", "\"ranks\": 1e300").find("'ranks'") != std::string::npos);
  CHECK(message_for("[1, 2]").find("not JSON") != std::string::npos);
  CHECK(message_for(std::string(2 << 20, ' ')).find("bytes, where") != std::string::npos);
}

TEST_CASE("a folder that cannot be written is an error that names the file") {
  const InOwnFolder folder;
  std::ofstream(".learn") << "a file where the folder should be";
  std::string message;
  try {
    save_link_cost(fit_link_cost(points_on_a_line(3)));
  } catch (const Error& error) {
    message = error.what();
  }
  CHECK(message.find(std::string(kLinkCostFile) + ": cannot be written") == 0);
}

// The next two fail on purpose: programs_test.cpp checks how the test runner reports them.

TEST_CASE("rank 1 fails on purpose", "[.rank-1-fails]") {
  CHECK(world().rank() != 1);
  REQUIRE(all_ranks(true));
}

TEST_CASE("all but rank 0 wait for ever on purpose", "[.hangs]") {
  std::vector<float> numbers(1);
  if (world().rank() != 0) recv<float>(world(), numbers, 0, /*tag=*/77);
  world().barrier();
}
