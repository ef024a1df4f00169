// Fault 19: the link between two hosts drops.
#include "05_ddp_training/checkpoint/safetensors.hpp"
#include "tests/faults/faults.hpp"
#include "tests/support/two_hosts.hpp"

#include <string>

using namespace dist::test;

TEST_CASE("a dropped link ends the job with a diagnosis and leaves the checkpoint intact",
          "[fault19]") {
  if (!there_are_two_hosts()) return;
  for (const int ranks_per_host : {1, 2}) {
    const TemporaryFolder folder;
    const std::string file = folder / "model.safetensors";
    const CommandResult result =
        on_two_hosts(ranks_per_host, "ddp_training",
                     "--epochs 100000 --timeout 8 --checkpoint-every 5 --checkpoint " + file,
                     "--drop-when " + file);
    INFO(result.out << result.err);
    CHECK(result.says("two_hosts: the cable is unplugged"));
    CHECK(result.err.find("hang: rank 0 ") != std::string::npos);
    // The cable may go while a bucket travels, or between two steps, while the loss does.
    const bool during_a_bucket = result.says("of all_reduce #") && result.says(" (bucket ");
    CHECK((during_a_bucket || result.says("of mean of the loss #")));
    CHECK(result.says("hang: nothing has moved on this host for 8 s (--timeout)\n"));
    // Until it is killed, mpirun waits for an answer from the other host, so its exit status
    // does not show how the run ended.
    CHECK(result.status != 0);
    CHECK(result.status != 124);
    CHECK(dist::read_safetensors(file).has_checksum);  // the file is intact
  }
  figure(19, "a diagnosis from both hosts, and an intact checkpoint");
}
