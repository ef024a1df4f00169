// Lesson 4's program as a reader runs it: shards and policies.
#include "tests/support/program_checks.hpp"
#include "tests/support/training_run.hpp"

#include <algorithm>
#include <regex>
#include <string>
#include <vector>

using namespace dist::test;
using nlohmann::json;

TEST_CASE("distributed_sampler verifies its partition", "[lesson04]") {
  for (const int ranks : {1, 2, 3, 4, 7}) {
    for (const std::string flags : {"", "--size 10 --drop-last", "--size 2", "--size 0",
                                    "--size 1000 --no-shuffle --epoch 3", "--size 1"}) {
      const CommandResult result = mpirun(ranks, "distributed_sampler", flags);
      INFO(ranks << " ranks, " << flags << "\n" << result.out << result.err);
      CHECK(result.status == 0);
      CHECK(result.says("verified: every sample was taken as often as it should be"));
      CHECK(lines(result.out) <= 25);
      CHECK_FALSE(result.says("nan"));  // 1 sample on 3 ranks: two ranks have no mean
    }
  }
}

TEST_CASE("each policy counts what it repeats and leaves out", "[lesson04]") {
  for (const int ranks : {1, 3, 4}) {
    for (const int size : {1, 2, 3, 10, 12, 1001}) {
      const std::string out =
          mpirun(ranks, "distributed_sampler", "--size " + std::to_string(size)).out;
      INFO(ranks << " ranks, " << size << " samples\n" << out);
      // A line of the table: the policy, then how many samples were taken in all, and how many
      // of them once, more than once, and never.
      const auto counts = [&](const std::string& policy) {
        static const std::string number = " +([0-9]+)", per_rank = " +[0-9]+( to [0-9]+)?";
        std::smatch found;
        std::regex_search(
            out, found,
            std::regex("\n +" + policy + number + per_rank + number + number + number + " +"));
        std::vector<int> values;
        for (const int group : {1, 3, 4, 5})
          values.push_back(std::stoi("0" + found.str(group)));
        return values;
      };
      const int up = (size + ranks - 1) / ranks * ranks, down = size / ranks * ranks;
      const int again = std::min(up - size, size);
      CHECK(counts("pad") == std::vector{up, size - again, again, 0});
      CHECK(counts("drop") == std::vector{down, down, 0, size - down});
      CHECK(counts("exact") == std::vector{size, size, 0, 0});
    }
  }
}

TEST_CASE("distributed_sampler gives the shards of ranks that are not running", "[lesson04]") {
  const std::vector<json> launched =
      mpirun(3, "distributed_sampler", "--size 11 --json").rows();
  REQUIRE(launched.size() == 3);
  for (int rank = 0; rank < 3; ++rank) {
    const std::vector<json> alone =
        run_command(PROGRAM_DIR
                    "/distributed_sampler --size 11 --num-replicas 3 --json --rank " +
                    std::to_string(rank))
            .rows();
    REQUIRE(alone.size() == 1);
    CHECK(alone[0] == launched[static_cast<std::size_t>(rank)]);
  }
}
