// Fault 11: files are damaged or contain wrong values.
#include "05_ddp_training/checkpoint/safetensors.hpp"
#include "tests/faults/faults.hpp"

#include <fstream>
#include <string>
#include <sys/stat.h>

using namespace dist::test;
using nlohmann::json;

TEST_CASE("files that a run cannot continue from are refused and left unchanged", "[fault11]") {
  const TemporaryFolder folder;
  const std::string base = "--dataset synthetic --samples 64 --layers 6,5,10 --batch-size 4 ";
  const std::string flags = base + files(folder, "run");
  trained(mpirun(2, "ddp_training", "--json --max-steps 3 " + flags));
  const std::string checkpoint = content_of(folder / "run.st");
  const std::string metrics = content_of(folder / "run.jsonl");
  std::ofstream(folder / "cut.st", std::ios::binary) << checkpoint.substr(0, 500);
  std::string flipped = checkpoint;
  flipped[flipped.size() - 20] ^= 4;
  std::ofstream(folder / "flipped.st", std::ios::binary) << flipped;

  int cases = 0;
  const auto refused = [&](const std::string& more, const std::string& words) {
    check_refused("ddp_training", more, words, 2);
    ++cases;
  };
  refused("--resume " + base, "--resume: needs --checkpoint");
  refused(base + "--resume --checkpoint " + (folder / "none.st"),
          "--resume: there is no file " + (folder / "none.st"));
  refused(base + "--resume --checkpoint " + (folder / "cut.st"),
          "--resume: " + (folder / "cut.st"));
  refused(base + "--resume --checkpoint " + (folder / "flipped.st"),
          "--resume: " + (folder / "flipped.st") + ": damaged");
  refused(flags + "--resume --lr 0.5", "--resume: --lr: 0.5, but " + (folder / "run.st"));
  refused(flags + "--resume --seed 3", "--resume: --seed: 3");
  refused(flags + "--resume --samples 63", "--resume: --samples: 63");
  refused(flags + "--resume --batch-size 5", "--resume: samples per step: 10");
  refused(flags + "--resume --optimizer sgd", "--resume: --lr: 0.01");
  refused(flags + "--resume --layers 6,7,10",
          "--resume: " + (folder / "run.st") + ": 0.weight is");
  refused(flags + "--resume --init " + (folder / "run.st"),
          "--init: cannot be combined with --resume");
  refused(base + "--init " + (folder / "none.st"), "--init: there is no file");
  refused(base + "--init " + (folder / "flipped.st"), "--init: " + (folder / "flipped.st"));
  refused("--evaluate", "--evaluate: needs the parameters of --init");
  refused(base + "--evaluate --init " + (folder / "run.st"), "--evaluate: the synthetic data");
  refused(base + "--check-replicas -1", "--check-replicas: -1 is not between");
  // Files with impossible values or without a checksum are refused before training starts.
  const auto with = [&](const std::string& key, const std::string& value) {
    dist::SafetensorsFile file = dist::read_safetensors(folder / "run.st");
    file.metadata[key] = value;
    dist::write_safetensors(folder / "changed.st", file.tensors, file.metadata,
                            dist::Stream({}));
    return base + "--resume --checkpoint " + (folder / "changed.st");
  };
  refused(with("step", "99999999999999999999"), "--resume: " + (folder / "changed.st"));
  refused(with("taken", "64"), "--resume: " + (folder / "changed.st") + ": its 'taken' is 64");
  refused(with("optimizer_steps", "4"), "--resume: " + (folder / "changed.st"));
  refused(with("run --lr", "\x1b[2J"), "--resume: --lr: 0.001, but " + (folder / "changed.st") +
                                           " is from a run with \\x1b[2J");
  std::string unchecked = checkpoint;
  unchecked.replace(unchecked.find("xxh3_64"), 7, "xxh3_46");
  std::ofstream(folder / "unchecked.st", std::ios::binary) << unchecked;
  refused(base + "--resume --checkpoint " + (folder / "unchecked.st"),
          "--resume: " + (folder / "unchecked.st") + ": has no checksum");
  ::mkfifo((folder / "pipe").c_str(), 0600);
  refused(base + "--init " + (folder / "pipe"),
          "--init: " + (folder / "pipe") + ": is not a regular file");
  CHECK(content_of(folder / "run.jsonl") == metrics);
  const bool untouched = content_of(folder / "run.st") == checkpoint;
  CHECK(untouched);
  figure(11, std::to_string(cases) + " files and flags refused by name");
}
