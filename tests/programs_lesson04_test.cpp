// Lesson 4's program as a reader runs it: shards, policies and loaders.
#include "04_distributed_sampler/datasets/idx_dataset.hpp"
#include "tests/support/program_checks.hpp"
#include "tests/support/training_run.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace dist::test;
using nlohmann::json;

TEST_CASE("distributed_sampler verifies its partition", "[lesson04]") {
  for (const int ranks : {1, 2, 3, 4, 7}) {
    for (const std::string flags :
         {"", "--size 10 --drop-last", "--size 2", "--size 0",
          "--size 1000 --no-shuffle --epoch 3", "--picture", "--act policies --size 1"}) {
      const CommandResult result = mpirun(ranks, "distributed_sampler", flags);
      INFO(ranks << " ranks, " << flags << "\n" << result.out << result.err);
      CHECK(result.status == 0);
      CHECK(result.says("verified: every sample was taken as often as it should be"));
      CHECK(lines(result.out) <= 25);
    }
  }
}

TEST_CASE("each policy counts what it repeats and leaves out", "[lesson04]") {
  for (const int ranks : {1, 3, 4}) {
    for (const int size : {1, 2, 3, 10, 12, 1001}) {
      const std::vector<json> rows =
          mpirun(ranks, "distributed_sampler",
                 "--act policies --json --size " + std::to_string(size))
              .rows();
      INFO(ranks << " ranks, " << size << " samples");
      REQUIRE(rows.size() == 3);
      const int up = (size + ranks - 1) / ranks, down = size / ranks;
      const json &pad = rows[0], &drop = rows[1], &exact = rows[2];
      CHECK(pad["taken"] == up * ranks);
      CHECK(pad["never"] == 0);
      if (size >= ranks) CHECK(pad["again"] == up * ranks - size);
      CHECK(drop["taken"] == down * ranks);
      CHECK(drop["again"] == 0);
      CHECK(drop["never"] == size - down * ranks);
      CHECK(exact["taken"] == size);
      CHECK(exact["once"] == size);
      CHECK(exact["fewest_per_rank"] == down);
      CHECK(exact["most_per_rank"] == up);
      const int mistakes = std::clamp(size / 4, 1, 2);
      CHECK(close(exact["accuracy"], double(size - mistakes) / size));
    }
  }
}

TEST_CASE("if a mapped file is shortened, the process ends with an error that names the file",
          "[lesson04]") {
  const TemporaryFolder folder;
  const std::string path = folder / "data";
  const std::size_t size = 1 << 20;
  std::ofstream(path, std::ios::binary) << std::string(size, 'x');
  const std::string said = folder / "said";
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    if (std::freopen(said.c_str(), "w", stderr) == nullptr) ::_exit(99);
    const dist::FileBytes file = dist::open_file(path, dist::idx_length);
    std::filesystem::resize_file(path, size / 2);
    unsigned sum = 0;
    for (const std::uint8_t byte : file.span()) sum += byte;
    ::_exit(sum == 0 ? 97 : 98);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 1);
  CHECK(content_of(said) ==
        "[rank 0] fatal: " + path + ": shortened while in use; byte 524288 is gone\n");
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

TEST_CASE("distributed_sampler refuses bad usage", "[lesson04]") {
  check_refused("distributed_sampler", "--rank 1 --num-replicas 4 --act policies",
                "--rank: works only with --act shards");
}
