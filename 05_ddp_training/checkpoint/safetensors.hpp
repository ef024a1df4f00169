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

// The metadata keys of our files' checksums, each 16 hexadecimal digits of XXH3. The first
// covers the header and the numbers, with zeros in place of both checksums' digits: it shows
// damage. The second covers the tensors' names, shapes and numbers alone: it still holds when
// another program has read the file and written it again, in another order or form. Files of
// release 1.0.0 have only the first.
inline constexpr const char* kChecksumKey = "xxh3_64";
inline constexpr const char* kTensorsKey = "xxh3_64_tensors";
// What the checksums show, from nothing to everything: there are none; the tensors are not
// those that we wrote, but neither is the form of the header, so another program has written
// the file; only the tensors are those that we wrote; the whole file is.
enum class Checksum { none, wrong, tensors, whole };

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
  std::map<std::string, std::string> metadata;  // without the checksums
  Checksum checksum = Checksum::none;
  std::vector<NamedTensor> tensors;  // float32, on the CPU, in the order of their bytes

  // Returns null if no tensor has this name.
  const Tensor* find(const std::string& name) const;
};

// Throws Error naming the file (and the byte, if that helps) unless the file is a complete
// safetensors file of float32 tensors. Rejects a truncated file, a wrong header, ranges that
// overlap or leave gaps, duplicate names, and damage to a file of ours. What another program
// wrote is accepted, without a checksum or with one of ours that it has kept. Never allocates
// more than the file's size.
SafetensorsFile read_safetensors(const std::string& path);

// SHA-256 of the raw bytes, as 64 hexadecimal digits, which other programs can compute, too.
std::string sha256(std::span<const float> values);

}  // namespace dist
