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

// How long a file is according to the bytes that it begins with.
using PromisedLength = std::uint64_t (*)(std::span<const std::uint8_t> begin);

// A file's content: a plain file is mapped, one that begins with gzip's magic is decompressed
// into memory, and so is read what cannot be mapped. Throws Error naming the file.
//
// A megabyte of gzip can hold a gigabyte of zeros. What is longer than it promises is read a
// little further than that, and no more: enough for whoever parses it to see.
FileBytes open_file(const std::string& path, PromisedLength promised);

// Decompresses gzip; `name` stands in the error messages, with the offset. Throws Error unless
// every stream is complete and its checksum right.
std::vector<std::uint8_t> gunzip(std::span<const std::uint8_t> packed, const std::string& name,
                                 PromisedLength promised);

}  // namespace dist
