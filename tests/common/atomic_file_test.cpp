// Output files are checked in advance and replaced in one step.
#include "common/atomic_file.hpp"

#include "tests/support/mpi_test.hpp"
#include "tools/exercises/files.hpp"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <vector>

namespace {

using namespace dist;
using dist::test::content_of;
using dist::test::error_of;
using dist::test::TemporaryFolder;

mode_t mode_of(const std::string& path) {
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_mode & 0777;
}

std::string why_not(const std::string& flag, const std::string& path) {
  return error_of([&] { claim(flag, path); });
}

}  // namespace

TEST_CASE("a file is written under a unique name, readable only by its owner") {
  const TemporaryFolder folder;
  std::vector<std::string> seen;
  for (int i = 0; i < 2; ++i) {
    replace_file(folder / "x", [&](const File& file) {
      file.write("abc", 3);
      for (const std::string& name : folder.names()) {
        if (!name.starts_with("x.unfinished-")) continue;
        seen.push_back(name);
        CHECK(mode_of(folder / name) == 0600);
      }
    });
  }
  REQUIRE(seen.size() == 2);
  CHECK(seen[0] != seen[1]);  // or another user could create a link under that name
  CHECK(content_of(folder / "x") == "abc");
  CHECK(folder.names().size() == 1);
}

TEST_CASE("a replaced file keeps its mode, and a link stays a link") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "elsewhere");
  std::filesystem::create_symlink("elsewhere/x", folder / "link");
  write_file_at_once(folder / "link", "new");  // the link's target does not exist yet
  CHECK(content_of(folder / "elsewhere/x") == "new");
  ::chmod((folder / "elsewhere/x").c_str(), 0640);
  write_file_at_once(folder / "link", "newer");
  CHECK(std::filesystem::is_symlink(folder / "link"));
  CHECK(content_of(folder / "elsewhere/x") == "newer");
  CHECK(mode_of(folder / "elsewhere/x") == 0640);
}

TEST_CASE("something that is not a regular file is never replaced by one") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "folder");
  ::mkfifo((folder / "pipe").c_str(), 0600);
  std::filesystem::create_symlink("/dev/null", folder / "device");
  std::filesystem::create_symlink("loop", folder / "loop");
  for (const std::string name : {"folder", "pipe", "device", "loop"}) {
    const std::string path = folder / name;
    const auto type = std::filesystem::symlink_status(path).type();
    CHECK(why_not("--flag", path).starts_with("--flag: " + path));
    CHECK(error_of([&] { write_file_at_once(path, "x"); }).starts_with(path));
    CHECK(std::filesystem::symlink_status(path).type() == type);
  }
  CHECK(folder.names().size() == 4);
}

TEST_CASE("two flags cannot name the same file, however its path is spelled") {
  const TemporaryFolder folder;
  std::ofstream(folder / "x") << "kept";
  std::filesystem::create_symlink("x", folder / "soft");
  std::filesystem::create_symlink("not-yet", folder / "dangling");
  CHECK(why_not("-a", folder / "x") == "nothing thrown");
  const std::string owner = " is in use by -a of process " + std::to_string(::getpid());
  for (const std::string name : {"x", "./x", "soft"}) {
    CHECK(why_not("-b", folder / name).starts_with("-b: " + (folder / name) + owner + " on "));
  }
  CHECK(why_not("-a", folder / "not-yet") == "nothing thrown");
  CHECK(why_not("-b", folder / "dangling").starts_with("-b: "));
  CHECK(why_not("-c", "") == "nothing thrown");
  CHECK(why_not("-d", folder / "y") == "nothing thrown");
  CHECK(content_of(folder / "x") == "kept");
}

TEST_CASE("a file belongs to one process until that dies, and then what it left is removed") {
  const TemporaryFolder folder;
  const pid_t writer = ::fork();
  if (writer == 0) {
    claim("--flag", folder / "x");
    for (const std::string name : {"x.unfinished-dead01", "xx", "x.unfinished-notes.md",
                                   "x.unfinished-", "x.unfinished-a-note"}) {
      std::ofstream(folder / name) << "half";
    }
    ::raise(SIGSTOP);
    ::_exit(0);
  }
  ::waitpid(writer, nullptr, WUNTRACED);  // returns when the writer stops itself
  const std::string owner = "--flag of process " + std::to_string(writer) + " on ";
  CHECK(why_not("--f", folder / "x")
            .starts_with("--f: " + (folder / "x") + " is in use by " + owner));
  CHECK(std::filesystem::exists(folder / "x.unfinished-dead01"));
  ::kill(writer, SIGKILL);
  ::waitpid(writer, nullptr, 0);
  CHECK(why_not("--flag", folder / "x") == "nothing thrown");
  CHECK(content_of(folder / ".x.lock").starts_with("--flag of process "));
  auto names = folder.names();
  std::ranges::sort(names);
  CHECK(names == std::vector<std::string>{".x.lock", "x.unfinished-", "x.unfinished-a-note",
                                          "x.unfinished-notes.md", "xx"});
}

TEST_CASE("a file that is called like a lock, but is not one of ours, is left as it is") {
  const TemporaryFolder folder;
  std::ofstream(folder / "mine") << "precious";
  std::filesystem::create_hard_link(folder / "mine", folder / ".x.lock");
  CHECK(why_not("--flag", folder / "x") == "--flag: " + (folder / "x") + ": " +
                                               (folder / ".x.lock") +
                                               " is not a lock of ours: give it another name");
  CHECK(content_of(folder / ".x.lock") == "precious");
  CHECK(folder.names().size() == 2);
  // That of a writer which was killed before it wrote anything.
  std::ofstream(folder / ".y.lock") << "";
  CHECK(why_not("--flag", folder / "y") == "nothing thrown");
}
