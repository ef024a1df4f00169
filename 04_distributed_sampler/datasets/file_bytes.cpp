// Reads data files, compressed or plain.
//
// A training run must not start with half a data set, so a gzip stream must be complete,
// including its checksum. This file uses zlib's inflate rather than gzopen, which silently
// accepts a file that is not gzip and ignores extra bytes after a stream.
#define ZLIB_CONST  // next_in points to const
#include "04_distributed_sampler/datasets/file_bytes.hpp"

#include "common/check.hpp"

#include <fmt/core.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

namespace dist {
namespace {

constexpr std::size_t kBlock = 1 << 16;  // bytes read or decompressed at a time

using Bytes = std::vector<std::uint8_t>;

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
struct EndInflate {
  void operator()(z_stream* stream) const { inflateEnd(stream); }
};

bool is_gzip(std::span<const std::uint8_t> bytes) {
  return bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

// Reads a file that cannot be mapped, such as a pipe.
Bytes read_pipe(const std::string& path, PromisedLength promised) {
  const auto reason = [] { return std::generic_category().message(errno); };
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rb"));
  if (!file) throw Error(fmt::format("{}: cannot open: {}", path, reason()));
  Bytes bytes;
  std::array<std::uint8_t, kBlock> block;
  while (const std::size_t got = std::fread(block.data(), 1, block.size(), file.get())) {
    bytes.insert(bytes.end(), block.begin(), block.begin() + got);
    if (!is_gzip(bytes) && bytes.size() > promised(bytes)) break;
  }
  if (std::ferror(file.get()) != 0) {
    throw Error(fmt::format("{}: cannot read past byte {}: {}", path, bytes.size(), reason()));
  }
  return bytes;
}

}  // namespace

// Accepts several streams in a row, as in the output of `cat a.gz b.gz`.
std::vector<std::uint8_t> gunzip(std::span<const std::uint8_t> packed, const std::string& name,
                                 PromisedLength promised) {
  constexpr int kGzipOnly = 16 + MAX_WBITS;  // zlib's code for "gzip format only"
  z_stream stream{};
  if (inflateInit2(&stream, kGzipOnly) != Z_OK) throw Error(name + ": cannot start zlib");
  const std::unique_ptr<z_stream, EndInflate> owner(&stream);
  Bytes plain;
  std::array<std::uint8_t, kBlock> block;
  bool complete = false;
  for (std::size_t used = 0; used < packed.size();) {
    // Pass the input to zlib in pieces, because zlib counts bytes in 32 bits.
    const std::size_t offered = std::min(packed.size() - used, kBlock);
    stream.next_in = packed.data() + used;
    stream.avail_in = static_cast<uInt>(offered);
    stream.next_out = block.data();
    stream.avail_out = static_cast<uInt>(block.size());
    const int status = inflate(&stream, Z_NO_FLUSH);
    used += offered - stream.avail_in;
    plain.insert(plain.end(), block.data(), stream.next_out);
    if (plain.size() > promised(plain)) return plain;
    if (status != Z_OK && status != Z_STREAM_END) {
      throw Error(fmt::format("{}: corrupt gzip stream near byte {} of {}: {}", name, used,
                              packed.size(), stream.msg ? stream.msg : zError(status)));
    }
    complete = status == Z_STREAM_END;  // inflate has checked the checksum and the length
    if (complete) inflateReset(&stream);
  }
  if (!complete) {
    throw Error(
        fmt::format("{}: truncated: the gzip stream does not end within the file's {} bytes",
                    name, packed.size()));
  }
  return plain;
}

FileBytes open_file(const std::string& path, PromisedLength promised) {
  std::optional<MappedFile> file = MappedFile::open(path);
  if (!file) {
    Bytes bytes = read_pipe(path, promised);
    return FileBytes(is_gzip(bytes) ? gunzip(bytes, path, promised) : std::move(bytes));
  }
  if (is_gzip(file->bytes())) return FileBytes(gunzip(file->bytes(), path, promised));
  return FileBytes(*std::move(file));
}

}  // namespace dist
