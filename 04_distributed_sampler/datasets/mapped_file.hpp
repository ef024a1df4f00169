// A file mapped into memory. A page is read when it is first accessed, and all processes on a
// host that map the file share its pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace dist {

// Read-only. Can be moved but not copied; a move leaves the bytes in place.
class MappedFile {
 public:
  // Returns nullopt if the file cannot be mapped: a pipe, an empty file, or a file on a file
  // system without mappings. Throws an Error that names the file if it cannot be opened or is a
  // folder.
  //
  // If another program shortens the file while it is mapped, accessing a lost page ends the
  // process with a message that names the file (bus_error).
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
