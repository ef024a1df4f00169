// Fault 2: a run is interrupted in mid-epoch and resumed with the same number of ranks.
#include "tests/faults/faults.hpp"

#include <string>

using namespace dist::test;
using nlohmann::json;

TEST_CASE("a run that is killed and resumed ends with the same bits", "[fault02][quick]") {
  const TemporaryFolder folder;
  for (const std::string& optimizer :
       {std::string("--optimizer adam "), std::string("--optimizer sgd --momentum 0.9 ")}) {
    INFO(optimizer);
    const std::string flags = kRun + optimizer + "--checkpoint-every 7 ";
    const CommandResult killed =
        interrupted(4, flags + files(folder, "cut"), folder / "cut.jsonl", 40, "kill -9 $last");
    CHECK(killed.status == 137);
    check_that_it_goes_on(folder, 4, flags);
  }
  figure(2, "Adam and SGD with momentum: 0 differing bits in parameters, optimizer and log");
}

TEST_CASE("a finished run is not trained further when it is resumed", "[fault02]") {
  const TemporaryFolder folder;
  const std::string flags = "--max-steps 12 " + files(folder, "run");
  const json final = trained(mpirun(2, "ddp_training", "--json " + flags)).final;
  const std::string before = content_of(folder / "run.st");
  const CommandResult again = mpirun(2, "ddp_training", "--json --resume " + flags);
  INFO(again.out << again.err);
  REQUIRE(again.status == 0);
  REQUIRE(again.rows().size() == 1);
  CHECK(again.rows()[0]["steps"] == 12);
  CHECK(again.rows()[0]["parameters"] == final["parameters"]);
  CHECK(again.rows()[0]["test_accuracy"] == final["test_accuracy"]);
  CHECK(content_of(folder / "run.st") == before);
  CHECK(lines(content_of(folder / "run.jsonl")) == 12);

  // The same parameters are evaluated with other numbers of ranks.
  for (const int ranks : {1, 3}) {
    const CommandResult tested =
        mpirun(ranks, "ddp_training", "--json --evaluate --init " + (folder / "run.st"));
    REQUIRE(tested.rows().size() == 1);
    CHECK(tested.rows()[0]["test_accuracy"] == final["test_accuracy"]);
  }
}
