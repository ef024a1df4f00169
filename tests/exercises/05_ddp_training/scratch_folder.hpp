// A folder for this rank alone. The destructor deletes it, or the judge does if the program
// ends before that.
#pragma once

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

namespace dist::exercise {

class ScratchFolder {
 public:
  ScratchFolder() {
    const char* const given = std::getenv("EXERCISE_SCRATCH");  // set by judge
    const std::filesystem::path base = given != nullptr
                                           ? std::filesystem::path(given)
                                           : std::filesystem::temp_directory_path();
    static int count = 0;
    path_ = base / fmt::format("exercise.{}.{}", ::getpid(), count++);
    std::filesystem::create_directory(path_);
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      all.push_back(entry.path().filename().string());
    }
    return all;
  }

 private:
  std::filesystem::path path_;
};

inline std::string bytes_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace dist::exercise
