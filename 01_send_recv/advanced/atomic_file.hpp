// Output files: a bad path is refused before hours of work, and no reader sees a half-written
// file.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

namespace dist {

// A file descriptor that closes itself, and names its file when something fails.
class File {
 public:
  explicit File(const std::string& path);  // for reading
  File(int descriptor, std::string name);  // takes ownership of the descriptor
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void write(const void* data, std::size_t bytes) const;
  // Overwrites bytes that have been written before.
  void write_at(const std::string& text, std::size_t offset) const;
  void read(void* data, std::size_t bytes) const;
  // Throws Error if this is not a regular file.
  std::size_t size() const;
  void sync() const;
  int descriptor() const { return descriptor_; }

 private:
  [[noreturn]] void fail(const char* what) const;

  std::string name_;
  int descriptor_ = -1;
};

// An output file, and the flag that names it.
struct OutputFile {
  std::string flag;
  std::string path;
};

// Called by the process that will write `files`, before hours of work. Empty paths are ignored.
// Throws Error("flag: why") for a file that cannot be written, and for two paths to the same
// file. Changes none of them, but removes what killed writers left beside them.
void require_writable(std::span<const OutputFile> files);

// Lets `write` write a temporary file beside `path`, then renames it. A reader sees the old
// file or the complete new one, even after a power cut. A symbolic link stays, and its target
// is replaced. The temporary file is new, has an unpredictable name, and only its owner can
// read it. If this fails, throws Error naming the file, and the old file stays.
void replace_file(const std::string& path, const std::function<void(const File&)>& write);
void write_file_at_once(const std::string& path, const std::string& content);

}  // namespace dist
