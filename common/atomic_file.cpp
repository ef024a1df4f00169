// Look at: replace_file. Each of its steps (write, fsync, rename, fsync) guards against a
// different way to lose a file.
#include "common/atomic_file.hpp"

#include "common/check.hpp"

#include <climits>

#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace dist {
namespace {

// In a temporary file's name, this stands between the target's name and six letters that the
// system chooses.
constexpr const char* kUnfinished = ".unfinished-";

[[noreturn]] void cannot_write(const std::string& name) {
  throw Error(name + ": cannot be written: " + std::strerror(errno));
}

// Returns the path up to and including the last slash, or "./" if there is no slash.
std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "./" : path.substr(0, slash + 1);
}

std::string name_in_folder(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

bool are_one_file(const std::string& a, const std::string& b) {
  struct stat first {};
  struct stat second {};
  return ::stat(a.c_str(), &first) == 0 && ::stat(b.c_str(), &second) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

// Returns the path of the file that a writer of `path` would replace. Follows symbolic links,
// even if their target does not exist yet. Throws Error if something other than a regular file
// is in the way.
std::string target_of(const std::string& path) {
  std::string target = path;
  char link[PATH_MAX];
  for (int links = 0; links < 40; ++links) {
    const ssize_t length = ::readlink(target.c_str(), link, sizeof link);
    if (length <= 0) break;
    const std::string next(link, static_cast<std::size_t>(length));
    target = next[0] == '/' ? next : folder_of(target) + next;
  }
  struct stat status {};
  if (::stat(target.c_str(), &status) != 0) {
    if (errno != ENOENT) cannot_write(path);
    return target;
  }
  if (S_ISDIR(status.st_mode)) throw Error(path + " is a folder");
  if (!S_ISREG(status.st_mode)) throw Error(path + " is not a regular file");
  return target;
}

// A temporary file in the folder of `target`, which is renamed when it is complete. Until then,
// the destructor removes the file. The file is locked while its writer is alive.
class Unfinished {
 public:
  Unfinished(const std::string& target, const std::string& name)
      : path_(target + kUnfinished + "XXXXXX"), file_(create(name), name) {}
  ~Unfinished() { ::unlink(path_.c_str()); }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

  const std::string& path() const { return path_; }
  const File& file() const { return file_; }

 private:
  // Creates a new file with mode 0600, as mkstemp promises.
  int create(const std::string& name) {
    const std::string pattern = path_;
    for (;;) {
      path_ = pattern;
      const int descriptor = ::mkostemp(path_.data(), O_CLOEXEC);
      if (descriptor < 0) cannot_write(name);
      // Another process may have removed the file as a leftover before it was locked.
      struct stat status {};
      ::flock(descriptor, LOCK_EX);
      if (::fstat(descriptor, &status) != 0 || status.st_nlink > 0) return descriptor;
      ::close(descriptor);
    }
  }

  std::string path_;
  File file_;
};

// Removes the temporary files left behind by killed writers of `target`. A writer's lock ends
// when the writer dies.
void remove_leftovers(const std::string& target) {
  const std::string folder = folder_of(target);
  const std::string prefix = name_in_folder(target) + kUnfinished;
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(folder.c_str()), ::closedir);
  while (const dirent* const entry = entries ? ::readdir(entries.get()) : nullptr) {
    if (!std::string_view(entry->d_name).starts_with(prefix)) continue;
    const std::string path = folder + entry->d_name;
    const int file = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) continue;
    if (::flock(file, LOCK_EX | LOCK_NB) == 0) ::unlink(path.c_str());
    ::close(file);
  }
}

}  // namespace

// With O_NONBLOCK, opening a named pipe that has no writer does not block.
File::File(const std::string& path)
    : File(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC), path) {}

File::File(int descriptor, std::string name) : name_(std::move(name)), descriptor_(descriptor) {
  if (descriptor_ < 0) fail("cannot be opened");
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
  // No short write can happen here, because these bytes already exist.
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
    if (got == 0) throw Error(name_ + ": became shorter while it was being read");
    next += got;
    bytes -= static_cast<std::size_t>(got);
  }
}

std::size_t File::size() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) fail("cannot be read");
  if (!S_ISREG(status.st_mode)) throw Error(name_ + ": is not a regular file");
  return static_cast<std::size_t>(status.st_size);
}

void File::sync() const {
  if (::fsync(descriptor_) != 0) fail("cannot be written to the disk");
}

void File::fail(const char* what) const {
  throw Error(name_ + ": " + what + ": " + std::strerror(errno));
}

void require_writable(std::span<const OutputFile> files) {
  for (const auto& [flag, path] : files) {
    if (path.empty()) continue;
    try {
      const std::string target = target_of(path);
      // A rename would replace even a write-protected file, which its owner would not want.
      if (::access(target.c_str(), W_OK) != 0 && errno != ENOENT) cannot_write(path);
      remove_leftovers(target);
      const Unfinished attempt(target, path);
      for (const OutputFile& other : files) {
        if (&other.flag == &flag) break;
        if (other.path.empty()) continue;
        const std::string taken = target_of(other.path);
        if (are_one_file(target, taken) ||
            (name_in_folder(target) == name_in_folder(taken) &&
             are_one_file(folder_of(target), folder_of(taken)))) {
          throw Error(path + " is also the file of " + other.flag);
        }
      }
    } catch (const Error& error) {
      throw Error(flag + ": " + error.what());
    }
  }
}

void replace_file(const std::string& path, const std::function<void(const File&)>& write) try {
  const std::string target = target_of(path);
  const Unfinished unfinished(target, path);
  const File& file = unfinished.file();
  write(file);
  // Keep the old file's permissions. A new file gets the default permissions.
  struct stat old {};
  const mode_t mask = ::umask(0);
  ::umask(mask);
  const mode_t mode = ::stat(target.c_str(), &old) == 0 ? old.st_mode & 0777 : 0666 & ~mask;
  if (::fchmod(file.descriptor(), mode) != 0) cannot_write(path);
  // Sync before the rename. Otherwise the name could point to an empty file after a power cut.
  file.sync();
  if (::rename(unfinished.path().c_str(), target.c_str()) != 0) cannot_write(path);
  // The rename changes the folder, so it reaches the disk only when the folder is synced.
  File(folder_of(target)).sync();
} catch (const Error&) {
  throw;  // catching guarantees unwinding, which removes the unfinished file
}

void write_file_at_once(const std::string& path, const std::string& content) {
  replace_file(path, [&](const File& file) { file.write(content.data(), content.size()); });
}

}  // namespace dist
