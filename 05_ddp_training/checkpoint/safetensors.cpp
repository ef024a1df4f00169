// Look at: write_safetensors, which writes the checksum last, over placeholder zeros, and
// parse_infos, which trusts nothing in the header. The function that replaces a file is
// replace_file in common/atomic_file.
#include "05_ddp_training/checkpoint/safetensors.hpp"

#include "01_send_recv/gpu/host_copy.hpp"
#include "04_distributed_sampler/datasets/refuse.hpp"
#include "common/atomic_file.hpp"
#include "common/buffer.hpp"
#include "common/console.hpp"
#include "common/hash.hpp"
#include "common/join.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <bit>
#include <set>
#include <unordered_set>
#include <utility>

namespace dist {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors is little-endian");

constexpr std::size_t kChecksumDigits = 16;
using Keys = std::vector<const char*>;
// Parsing takes several times this much memory. Our headers have about 110 bytes per tensor.
constexpr std::uint64_t kLargestHeader = 16U << 20;
constexpr std::size_t kMostTensors = 100'000;

// With zeros in place of the checksums that have these keys. Each tensor has a name and a
// shape.
std::string header_of(const auto& tensors, const std::map<std::string, std::string>& metadata,
                      const Keys& checksums) {
  Json header;
  Json& about = header["__metadata__"] = Json::object();
  for (const auto& [key, value] : metadata) about[key] = value;
  for (const char* const key : checksums) about[key] = std::string(kChecksumDigits, '0');
  std::size_t begin = 0;
  for (const auto& tensor : tensors) {
    const auto& name = tensor.name;
    const auto& shape = tensor.shape;
    const std::size_t end = begin + numel(shape) * sizeof(float);
    header[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = to_text(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the numbers are aligned
  return text;
}

// The position of a checksum's digits in a header; npos if it has no such checksum.
std::size_t checksum_position(const std::string& header, const char* key) {
  const std::string begin = fmt::format("\"{}\":\"", key);
  const std::size_t found = header.find(begin);
  if (found == header.npos || found + begin.size() + kChecksumDigits > header.size()) {
    return header.npos;
  }
  return found + begin.size();
}

std::string digits(const Hash& checksum) {
  return fmt::format("{:016x}", checksum.value());
}

// The checksum of the tensors, in whatever order they come.
class TensorsChecksum {
 public:
  void add(const std::string& name, const Shape& shape, std::span<const float> numbers) {
    lines_.insert(fmt::format("{} {} {:016x}\n", name, to_string(shape), hash_of(numbers)));
  }
  std::string text() const {
    Hash all;
    for (const std::string& line : lines_) all.add(line.data(), line.size());
    return digits(all);
  }

 private:
  std::set<std::string> lines_;
};

// Throws Error if `text` nests too deeply or repeats a name in an object; the library does not.
void require_plain(const std::string& text) {
  constexpr std::size_t kDeepest = 100;
  std::vector<std::unordered_set<std::string>> names;  // in each of the objects around a value
  using Event = nlohmann::json::parse_event_t;
  const auto look = [&](int around, Event event, const nlohmann::json& value) {
    const auto depth = static_cast<std::size_t>(around);
    if (event == Event::object_start || event == Event::array_start) {
      check_file(depth < kDeepest, "its header nests too deeply");
      names.resize(depth);
      names.emplace_back();
    } else if (event == Event::key) {
      const auto& name = value.get_ref<const std::string&>();
      check_file(names[depth - 1].insert(name).second, "its header has {} twice", name);
    }
    return false;  // keep nothing, because with a callback that takes quadratic time
  };
  [[maybe_unused]] const auto nothing = nlohmann::json::parse(text, look);
}

struct TensorInfo {
  std::string name;
  Shape shape;
  std::size_t begin = 0;
  std::size_t end = 0;
};

std::size_t whole_number(const nlohmann::json& value, const std::string& what) {
  check_file(value.is_number_unsigned(), "{} is not a whole number", what);
  return value.get<std::size_t>();
}

// The value under `key`; null if there is none.
nlohmann::json member(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? nlohmann::json() : *found;
}

// The tensor that an entry of the header declares.
TensorInfo parse_info(const std::string& name, const nlohmann::json& entry,
                      std::size_t data_bytes) {
  const std::string what = "tensor " + name;
  const nlohmann::json dtype = member(entry, "dtype");
  const nlohmann::json shape = member(entry, "shape");
  const nlohmann::json offsets = member(entry, "data_offsets");
  check_file(!dtype.is_null() && shape.is_array() && offsets.is_array() && offsets.size() == 2,
             "{} needs a dtype, a shape and two data_offsets", what);
  check_file(dtype == "F32", "{} is of dtype {}, not F32", what, dtype.dump());
  TensorInfo info{.name = name, .shape = {}};
  for (const nlohmann::json& extent : shape) {
    info.shape.push_back(whole_number(extent, what + ": its shape"));
  }
  info.begin = whole_number(offsets.front(), what + ": its offset");
  info.end = whole_number(offsets.back(), what + ": its offset");
  check_file(info.begin <= info.end && info.end <= data_bytes,
             "{}: its offsets are {} and {}, but the data has {} bytes", what, info.begin,
             info.end, data_bytes);
  check_file(bytes_of(numel(info.shape), sizeof(float)) == info.end - info.begin,
             "{} {} does not take {} bytes", what, to_string(info.shape),
             info.end - info.begin);
  return info;
}

// The tensors that the header declares, in the order of their bytes. Together they must exactly
// cover the `data_bytes` bytes that follow the header.
std::vector<TensorInfo> parse_infos(const nlohmann::json& header, std::size_t data_bytes) {
  check_file(header.size() <= kMostTensors, "declares {} tensors, more than the limit of {}",
             header.size(), kMostTensors);
  std::vector<TensorInfo> infos;
  for (const auto& [name, entry] : header.items()) {
    if (name != "__metadata__") infos.push_back(parse_info(name, entry, data_bytes));
  }
  std::ranges::sort(infos, {}, [](const TensorInfo& t) { return std::pair(t.begin, t.end); });
  std::size_t next = 0;
  for (const TensorInfo& info : infos) {
    check_file(info.begin == next,
               "tensor {} begins at byte {}, but the one before it ends at {}", info.name,
               info.begin, next);
    next = info.end;
  }
  check_file(next == data_bytes, "{} bytes belong to no tensor", data_bytes - next);
  return infos;
}

std::map<std::string, std::string> parse_metadata(const nlohmann::json& header) {
  std::map<std::string, std::string> metadata;
  const nlohmann::json about = member(header, "__metadata__");
  check_file(about.is_object() || !header.contains("__metadata__"),
             "its metadata is not an object");
  for (const auto& [key, value] : about.items()) {
    check_file(value.is_string(), "metadata {} is not text", key);
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

}  // namespace

void write_safetensors(const std::string& path, const std::vector<TensorSource>& tensors,
                       const std::map<std::string, std::string>& metadata,
                       const Stream& stream) {
  const std::string header = header_of(tensors, metadata, {kTensorsKey, kChecksumKey});
  const std::uint64_t header_bytes = header.size();
  replace_file(path, [&](const File& file) {
    file.write(&header_bytes, sizeof(header_bytes));
    file.write(header.data(), header.size());
    Hash checksum;
    TensorsChecksum of_tensors;
    checksum.add(header.data(), header.size());
    for (const TensorSource& source : tensors) {
      read_on_host(stream, source.get(), [&](std::span<const float> values) {
        file.write(values.data(), values.size_bytes());
        checksum.add(values.data(), values.size_bytes());
        of_tensors.add(source.name, source.shape, values);
      });
    }
    const auto fill_in = [&](const char* key, const std::string& text) {
      file.write_at(text, sizeof(header_bytes) + checksum_position(header, key));
    };
    fill_in(kTensorsKey, of_tensors.text());
    fill_in(kChecksumKey, digits(checksum));
  });
}

const Tensor* SafetensorsFile::find(const std::string& name) const {
  const auto found = std::ranges::find(tensors, name, &NamedTensor::name);
  return found == tensors.end() ? nullptr : &found->tensor;
}

SafetensorsFile read_safetensors(const std::string& path) {
  const File file(path);
  const std::size_t size = file.size();
  std::string first(std::min<std::size_t>(size, 128), '\0');
  File(path).read(first.data(), first.size());
  if (first.size() <= 8 || first[8] != '{') {  // where every header begins
    const std::string kind = what_is(first);
    check_file(kind.empty(), "{}: is not a safetensors file, but {}", path, kind);
  }
  std::uint64_t header_bytes = 0;
  check_file(size >= sizeof(header_bytes),
             "{}: has {} bytes, too few for the length of a header", path, size);
  file.read(&header_bytes, sizeof(header_bytes));
  const std::size_t rest = size - sizeof(header_bytes);
  check_file(header_bytes <= kLargestHeader,
             "{}: declares a header of {} bytes, more than the limit of {}", path, header_bytes,
             kLargestHeader);
  check_file(header_bytes <= rest, "{}: declares a header of {} bytes, but has {} after byte 8",
             path, header_bytes, rest);
  std::string text(header_bytes, '\0');
  file.read(text.data(), text.size());
  check_file(text.starts_with('{'), "{}: at byte 8: its header is not JSON", path);
  SafetensorsFile content;
  std::vector<TensorInfo> infos;
  try {
    require_plain(text);
    const auto header = nlohmann::json::parse(text);
    content.metadata = parse_metadata(header);
    infos = parse_infos(header, rest - text.size());
  } catch (const nlohmann::json::exception& error) {
    throw Error(fmt::format("{}: its header is not JSON: {}", path, error.what()));
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", path, error.what()));
  }

  std::map<std::string, std::string> written;  // checksums, by their keys
  Keys keys;
  for (const char* const key : {kTensorsKey, kChecksumKey}) {
    const std::size_t position = checksum_position(text, key);
    if (position != text.npos) text.replace(position, kChecksumDigits, kChecksumDigits, '0');
    const auto entry = content.metadata.extract(key);
    if (!entry) continue;
    written[key] = entry.mapped();
    keys.push_back(key);
  }
  Hash checksum;
  TensorsChecksum of_tensors;
  checksum.add(text.data(), text.size());
  for (const TensorInfo& info : infos) {
    const Tensor tensor(info.shape, Device{});
    file.read(tensor.data(), tensor.size_bytes());
    checksum.add(tensor.data(), tensor.size_bytes());
    of_tensors.add(info.name, info.shape, tensor.span());
    content.tensors.push_back({info.name, tensor});
  }
  if (written.contains(kChecksumKey)) {
    const bool has_second = written.contains(kTensorsKey);
    const bool file_holds = written[kChecksumKey] == digits(checksum);
    const bool tensors_hold = has_second && written[kTensorsKey] == of_tensors.text();
    content.checksum = file_holds && (tensors_hold || !has_second) ? Checksum::whole
                       : tensors_hold                              ? Checksum::tensors
                                                                   : Checksum::wrong;
  }
  // Another program's header would differ from ours, in its order if in nothing else.
  check_file(
      content.checksum != Checksum::wrong || text != header_of(infos, content.metadata, keys),
      "{}: damaged: its checksum does not match its content", path);
  return content;
}

std::string sha256(std::span<const float> values) {
  std::array<unsigned char, 32> digest{};
  if (EVP_Digest(values.data(), values.size_bytes(), digest.data(), nullptr, EVP_sha256(),
                 nullptr) != 1) {
    throw Error("SHA-256 failed in libcrypto");
  }
  return join(digest, "", "{:02x}");
}

}  // namespace dist
