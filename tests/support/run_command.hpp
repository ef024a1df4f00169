// Runs a command as a reader would, and keeps its output.
#pragma once

#include <nlohmann/json.hpp>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace dist::test {

// A program for mpirun() that hangs on request (tests/hangs/).
inline constexpr const char* kHangs = "../tests/hangs";

// A folder that belongs to this process alone, and is removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "dist-test-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// While this object exists, this process cannot make any file larger than `bytes`.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    before_handler_ = std::signal(SIGXFSZ, SIG_IGN);  // write() fails, as on a full disk
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, before_handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
  void (*before_handler_)(int) = nullptr;
};

struct CommandResult {
  int status = -1;  // exit status; 128 + signal if it was killed
  std::string out;
  std::string err;

  // Standard output as JSON, one object per line; throws if a line is not JSON.
  std::vector<nlohmann::json> rows() const {
    std::vector<nlohmann::json> parsed;
    std::istringstream lines(out);
    for (std::string line; std::getline(lines, line);) {
      parsed.push_back(nlohmann::json::parse(line));
    }
    return parsed;
  }
  bool says(const std::string& text) const {
    return (out + err).find(text) != std::string::npos;
  }
};

inline CommandResult run_command(const std::string& command) {
  const TemporaryFolder folder;
  const std::string line =
      "{ " + command + "; } >" + (folder / "out") + " 2>" + (folder / "err") + " </dev/null";
  const int raw = std::system(line.c_str());
  CommandResult result;
  result.status = WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);
  result.out = content_of(folder / "out");
  result.err = content_of(folder / "err");
  return result;
}

// Runs "BEFORE mpirun -np RANKS PROGRAM FLAGS" for at most two minutes.
inline CommandResult mpirun(int ranks, const std::string& program, const std::string& flags,
                            const std::string& before = "") {
  return run_command(before + "timeout -k 10 120 " MPIEXEC " -np " + std::to_string(ranks) +
                     " " PROGRAM_DIR "/" + program + " " + flags);
}

// Like mpirun(), but runs in `folder`, where programs keep .learn/.
inline CommandResult mpirun_in(const TemporaryFolder& folder, int ranks,
                               const std::string& program, const std::string& flags,
                               const std::string& before = "") {
  return mpirun(ranks, program, flags, "cd " + folder.path().string() + " && " + before);
}

// A value of `before` for runs that are about the CPU.
inline const std::string kHideGpus = "CUDA_VISIBLE_DEVICES= EMULATED_GPUS=0 ";

// A value of `before` for runs in which all ranks end together with a non-zero status. Without
// it, Open MPI 4 waits a second or two for other ranks, although none are left.
inline const std::string kNoGrace = "OMPI_MCA_odls_base_sigkill_timeout=0 ";

}  // namespace dist::test
