#include "common/output_file.hpp"

#include "common/check.hpp"

#include <fmt/core.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <unistd.h>

namespace dist {

void require_writable(const std::string& flag, const std::string& path) {
  const std::filesystem::path file(path);
  std::error_code problem;
  if (std::filesystem::is_directory(file, problem)) {
    throw Error(fmt::format("{}: {} is a folder", flag, path));
  }
  const std::string folder = file.has_parent_path() ? file.parent_path().string() : ".";
  if (!std::filesystem::is_directory(folder, problem)) {
    throw Error(fmt::format("{}: there is no folder {}", flag, folder));
  }
  const bool exists = std::filesystem::exists(file, problem);
  if (::access(folder.c_str(), W_OK) != 0 || (exists && ::access(path.c_str(), W_OK) != 0)) {
    throw Error(fmt::format("{}: {} cannot be written", flag, path));
  }
}

void write_file_at_once(const std::string& path, const std::string& content) {
  // A device is no file to be renamed away.
  std::error_code problem;
  const bool plain = !std::filesystem::exists(path, problem) ||
                     std::filesystem::is_regular_file(path, problem);
  const std::string target =
      plain ? fmt::format("{}.{}.tmp", path, static_cast<long>(::getpid())) : path;
  std::FILE* const file = std::fopen(target.c_str(), "wb");
  if (file == nullptr) {
    throw Error(fmt::format("{}: cannot be written: {}", path, std::strerror(errno)));
  }
  bool written = std::fwrite(content.data(), 1, content.size(), file) == content.size();
  written = std::fclose(file) == 0 && written;
  if (written && plain) written = std::rename(target.c_str(), path.c_str()) == 0;
  if (!written) {
    const std::string reason = std::strerror(errno);
    if (plain) std::remove(target.c_str());
    throw Error(fmt::format("{}: cannot be written: {}", path, reason));
  }
}

}  // namespace dist
