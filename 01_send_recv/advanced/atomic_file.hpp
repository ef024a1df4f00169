// Files that a program writes: refused before hours of work, and never seen half written.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

namespace dist {

// A file descriptor that closes itself and, when something fails, says of which file.
class File {
 public:
  explicit File(const std::string& path);  // for reading
  File(int descriptor, std::string name);  // takes the descriptor over
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void write(const void* data, std::size_t bytes) const;
  // Replaces bytes that have been written before.
  void write_at(const std::string& text, std::size_t offset) const;
  void read(void* data, std::size_t bytes) const;
  // Throws Error for what is not a regular file.
  std::size_t size() const;
  void sync() const;
  int descriptor() const { return descriptor_; }

 private:
  [[noreturn]] void fail(const char* what) const;

  std::string name_;
  int descriptor_ = -1;
};

// What a flag names for writing.
struct OutputFile {
  std::string flag;
  std::string path;
};

// Called by the process that will write `files`, before hours of work; an empty path is none.
// Throws Error("flag: why") for one that cannot be written, and for two that are one file.
// Changes none; removes what writers that were killed have left beside them.
void require_writable(std::span<const OutputFile> files);

// Has `write` write a neighbour of `path` and renames it: whoever looks, also after a power
// cut, sees the old file or the whole new one. A symbolic link stays: its target is replaced.
// The neighbour is created anew, under a name that nobody can predict, and for its owner alone.
// Throws Error naming the file; the old one is kept then.
void replace_file(const std::string& path, const std::function<void(const File&)>& write);
void write_file_at_once(const std::string& path, const std::string& content);

}  // namespace dist
