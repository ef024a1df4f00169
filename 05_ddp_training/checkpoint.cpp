// Look at: the order of write, fsync, rename, fsync. Each guards against another way to lose a
// file.
#include "05_ddp_training/checkpoint.hpp"

#include "common/check.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <bit>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>
#include <utility>
#include <vector>

namespace dist {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors is little-endian");

// A file descriptor that closes itself and names its file when something fails.
class File {
 public:
  File(std::string path, int flags) : path_(std::move(path)) {
    descriptor_ = ::open(path_.c_str(), flags | O_CLOEXEC, 0644);
    if (descriptor_ < 0) fail("cannot be opened");
  }
  ~File() { ::close(descriptor_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void write(const void* data, std::size_t bytes) const {
    const char* next = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t written = ::write(descriptor_, next, bytes);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail("cannot be written");
      next += written;
      bytes -= static_cast<std::size_t>(written);
    }
  }
  void sync() const {
    if (::fsync(descriptor_) != 0) fail("cannot be brought to the disk");
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw Error(fmt::format("{}: {}: {}", path_, what, std::strerror(errno)));
  }

  std::string path_;
  int descriptor_ = -1;
};

std::string make_header(std::span<const Parameter> parameters,
                        const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header;
  header["__metadata__"] = metadata;
  std::size_t begin = 0;
  for (const Parameter& parameter : parameters) {
    const std::size_t end = begin + parameter.value.size_bytes();
    header[parameter.name] = {
        {"dtype", "F32"}, {"shape", parameter.value.shape()}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the numbers start aligned
  return text;
}

}  // namespace

void save_checkpoint(const std::string& path, std::span<const Parameter> parameters,
                     const std::map<std::string, std::string>& metadata, const Stream& stream) {
  const std::string header = make_header(parameters, metadata);
  const std::uint64_t header_bytes = header.size();
  const std::string temporary = path + ".tmp";
  try {
    const File file(temporary, O_WRONLY | O_CREAT | O_TRUNC);
    file.write(&header_bytes, sizeof(header_bytes));
    file.write(header.data(), header.size());
    for (const Parameter& parameter : parameters) {
      const std::vector<float> values = to_host(stream, parameter.value);
      file.write(values.data(), values.size() * sizeof(float));
    }
    // Before the rename: a name that points to data still in memory would, after a power cut,
    // point to an empty file.
    file.sync();
    if (::rename(temporary.c_str(), path.c_str()) != 0) {
      throw Error(fmt::format("{}: cannot be replaced: {}", path, std::strerror(errno)));
    }
  } catch (const Error&) {
    ::unlink(temporary.c_str());
    throw;
  }
  // The rename itself is an entry of the folder, and reaches the disk with the folder.
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  File(folder.empty() ? "." : folder.string(), O_RDONLY | O_DIRECTORY).sync();
}

}  // namespace dist
