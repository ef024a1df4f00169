#include "04_distributed_sampler/datasets/mapped_file.hpp"

#include "04_distributed_sampler/datasets/bus_error.hpp"
#include "common/check.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace dist {
namespace {

struct Descriptor {
  int number;
  explicit Descriptor(const std::string& path)
      : number(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
};

[[noreturn]] void refuse(const std::string& path, int reason) {
  throw Error(path + ": cannot open: " + std::generic_category().message(reason));
}

}  // namespace

std::optional<MappedFile> MappedFile::open(const std::string& path) {
  struct stat about {};
  // Call stat before open, because opening a pipe would wait for a writer.
  if (::stat(path.c_str(), &about) != 0) refuse(path, errno);
  if (S_ISDIR(about.st_mode)) refuse(path, EISDIR);
  if (!S_ISREG(about.st_mode)) return std::nullopt;
  const Descriptor file(path);
  if (file.number < 0) refuse(path, errno);
  if (::fstat(file.number, &about) != 0) refuse(path, errno);
  const auto size = static_cast<std::size_t>(about.st_size);
  if (size == 0) return std::nullopt;
  // MAP_SHARED lets all ranks on a host share the same pages. The mapping outlives the
  // descriptor.
  void* const begin = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.number, 0);
  if (begin == MAP_FAILED) return std::nullopt;
  watch_mapping(begin, size, path);
  return MappedFile(std::span(static_cast<const std::uint8_t*>(begin), size));
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  forget_mapping(bytes_.data());
  // munmap does not accept a pointer to const, although it does not write to the memory.
  ::munmap(const_cast<std::uint8_t*>(bytes_.data()), bytes_.size());
}

}  // namespace dist
