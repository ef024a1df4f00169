// A file as memory: pages are read when they are first touched, and are the same memory for all
// processes of a host that map the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace dist {

// Read-only. Move-only; moving does not move the bytes.
class MappedFile {
 public:
  // nullopt for what cannot be mapped: a pipe, an empty file, a file system without mappings.
  // Throws Error naming the file when it cannot be opened, or is a folder.
  //
  // A file that another program shortens while it is mapped ends the process when a page that
  // is gone is touched, with a sentence that names the file (bus_error).
  static std::optional<MappedFile> open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::uint8_t> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  std::span<const std::uint8_t> bytes_;
};

}  // namespace dist
