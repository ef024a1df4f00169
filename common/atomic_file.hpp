// Output files: a bad path is refused before hours of work, and no half-written file is seen.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace dist {

// Owns a file descriptor, closes it, and names the file in every error.
class File {
 public:
  explicit File(const std::string& path);  // for reading
  // Takes ownership of the descriptor. If it is negative, throws Error saying `what`.
  File(int descriptor, std::string name, const char* what = "cannot be opened");
  // The same, but leaves a negative descriptor to the caller.
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File();
  File(File&&) = delete;

  void write(const void* data, std::size_t bytes) const;
  // Overwrites bytes that have been written before.
  void write_at(const std::string& text, std::size_t offset) const;
  void read(void* data, std::size_t bytes) const;
  // Throws Error if this is not a regular file.
  std::size_t size() const;
  void sync() const;
  int descriptor() const { return descriptor_; }

 private:
  std::string name_;
  int descriptor_ = -1;
};

// Called before hours of work begin, by the process that will write the file that `flag` names.
// An empty path is ignored. Throws Error("flag: why") if the file cannot be written, or if it
// is claimed already: by this process, or by a process of another job that has not ended. Does
// not change the file, but removes the temporary files that killed writers left beside it.
void claim(const std::string& flag, const std::string& path);
// Called before MPI ends: mpirun may then kill this process in favour of another's exit status.
void release_claims();

// Calls `write` to fill a temporary file, then renames that file to `path`. A reader sees
// either the old file or the complete new one, even after a power cut. If `path` is a symbolic
// link, the link stays and its target is replaced. The temporary file is new, has an
// unpredictable name, and only its owner can read it. On failure, keeps the old file and throws
// Error naming `path`.
void replace_file(const std::string& path, const std::function<void(const File&)>& write);
void write_file_at_once(const std::string& path, const std::string& content);

}  // namespace dist
