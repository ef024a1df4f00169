// Files that a program writes: refused before hours of work, and never seen half written.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace dist {

// A file descriptor that closes itself and, when something fails, says of which file: of
// `path`, unless it has another name for the reader. `flags` are open()'s.
class File {
 public:
  File(const std::string& path, int flags) : File(path, flags, path) {}
  File(const std::string& path, int flags, std::string name);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void write(const void* data, std::size_t bytes) const;
  // Replaces bytes that have been written before.
  void write_at(const std::string& text, std::size_t offset) const;
  void read(void* data, std::size_t bytes) const;
  std::size_t size() const;
  void sync() const;

 private:
  [[noreturn]] void fail(const char* what) const;

  std::string name_;
  int descriptor_ = -1;
};

// Throws Error("flag: why") if `path` cannot be written. Creates nothing.
void require_writable(const std::string& flag, const std::string& path);

// Has `write` write a neighbour of `path` and renames it: whoever looks, also after a power
// cut, sees the old file or the whole new one. Throws Error naming the file.
void replace_file(const std::string& path, const std::function<void(const File&)>& write);
void write_file_at_once(const std::string& path, const std::string& content);

}  // namespace dist
