// The file of --metrics, of a run that is resumed.
#include "05_ddp_training/trainer/options.hpp"
#include "05_ddp_training/trainer/report.hpp"
#include "tests/support/mpi_test.hpp"
#include "tools/exercises/files.hpp"

#include <fmt/format.h>

#include <fstream>
#include <string>

using namespace dist;
using namespace dist::test;

TEST_CASE("the metrics of a resumed run are those of a run that never stopped",
          "[one process]") {
  const TemporaryFolder folder;
  const std::string path = folder / "steps.jsonl";
  const auto line = [](int step) {
    return fmt::format("{{\"step\":{},\"epoch\":0,\"loss\":0.5,\"lr\":0.1}}\n", step);
  };
  const Console console(/*json=*/false);
  Options options;
  const auto report_to = [&](const std::string& file, std::size_t steps_before) {
    options.metrics = file;
    return Report(console, options, steps_before, 10);
  };
  std::ofstream(path) << line(0) << line(1) << line(2) << line(3) << "{\"step\":4,\"lo";
  report_to(path, 2);
  CHECK(content_of(path) == line(0) + line(1));
  report_to(folder / "new.jsonl", 2);  // the earlier run wrote no metrics
  CHECK(content_of(folder / "new.jsonl").empty());
  report_to(path, 0);
  CHECK(content_of(path).empty());
  CHECK(contains(error_of([&] { report_to(folder / "no/folder", 0); }), "no/folder"));
}
