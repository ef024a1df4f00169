// Lesson 1: alpha and beta, fitted to measurements and saved for later lessons.
#include "01_send_recv/alpha_beta.hpp"
#include "tests/support/mpi_test.hpp"
#include "tools/exercises/files.hpp"

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace dist;
using namespace dist::test;

namespace {

// Points on the line 2 us + n x 0.5 ns, for n = 4, 16, 64 bytes and so on.
std::vector<CostPoint> points_on_a_line(std::size_t count) {
  std::vector<CostPoint> points;
  for (std::size_t bytes = 4; points.size() < count; bytes *= 4) {
    points.push_back({bytes, 2e-6 + 0.5e-9 * static_cast<double>(bytes)});
  }
  return points;
}

// Makes a new folder this process's working directory for the lifetime of the object.
class InOwnFolder {
 public:
  InOwnFolder() : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(folder_.path());
  }
  ~InOwnFolder() { std::filesystem::current_path(before_); }
  InOwnFolder(InOwnFolder&&) = delete;

 private:
  TemporaryFolder folder_;
  std::filesystem::path before_;
};

}  // namespace

TEST_CASE("the fit recovers alpha and beta, even if any single point is an outlier",
          "[one process]") {
  const LinkCost exact = fit_link_cost(points_on_a_line(11));
  CHECK(close(exact.alpha_s, 2e-6, 1e-9));
  CHECK(close(exact.beta_s_per_byte, 0.5e-9, 1e-9));
  CHECK(close(exact.r2, 1, 1e-12));
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

TEST_CASE("the fit stays with the majority of the points", "[one process]") {
  // With squares, the line would go through the three slow ones: alpha would be five times as
  // large.
  std::vector<CostPoint> points = points_on_a_line(11);
  for (const std::size_t slow : {0, 1, 3}) points[slow].seconds *= 5;
  const LinkCost cost = fit_link_cost(points);
  CHECK(close(cost.alpha_s, 2e-6, 0.01));
  CHECK(close(cost.beta_s_per_byte, 0.5e-9, 0.01));
}

TEST_CASE("all sizes have equal weight, so a kink at the largest sizes does not spoil alpha",
          "[one process]") {
  // Every point is off by 10 %, up or down. From 1 MiB on, messages take twice as long.
  std::vector<CostPoint> points = points_on_a_line(11);
  for (std::size_t i = 0; i < points.size(); ++i) points[i].seconds *= i % 2 == 0 ? 1.1 : 0.9;
  points[9].seconds *= 2;
  points[10].seconds *= 2;
  const LinkCost cost = fit_link_cost(points);
  CHECK(close(cost.alpha_s, 2e-6, 0.15));
  CHECK(close(cost.beta_s_per_byte, 0.5e-9, 0.5));
}

TEST_CASE("neither alpha nor beta is ever negative", "[one process]") {
  const std::vector<CostPoint> falling{{4, 3e-6}, {16, 2e-6}, {64, 1e-6}};
  CHECK(fit_link_cost(falling).beta_s_per_byte == 0);
  const std::vector<CostPoint> steep{{1000, 1e-6}, {2000, 4e-6}, {4000, 16e-6}};
  CHECK(fit_link_cost(steep).alpha_s >= 0);
}

TEST_CASE("costs are interpolated between the points and follow the scaled line beyond them",
          "[one process]") {
  LinkCost cost;
  cost.alpha_s = 1e-6;
  cost.beta_s_per_byte = 1e-9;
  CHECK(close(cost.message_seconds(1000), 2e-6, 1e-12));  // no points: the line
  cost.message = {{1000, 4e-6}, {3000, 6e-6}};
  CHECK(close(cost.message_seconds(1000), 4e-6, 1e-12));
  CHECK(close(cost.message_seconds(1500), 4.5e-6, 1e-12));
  CHECK(close(cost.message_seconds(3000), 6e-6, 1e-12));
  // Beyond the points, the line's ratios apply: on the line, 0 bytes take half as long as 1000,
  // and 7000 bytes take twice as long as 3000.
  CHECK(close(cost.message_seconds(0), 2e-6, 1e-12));
  CHECK(close(cost.message_seconds(7000), 12e-6, 1e-12));
  CHECK(close(cost.exchange_seconds(1000), 2e-6, 1e-12));
}

TEST_CASE("all ranks read back what rank 0 has saved, if it was measured on as many hosts") {
  const InOwnFolder folder;
  CHECK_FALSE(load_link_cost(world()).has_value());
  LinkCost cost = fit_link_cost(points_on_a_line(5));
  cost.exchange = {{4, 7e-6}, {1 << 20, 8e-4}};
  cost.ranks = 3;
  save_link_cost(cost);
  cost.ranks = 4 + world().rank();
  cost.device = DeviceType::cuda;
  save_link_cost(cost);  // replaces the first file
  const std::optional<LinkCost> read = load_link_cost(world());
  REQUIRE(all_ranks(read.has_value()));
  CHECK(close(read->alpha_s, cost.alpha_s, 1e-12));
  CHECK(close(read->beta_s_per_byte, cost.beta_s_per_byte, 1e-12));
  CHECK(close(read->r2, cost.r2, 1e-12));
  CHECK(read->ranks == 4);
  CHECK(read->device == DeviceType::cuda);
  CHECK(read->message.size() == 5);
  CHECK(read->exchange.size() == 2);
  CHECK(close(read->exchange_seconds(1 << 20), 8e-4, 1e-12));
  cost.between_hosts = true;  // all ranks are on one host here
  save_link_cost(cost);
  CHECK_FALSE(load_link_cost(world()).has_value());
}

TEST_CASE("a damaged or truncated file is an error that names the file") {
  const InOwnFolder folder;
  LinkCost cost = fit_link_cost(points_on_a_line(3));
  cost.exchange = cost.message;
  save_link_cost(cost);
  const std::string whole = content_of(kLinkCostFile);
  const auto message_for = [](const std::string& content) {
    std::ofstream(kLinkCostFile) << content;
    return error_of([] { static_cast<void>(load_link_cost(world())); });
  };
  CHECK(message_for(whole) == "nothing thrown");
  const std::string name = kLinkCostFile;
  for (std::size_t cut = 0; cut <= whole.rfind('}'); ++cut) {
    if (message_for(whole.substr(0, cut)).find(name + ": not JSON; ") != 0) FAIL(cut);
  }
  using Change = std::pair<std::string, std::string>;
  for (const auto& [from, to] :
       std::vector<Change>{{"\"alpha_us\": ", "\"alpha_us\": -"},
                           {"\"alpha_us\"", "\"alpha\""},
                           {"\"time_us\": ", "\"time_us\": 3e300, \"x\": "},
                           {"\"time_us\": ", "\"time_us\": 0, \"x\": "},
                           {"\"bytes\": 16", "\"bytes\": 4"},
                           {"\"bytes\": 16", "\"bytes\": \"16\""},
                           {"\"message\"", "\"messages\""}}) {
    INFO(from << " replaced by " << to);
    std::string text = whole;
    text.replace(text.find(from), from.size(), to);
    CHECK(message_for(text).find(name + ": not as send_recv_perf writes it; ") == 0);
  }
}
