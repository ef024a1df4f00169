// Tests what is read of a control group, of both versions, in folders like those of Linux.
#include "common/cpu_quota.hpp"

#include "tests/support/mpi_test.hpp"
#include "tools/exercises/files.hpp"

#include <cmath>
#include <filesystem>
#include <fstream>

using namespace dist;
using namespace dist::test;
namespace fs = std::filesystem;

namespace {

struct ControlGroups {
  TemporaryFolder folder;
  fs::path groups = folder.path() / "groups", membership = folder.path() / "membership";

  void write(const fs::path& path, const char* text) const {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  CpuQuota quota() const { return cpu_quota(membership, groups); }
};

}  // namespace

TEST_CASE("the quota of a control group is the least of its own and those around it") {
  const ControlGroups tree;
  CHECK(std::isinf(tree.quota().processors));
  tree.write(tree.membership, "1:cpuset:/elsewhere\n0::/a/b\n");
  CHECK(std::isinf(tree.quota().processors));
  tree.write(tree.groups / "a/b/cpu.max", "max 100000\n");
  CHECK(std::isinf(tree.quota().processors));
  tree.write(tree.groups / "a/cpu.max", "150000 100000\n");
  tree.write(tree.groups / "a/cpu.stat", "usage_usec 5\nnr_periods 63\nnr_throttled 54\n");
  CHECK(tree.quota().processors == 1.5);
  CHECK(tree.quota().periods == 63);
  CHECK(tree.quota().paused_periods == 54);
  tree.write(tree.groups / "cpu.max", "400000 100000\n");
  CHECK(tree.quota().processors == 1.5);
  tree.write(tree.groups / "a/b/cpu.max", "50000 100000\n");
  CHECK(tree.quota().processors == 0.5);
  CHECK(tree.quota().periods == 0);  // that group's own
}

TEST_CASE("the first version of control groups has a tree for each controller") {
  const ControlGroups tree;
  tree.write(tree.membership, "4:cpu,cpuacct:/job/step\n3:cpuset:/other\n0::/\n");
  tree.write(tree.groups / "cpu/other/cpu.cfs_quota_us", "1000\n");  // not this process's
  tree.write(tree.groups / "cpu/other/cpu.cfs_period_us", "100000\n");
  tree.write(tree.groups / "cpu/cpu.cfs_quota_us", "-1\n");
  tree.write(tree.groups / "cpu/cpu.cfs_period_us", "100000\n");
  CHECK(std::isinf(tree.quota().processors));
  // In a container, the folders of the host may not exist.
  tree.write(tree.groups / "cpu/cpu.cfs_quota_us", "250000\n");
  tree.write(tree.groups / "cpu/cpu.stat", "nr_periods 7\nnr_throttled 3\nthrottled_time 1\n");
  CHECK(tree.quota().processors == 2.5);
  CHECK(tree.quota().paused_periods == 3);
  tree.write(tree.groups / "cpu/job/cpu.cfs_quota_us", "50000\n");
  tree.write(tree.groups / "cpu/job/cpu.cfs_period_us", "100000\n");
  CHECK(tree.quota().processors == 0.5);
}
