// What this file adds: the bytes of a file. They are mapped if possible, so that a file may be
// larger than memory and the ranks on a host share one copy of it.
#pragma once

#include "04_distributed_sampler/datasets/mapped_file.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace dist {

// Owns bytes in memory or in a mapping. Can be moved but not copied; a move leaves the bytes in
// place.
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

// The length that a file should have according to its first bytes.
using PromisedLength = std::uint64_t (*)(std::span<const std::uint8_t> begin);

// Opens a file. A file that begins with gzip's magic number is decompressed into memory; any
// other file is mapped if possible, and otherwise read. Throws an Error that names the file
// if the file cannot be read.
//
// A megabyte of gzip can hold a gigabyte of zeros. Reading therefore stops soon after the
// promised length; the extra bytes show the parser that the file is too long.
FileBytes open_file(const std::string& path, PromisedLength promised);

// Decompresses gzip data. Throws an Error with `name` and the offset unless every stream is
// complete and has the right checksum.
std::vector<std::uint8_t> gunzip(std::span<const std::uint8_t> packed, const std::string& name,
                                 PromisedLength promised);

}  // namespace dist
