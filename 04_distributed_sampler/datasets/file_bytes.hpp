// What this file adds: the bytes of a file, mapped where that is possible, so that a file may
// be larger than memory and the ranks of a host share one copy of it.
#pragma once

#include "04_distributed_sampler/datasets/mapped_file.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace dist {

// Bytes in memory of their own, or in a mapping. Move-only; moving does not move the bytes.
class FileBytes {
 public:
  explicit FileBytes(std::vector<std::uint8_t> loaded) : bytes_(std::move(loaded)) {}
  explicit FileBytes(MappedFile mapped) : bytes_(std::move(mapped)) {}

  bool mapped() const { return std::holds_alternative<MappedFile>(bytes_); }
  std::span<const std::uint8_t> span() const {
    const auto* const file = std::get_if<MappedFile>(&bytes_);
    return file != nullptr ? file->bytes() : std::get<std::vector<std::uint8_t>>(bytes_);
  }

 private:
  std::variant<std::vector<std::uint8_t>, MappedFile> bytes_;
};

// A file's content: a plain file is mapped, one that begins with gzip's magic is decompressed
// into memory, and so is read what cannot be mapped. Throws Error naming the file.
FileBytes open_file(const std::string& path);

// Decompresses gzip; `name` stands in the error messages, with the offset. Throws Error unless
// every stream is complete and its checksum right. Takes at most 1032 times the memory of
// `packed`: deflate cannot pack more tightly.
std::vector<std::uint8_t> gunzip(std::span<const std::uint8_t> packed, const std::string& name);

}  // namespace dist
