// A file that may be compressed with gzip, read from the beginning to the end.
#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace dist {

// Unpacks a file that begins with gzip's magic number, in one part or in several, and checks
// gzip's checksums. zlib's own gzread would ignore whatever follows the last part; like
// Python's gzip, this accepts only zeros there, with which tapes are filled up.
class PackedFile {
 public:
  explicit PackedFile(const std::string& path);  // throws Error if it cannot be opened
  ~PackedFile();
  PackedFile(PackedFile&&) = delete;

  // Returns the number of bytes read, which is smaller than `count` only at the file's end.
  // Throws Error naming the file if it is cut off or damaged.
  std::size_t read(std::uint8_t* to, std::size_t count);
  bool unpacks() const { return unpacks_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::size_t buffered(std::size_t wanted);
  bool begins_part();
  std::size_t copy(std::uint8_t* to, std::size_t count);
  std::size_t unpack(std::uint8_t* to, std::size_t count);
  void begin_next_part();
  [[noreturn]] void fail(const std::string& fault, const std::string& why) const;

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::vector<std::uint8_t> buffer_;
  z_stream stream_{};  // its input is what is left of the buffer, also of a file that is plain
  bool unpacks_ = false, ended_ = false;
  std::size_t done_ = 0;  // bytes, unpacked
};

}  // namespace dist
