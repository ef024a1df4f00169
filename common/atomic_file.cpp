// Look at: replace_file, whose order of write, fsync, rename, fsync guards each against another
// way to lose a file.
#include "common/atomic_file.hpp"

#include "common/check.hpp"

#include <fmt/core.h>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace dist {

File::File(const std::string& path, int flags, std::string name) : name_(std::move(name)) {
  descriptor_ = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
  if (descriptor_ < 0) {
    fail((flags & O_ACCMODE) == O_RDONLY ? "cannot be opened" : "cannot be written");
  }
}

File::~File() {
  ::close(descriptor_);
}

void File::write(const void* data, std::size_t bytes) const {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(descriptor_, next, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot be written");
    next += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void File::write_at(const std::string& text, std::size_t offset) const {
  // A short write cannot happen to bytes that have been written before.
  if (::pwrite(descriptor_, text.data(), text.size(), static_cast<off_t>(offset)) !=
      static_cast<ssize_t>(text.size())) {
    fail("cannot be written");
  }
}

void File::read(void* data, std::size_t bytes) const {
  char* next = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = ::read(descriptor_, next, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("cannot be read");
    if (got == 0) throw Error(name_ + ": became shorter while it was read");
    next += got;
    bytes -= static_cast<std::size_t>(got);
  }
}

std::size_t File::size() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) fail("cannot be read");
  if (!S_ISREG(status.st_mode)) throw Error(name_ + ": is no file");
  return static_cast<std::size_t>(status.st_size);
}

void File::sync() const {
  if (::fsync(descriptor_) != 0) fail("cannot be brought to the disk");
}

void File::fail(const char* what) const {
  throw Error(fmt::format("{}: {}: {}", name_, what, std::strerror(errno)));
}

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

void replace_file(const std::string& path, const std::function<void(const File&)>& write) {
  std::error_code problem;
  if (std::filesystem::exists(path, problem) &&
      !std::filesystem::is_regular_file(path, problem)) {
    write(File(path, O_WRONLY));  // a device is no file to be renamed away
    return;
  }
  const std::string temporary = path + ".tmp";
  try {
    const File file(temporary, O_WRONLY | O_CREAT | O_TRUNC, path);
    write(file);
    // Before the rename: a name that points to data still in memory would, after a power cut,
    // point to an empty file.
    file.sync();
    if (::rename(temporary.c_str(), path.c_str()) != 0) {
      throw Error(fmt::format("{}: cannot be replaced: {}", path, std::strerror(errno)));
    }
  } catch (const Error&) {
    ::unlink(temporary.c_str());
    throw;
  }
  // The rename itself is an entry of the folder, and reaches the disk with the folder.
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  File(folder.empty() ? "." : folder.string(), O_RDONLY | O_DIRECTORY).sync();
}

void write_file_at_once(const std::string& path, const std::string& content) {
  replace_file(path, [&](const File& file) { file.write(content.data(), content.size()); });
}

}  // namespace dist
