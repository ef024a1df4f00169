// Look at: replace_file. Each of its steps (write, fsync, rename, fsync) guards against a
// different way to lose a file.
#include "common/atomic_file.hpp"

#include "common/check.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <list>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace dist {
namespace {

namespace fs = std::filesystem;

// Stands between the target's name and what mkstemp makes of XXXXXX in a temporary file's name.
constexpr const char* kUnfinished = ".unfinished-";
constexpr std::size_t kRandom = 6;
// Stands between a flag and the writer's number in what a lock says.
constexpr const char* kOfProcess = " of process ";

[[noreturn]] void fail(const std::string& name, const char* what = "cannot be written") {
  const char* const limit = errno == EFBIG ? " (see ulimit -f)" : "";
  throw Error(name + ": " + what + ": " + std::strerror(errno) + limit);
}

// Returns the path of the file that a writer of `path` would replace. Follows symbolic links,
// even if their target does not exist yet. Throws Error if it is there, but not a regular file.
fs::path target_of(const std::string& path) {
  std::error_code problem;
  fs::path target = fs::absolute(path, problem);
  for (int links = 0; links < 40; ++links) {
    const fs::path link = fs::read_symlink(target, problem);
    if (problem) break;
    target = target.parent_path() / link;  // which is `link` if that is an absolute path
  }
  const fs::file_status status = fs::status(target, problem);
  if (!status_known(status)) throw Error(path + ": cannot be written: " + problem.message());
  if (is_directory(status)) throw Error(path + " is a folder");
  if (exists(status) && !is_regular_file(status)) throw Error(path + " is not a regular file");
  return target;
}

// A temporary file in the folder of `target`, which is renamed when it is complete. Until then,
// the destructor removes the file. Its mode is 0600, as mkstemp promises.
struct Unfinished {
  std::string path;
  File file;

  Unfinished(const fs::path& target, const std::string& name)
      : path(target.string() + kUnfinished + std::string(kRandom, 'X')),
        file(::mkostemp(path.data(), O_CLOEXEC), name, "cannot be written") {}
  ~Unfinished() { ::unlink(path.c_str()); }
  Unfinished(Unfinished&&) = delete;
};

// Removes the temporary files that killed writers of `target` left. No writer may be alive.
// Keeps what somebody else called almost like that.
void remove_leftovers(const fs::path& target) {
  const std::string prefix = target.filename().string() + kUnfinished;
  const auto is_ours = [&](const std::string& name) {
    return name.starts_with(prefix) && name.size() == prefix.size() + kRandom &&
           std::ranges::all_of(name.substr(prefix.size()),
                               [](unsigned char c) { return std::isalnum(c) != 0; });
  };
  std::error_code unreadable;
  for (const auto& entry : fs::directory_iterator(target.parent_path(), unreadable)) {
    if (is_ours(entry.path().filename())) ::unlink(entry.path().c_str());
  }
}

// Keeps others from writing to `target`: while this exists, a file beside it says who writes,
// and is locked. The kernel ends the lock when the process dies, so a killed run blocks nobody.
// (A lock on the target itself would not survive replace_file.)
class Claim {
 public:
  Claim(const std::string& flag, const std::string& name, const fs::path& target)
      : Claim(name, target) {  // from here on, the destructor runs also after an error
    if (!is_locked_) return;
    std::array<char, 256> host{};
    ::gethostname(host.data(), host.size() - 1);
    const std::string owner =
        flag + kOfProcess + std::to_string(::getpid()) + " on " + host.data();
    if (::ftruncate(file_.descriptor(), 0) != 0) fail(name);
    file_.write(owner.data(), owner.size());
    remove_leftovers(target);
  }
  ~Claim() { ::unlink(path_.c_str()); }
  Claim(Claim&&) = delete;

 private:
  Claim(const std::string& name, const fs::path& target)
      : path_((target.parent_path() / ".").string() + target.filename().string() + ".lock"),
        file_(lock(name), name) {}

