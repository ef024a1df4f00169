// What this file adds: named tensors on disk, in the safetensors format: PyTorch's
// safetensors.torch.load_file reads our files, and we read what its save_file writes.
//
// The layout (huggingface/safetensors, "Format"): the header's length as a little-endian 64-bit
// number, a JSON header with every tensor's type, shape and byte range, and the raw numbers.
//
//   | n, 8 bytes | {"__metadata__":{...},"0.weight":{"dtype":"F32","shape":[512,784],
//   "data_offsets":[0,1605632]},...} , n bytes | numbers |
#pragma once

#include "common/tensor.hpp"

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace dist {

// The metadata key of our files' checksum. The checksum is the XXH3 of the header and the
// numbers, as 16 hexadecimal digits, computed with zeros in place of these digits.
inline constexpr const char* kChecksumKey = "xxh3_64";

// A tensor to be written. `get` is called once, when it is the tensor's turn in the list.
struct TensorSource {
  std::string name;
  Shape shape;
  std::function<Tensor()> get;
};

struct NamedTensor {
  std::string name;
  Tensor tensor;

  // NOLINTNEXTLINE(google-explicit-constructor): a tensor can be written as it is.
  operator TensorSource() const {
    return {name, tensor.shape(), [*this] { return tensor; }};
  }
};

// Writes `tensors` and `metadata` to `path`, on one rank. A reader of `path` always finds the
// whole old file or the whole new one, which is written under a different name, flushed to the
// disk, and then renamed. On failure, throws Error naming the file and keeps the old one.
void write_safetensors(const std::string& path, const std::vector<TensorSource>& tensors,
                       const std::map<std::string, std::string>& metadata,
                       const Stream& stream);

struct SafetensorsFile {
  std::map<std::string, std::string> metadata;
  bool has_checksum = false;         // it has been verified
  std::vector<NamedTensor> tensors;  // float32, on the CPU, in the order of their bytes

  // Returns null if no tensor has this name.
  const Tensor* find(const std::string& name) const;
};

// Throws Error naming the file (and the byte, if that helps) unless the file is a complete
// safetensors file of float32 tensors. Rejects a truncated file, a wrong header, ranges that
// overlap or leave gaps, duplicate names, and a wrong checksum. A missing checksum is accepted,
// because PyTorch's files have none. Never allocates more than the file's size.
SafetensorsFile read_safetensors(const std::string& path);

// SHA-256 of the raw bytes, as 64 hexadecimal digits, which other programs can compute, too.
std::string sha256(std::span<const float> values);

}  // namespace dist
