// Look at: write_safetensors, which writes the checksum last, over placeholder zeros, and
// parse_ranges, which trusts nothing in the header. The function that replaces a file is
// replace_file in common/atomic_file.
#include "05_ddp_training/checkpoint/safetensors.hpp"

#include "01_send_recv/gpu/host_copy.hpp"
#include "02_broadcast/fingerprint.hpp"
#include "common/atomic_file.hpp"
#include "common/buffer.hpp"
#include "common/check.hpp"
#include "common/json.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

namespace dist {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors is little-endian");

constexpr std::size_t kChecksumDigits = 16;
// Parsing takes several times this much memory. Our headers have about 110 bytes per tensor.
constexpr std::uint64_t kLargestHeader = 16U << 20;
constexpr std::size_t kMostTensors = 100'000;

std::string header_of(const std::vector<TensorSource>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  Json header;
  Json& about = header["__metadata__"] = Json::object();
  for (const auto& [key, value] : metadata) about[key] = value;
  about[kChecksumKey] = std::string(kChecksumDigits, '0');
  std::size_t begin = 0;
  for (const auto& [name, shape, get] : tensors) {
    const std::size_t end = begin + numel(shape) * sizeof(float);
    header[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the numbers are aligned
  return text;
}

// The position of the checksum's digits in a header; npos if it has no checksum.
std::size_t checksum_position(const std::string& header) {
  const std::string key = fmt::format("\"{}\":\"", kChecksumKey);
  const std::size_t found = header.find(key);
  return found == std::string::npos ? found : found + key.size();
}

struct Range {
  std::string name;
  Shape shape;
  std::size_t begin = 0;
  std::size_t end = 0;
};

std::size_t whole_number(const Json& value, const std::string& what) {
  if (!value.whole_number()) throw Error(what + " is not a whole number");
  return *value.whole_number();
}

// The array under `key`; null if there is none.
const Json::Array* elements(const Json& object, const char* key) {
  const Json* found = object.find(key);
  return found == nullptr ? nullptr : found->elements();
}

// The tensors that the header declares, in the order of their bytes. Together they must exactly
// cover the `data_bytes` bytes that follow the header.
std::vector<Range> parse_ranges(const Json& header, std::size_t data_bytes,
                                const std::string& path) {
  if (header.members()->size() > kMostTensors) {
    throw Error(fmt::format("{}: declares {} tensors, more than the limit of {}", path,
                            header.members()->size(), kMostTensors));
  }
  std::vector<Range> ranges;
  for (const auto& [name, entry] : *header.members()) {
    if (name == "__metadata__") continue;
    const std::string what = fmt::format("{}: tensor {}", path, name);
    const Json* dtype = entry.find("dtype");
    const Json::Array* shape = elements(entry, "shape");
    const Json::Array* offsets = elements(entry, "data_offsets");
    if (dtype == nullptr || shape == nullptr || offsets == nullptr || offsets->size() != 2) {
      throw Error(what + " needs a dtype, a shape and two data_offsets");
    }
    if (dtype->text() == nullptr || *dtype->text() != "F32") {
      throw Error(fmt::format("{} is of dtype {}, not F32", what, dtype->dump()));
    }
    Range range{.name = name, .shape = {}};
    for (const Json& extent : *shape) {
      range.shape.push_back(whole_number(extent, what + ": its shape"));
    }
    range.begin = whole_number(offsets->front(), what + ": its offset");
    range.end = whole_number(offsets->back(), what + ": its offset");
    if (range.begin > range.end || range.end > data_bytes) {
      throw Error(fmt::format("{}: its offsets are {} and {}, but the data has {} bytes", what,
                              range.begin, range.end, data_bytes));
    }
    if (bytes_of(numel(range.shape), sizeof(float)) != range.end - range.begin) {
      throw Error(fmt::format("{} {} does not take {} bytes", what, to_string(range.shape),
                              range.end - range.begin));
    }
    ranges.push_back(std::move(range));
  }
  std::ranges::sort(ranges, [](const Range& a, const Range& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::size_t next = 0;
  for (const Range& range : ranges) {
    if (range.begin != next) {
      throw Error(
          fmt::format("{}: tensor {} begins at byte {}, but the one before it ends at {}", path,
                      range.name, range.begin, next));
    }
    next = range.end;
  }
  if (next != data_bytes) {
    throw Error(fmt::format("{}: {} bytes belong to no tensor", path, data_bytes - next));
  }
  return ranges;
}

std::map<std::string, std::string> parse_metadata(const Json& header, const std::string& path) {
  std::map<std::string, std::string> metadata;
  const Json* found = header.find("__metadata__");
  if (found == nullptr) return metadata;
  if (found->members() == nullptr) throw Error(path + ": its metadata is not an object");
  for (const auto& [key, value] : *found->members()) {
    if (!value.text()) throw Error(fmt::format("{}: metadata {} is not text", path, key));
    metadata[key] = *value.text();
  }
  return metadata;
}

}  // namespace

void write_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata,
                       const Stream& stream) {
  std::vector<TensorSource> sources;
  for (const NamedTensor& named : tensors) {
    sources.push_back(
        {named.name, named.tensor.shape(), [tensor = named.tensor] { return tensor; }});
  }
  write_safetensors(path, sources, metadata, stream);
}

void write_safetensors(const std::string& path, const std::vector<TensorSource>& tensors,
                       const std::map<std::string, std::string>& metadata,
                       const Stream& stream) {
  const std::string header = header_of(tensors, metadata);
  const std::uint64_t header_bytes = header.size();
  replace_file(path, [&](const File& file) {
    file.write(&header_bytes, sizeof(header_bytes));
    file.write(header.data(), header.size());
    Fingerprint checksum;
    checksum.add(header.data(), header.size());
    for (const TensorSource& source : tensors) {
      read_on_host(stream, source.get(), [&](std::span<const float> values) {
        file.write(values.data(), values.size_bytes());
        checksum.add(values.data(), values.size_bytes());
      });
    }
    file.write_at(fmt::format("{:016x}", checksum.value()),
                  sizeof(header_bytes) + checksum_position(header));
  });
}

const Tensor* SafetensorsFile::find(const std::string& name) const {
  const auto found = std::ranges::find(tensors, name, &NamedTensor::name);
  return found == tensors.end() ? nullptr : &found->tensor;
}

SafetensorsFile read_safetensors(const std::string& path) {
  const File file(path);
  const std::size_t size = file.size();
  std::uint64_t header_bytes = 0;
  if (size < sizeof(header_bytes)) {
    throw Error(
        fmt::format("{}: has {} bytes, too few for the length of a header", path, size));
  }
  file.read(&header_bytes, sizeof(header_bytes));
  if (header_bytes > kLargestHeader) {
    throw Error(fmt::format("{}: declares a header of {} bytes, more than the limit of {}",
                            path, header_bytes, kLargestHeader));
  }
  if (header_bytes > size - sizeof(header_bytes)) {
    throw Error(fmt::format("{}: declares a header of {} bytes, but has {} after byte 8", path,
                            header_bytes, size - sizeof(header_bytes)));
  }
  std::string text(header_bytes, '\0');
  file.read(text.data(), text.size());
  if (text.empty() || text[0] != '{') throw Error(path + ": at byte 8: its header is not JSON");
  std::string problem;
  const std::optional<Json> header = Json::parse(text, &problem);
  if (!header) throw Error(fmt::format("{}: its header {}", path, problem));

  SafetensorsFile content;
  content.metadata = parse_metadata(*header, path);
  const std::size_t data_bytes = size - sizeof(header_bytes) - text.size();
  const std::vector<Range> ranges = parse_ranges(*header, data_bytes, path);
  Fingerprint checksum;
  const std::size_t position = checksum_position(text);
  if (position != std::string::npos && position + kChecksumDigits <= text.size()) {
    std::fill_n(text.begin() + static_cast<std::ptrdiff_t>(position), kChecksumDigits, '0');
  }
  checksum.add(text.data(), text.size());
  for (const Range& range : ranges) {
    const Tensor tensor(range.shape, Device{});
    file.read(tensor.data(), tensor.size_bytes());
    checksum.add(tensor.data(), tensor.size_bytes());
    content.tensors.push_back({range.name, tensor});
  }
  const auto written = content.metadata.find(kChecksumKey);
  if (written != content.metadata.end() &&
      written->second != fmt::format("{:016x}", checksum.value())) {
    throw Error(path + ": damaged: its checksum does not match its content");
  }
  content.has_checksum = content.metadata.erase(kChecksumKey) > 0;
  return content;
}

}  // namespace dist
