// Look at: begin_next_part. Programs that compress in parallel write a file in several parts.
#include "04_distributed_sampler/datasets/packed_file.hpp"

#include "common/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <system_error>

namespace dist {

constexpr std::size_t kBuffer = 1 << 16;
constexpr int kGzip = 16 + MAX_WBITS;  // for inflateInit2: gzip's format and no other

PackedFile::PackedFile(const std::string& path)
    : path_(path), file_(std::fopen(path.c_str(), "rb")), buffer_(kBuffer) {
  if (!file_) throw Error(path + ": cannot open: " + std::generic_category().message(errno));
  stream_.next_in = buffer_.data();
  unpacks_ = begins_part();
  if (unpacks_ && ::inflateInit2(&stream_, kGzip) != Z_OK) throw std::bad_alloc();
}

PackedFile::~PackedFile() {
  if (unpacks_) ::inflateEnd(&stream_);
}

std::size_t PackedFile::read(std::uint8_t* to, std::size_t count) {
  std::size_t got = 0;
  while (got < count && !ended_) {
    got += unpacks_ ? unpack(to + got, count - got) : copy(to + got, count - got);
  }
  return got;
}

// Returns how many bytes of the file are in the buffer: `wanted`, unless the file ends before.
std::size_t PackedFile::buffered(std::size_t wanted) {
  if (stream_.avail_in < wanted) {
    std::copy_n(stream_.next_in, stream_.avail_in, buffer_.data());
    const std::size_t more = std::fread(buffer_.data() + stream_.avail_in, 1,
                                        buffer_.size() - stream_.avail_in, file_.get());
    if (std::ferror(file_.get()) != 0) {
      fail("cannot be read", std::generic_category().message(errno));
    }
    stream_.next_in = buffer_.data();
    stream_.avail_in += static_cast<unsigned>(more);
  }
  return std::min<std::size_t>(wanted, stream_.avail_in);
}

bool PackedFile::begins_part() {
  return buffered(2) == 2 && stream_.next_in[0] == 0x1f && stream_.next_in[1] == 0x8b;
}

std::size_t PackedFile::copy(std::uint8_t* to, std::size_t count) {
  ended_ = buffered(1) == 0;
  const std::size_t more = std::min<std::size_t>(count, stream_.avail_in);
  std::copy_n(stream_.next_in, more, to);
  stream_.next_in += more;
  stream_.avail_in -= static_cast<unsigned>(more);
  done_ += more;
  return more;
}

std::size_t PackedFile::unpack(std::uint8_t* to, std::size_t count) {
  if (buffered(1) == 0) fail("truncated", "the compressed data are cut off");
  constexpr std::size_t kMost = std::numeric_limits<unsigned>::max();
  const auto room = static_cast<unsigned>(std::min(count, kMost));
  stream_.next_out = to;
  stream_.avail_out = room;
  const int status = ::inflate(&stream_, Z_NO_FLUSH);
  const std::size_t got = room - stream_.avail_out;
  done_ += got;
  if (status == Z_STREAM_END) {
    begin_next_part();
  } else if (status != Z_OK) {
    fail("damaged", stream_.msg != nullptr ? stream_.msg : "the compressed data are wrong");
  }
  return got;
}

void PackedFile::begin_next_part() {
  while (buffered(1) == 1 && *stream_.next_in == 0) ++stream_.next_in, --stream_.avail_in;
  ended_ = buffered(1) == 0;
  if (ended_) return;
  if (!begins_part()) fail("damaged", "what follows there is not gzip data");
  if (::inflateReset(&stream_) != Z_OK) throw std::bad_alloc();
}

void PackedFile::fail(const std::string& fault, const std::string& why) const {
  throw Error(fmt::format("{}: {}: cannot be read past byte {}: {}", path_, fault, done_, why));
}

}  // namespace dist