  // Returns the descriptor of the open file. Throws Error if it is locked already, or if the
  // file is somebody else's, which would be overwritten and removed.
  int lock(const std::string& name) {
    for (;;) {
      const int descriptor =
          ::open(path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
      if (descriptor < 0) fail(name);
      is_locked_ = ::flock(descriptor, LOCK_EX | LOCK_NB) == 0;
      const bool in_use = !is_locked_ && errno == EWOULDBLOCK;
      std::array<char, 512> text{};
      const ssize_t length = ::pread(descriptor, text.data(), text.size() - 1, /*offset=*/0);
      const std::string owner = text.data();
      const bool names_owner = owner.starts_with('-') && owner.find(kOfProcess) != owner.npos;
      // Empty: its owner has not written yet, or was killed before it could.
      const bool is_foreign = length != 0 && !names_owner;
      // Its last owner may have removed it before it was locked.
      struct stat status {};
      const bool is_gone = ::fstat(descriptor, &status) == 0 && status.st_nlink == 0;
      if (!in_use && !is_foreign && !is_gone) return descriptor;
      ::close(descriptor);
      if (in_use) {
        throw Error(name + " is in use by " + (names_owner ? owner : "another process"));
      }
      if (is_foreign) {
        throw Error(name + ": " + path_ + " is not a lock of ours: give it another name");
      }
    }
  }

  std::string path_;
  bool is_locked_ = false;  // never on a file system without locks
  File file_;
};

std::list<Claim> claims;  // of this process, for the fatal handler, which takes no arguments

}  // namespace

// With O_NONBLOCK, opening a named pipe that has no writer does not block.
File::File(const std::string& path)
    : File(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC), path) {}

File::File(int descriptor, std::string name, const char* what)
    : name_(std::move(name)), descriptor_(descriptor) {
  if (descriptor_ < 0) fail(name_, what);
}

File::~File() {
  ::close(descriptor_);
}

void File::write(const void* data, std::size_t bytes) const {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(descriptor_, next, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(name_);
    next += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void File::write_at(const std::string& text, std::size_t offset) const {
  // No short write can happen here, because these bytes already exist.
  if (::pwrite(descriptor_, text.data(), text.size(), static_cast<off_t>(offset)) !=
      static_cast<ssize_t>(text.size())) {
    fail(name_);
  }
}

void File::read(void* data, std::size_t bytes) const {
  char* next = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = ::read(descriptor_, next, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(name_, "cannot be read");
    if (got == 0) throw Error(name_ + ": became shorter while it was being read");
    next += got;
    bytes -= static_cast<std::size_t>(got);
  }
}

std::size_t File::size() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) fail(name_, "cannot be read");
  if (!S_ISREG(status.st_mode)) throw Error(name_ + ": is not a regular file");
  return static_cast<std::size_t>(status.st_size);
}

void File::sync() const {
  if (::fsync(descriptor_) != 0) fail(name_, "cannot be written to the disk");
}

void claim(const std::string& flag, const std::string& path) try {
  if (path.empty()) return;
  const fs::path target = target_of(path);
  // A rename would replace even a write-protected file, which its owner would not want.
  if (::access(target.c_str(), W_OK) != 0 && errno != ENOENT) fail(path);
  Unfinished(target, path);  // whether the folder can be written
  claims.emplace_back(flag, path, target);
} catch (const Error& error) {
  throw Error(flag + ": " + error.what());
}

void release_claims() {
  claims.clear();
}

void replace_file(const std::string& path, const std::function<void(const File&)>& write) try {
  const fs::path target = target_of(path);
  const Unfinished unfinished(target, path);
  const File& file = unfinished.file;
  write(file);
  // Keep the old file's permissions. A new file gets the default permissions.
  struct stat old {};
  const mode_t mask = ::umask(0);
  ::umask(mask);
  const mode_t mode = ::stat(target.c_str(), &old) == 0 ? old.st_mode & 0777 : 0666 & ~mask;
  if (::fchmod(file.descriptor(), mode) != 0) fail(path);
  // Sync before the rename. Otherwise the name could point to an empty file after a power cut.
  file.sync();
  if (::rename(unfinished.path.c_str(), target.c_str()) != 0) fail(path);
  // The rename changes the folder, so it reaches the disk only when the folder is synced.
  File(::open(target.parent_path().c_str(), O_RDONLY | O_CLOEXEC), path).sync();
} catch (const Error&) {
  throw;  // catching guarantees unwinding, which removes the unfinished file
}

void write_file_at_once(const std::string& path, const std::string& content) {
  replace_file(path, [&](const File& file) { file.write(content.data(), content.size()); });
}

}  // namespace dist
