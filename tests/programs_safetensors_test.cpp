// PyTorch loads our checkpoint, and we load PyTorch's file, both with the safetensors package.
// The tests are skipped if it is not installed; $PYTHON names the Python that has it.
#include "tests/support/catch.hpp"
#include "tests/support/training_run.hpp"

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>

using namespace dist::test;
using nlohmann::json;

namespace {

// Loads argv[1] into a PyTorch model, prints what strict loading would reject and the hash of
// every parameter, and then doubles the parameters and saves them as argv[2].
const char* const kScript = R"(
import hashlib, json, sys, torch
from safetensors.torch import load_file, save_file
model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
answer = model.load_state_dict(load_file(sys.argv[1]), strict=False)
hashes = lambda: {name: hashlib.sha256(tensor.detach().numpy().tobytes()).hexdigest()
                  for name, tensor in model.state_dict().items()}
print(json.dumps({"missing": answer.missing_keys, "unexpected": answer.unexpected_keys,
                  "sha256": hashes()}))
with torch.no_grad():
    for parameter in model.parameters():
        parameter *= 2
save_file(model.state_dict(), sys.argv[2])
print(json.dumps({"sha256": hashes()}))
)";

json hashes_of(const json& final) {
  json hashes;
  for (const auto& [name, parameter] : final["parameters"].items()) {
    hashes[name] = parameter["sha256"];
  }
  return hashes;
}

}  // namespace

TEST_CASE("PyTorch loads our checkpoint, and we start from PyTorch's file", "[safetensors]") {
  const char* chosen = std::getenv("PYTHON");
  const std::string python = chosen == nullptr ? "python3" : chosen;
  if (run_command(python + " -c 'import safetensors.torch'").status != 0) {
    std::cout << "skipped: " << python << " does not have both PyTorch and safetensors"
              << std::endl;
    return;
  }
  const TemporaryFolder folder;
  const std::string flags =
      "--json --dataset synthetic --samples 64 --layers 6,5,3 --classes 3 ";
  const Training ours =
      trained(mpirun(2, "ddp_training", flags + "--checkpoint " + (folder / "ours")));
  std::ofstream(folder / "script.py") << kScript;
  const CommandResult theirs = run_command(python + " " + (folder / "script.py") + " " +
                                           (folder / "ours") + " " + (folder / "theirs"));
  INFO(theirs.err);
  REQUIRE(theirs.status == 0);
  const json loaded = theirs.rows()[0];
  CHECK(loaded["missing"].empty());
  for (const std::string name : loaded["unexpected"]) CHECK(name.starts_with("optimizer."));
  CHECK(loaded["sha256"] == hashes_of(ours.final));

  const Training from_theirs = trained(
      mpirun(3, "ddp_training", flags + "--max-steps 1 --lr 0 --init " + (folder / "theirs")));
  CHECK(hashes_of(from_theirs.final) == theirs.rows()[1]["sha256"]);
}
