// What this file adds: named tensors on disk, in the safetensors format, so that PyTorch's
// safetensors.torch.load_file reads what we write, and we read what its save_file writes.
//
// The layout (huggingface/safetensors, "Format"): the length of the header as a little-endian
// 64-bit number, a JSON header that gives every tensor's type, shape and byte range, then the
// raw numbers:
//
//   | n, 8 bytes | {"__metadata__":{...},"0.weight":{"dtype":"F32","shape":[512,784],
//   "data_offsets":[0,1605632]},...} , n bytes | numbers |
#pragma once

#include "common/tensor.hpp"

#include <map>
#include <string>
#include <vector>

namespace dist {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

// Our files carry a checksum in their metadata under this key: XXH3 of header and numbers, as
// 16 hexadecimal digits, computed while the 16 digits are zeros.
inline constexpr const char* kChecksumKey = "xxh3_64";

// Writes `tensors` and `metadata` to `path`. Called on one rank. Whoever reads `path` at any
// moment finds the old file or the new one, whole: it is written under another name, brought to
// the disk, and then renamed. Throws Error naming the file; the old one is kept then.
void write_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata,
                       const Stream& stream);

struct SafetensorsFile {
  std::map<std::string, std::string> metadata;
  bool has_checksum = false;         // and it is right
  std::vector<NamedTensor> tensors;  // float32, on the CPU, in the order of their bytes

  // Null if there is none.
  const Tensor* find(const std::string& name) const;
};

// Throws Error naming the file, and the byte where that helps, for whatever is not a whole
// safetensors file of float32 tensors: cut off, with a lying header, with ranges that overlap
// or leave holes, with a name twice, or with a checksum that is not that of its content. Never
// allocates more than the file holds. A file without a checksum (PyTorch's) is read.
SafetensorsFile read_safetensors(const std::string& path);

}  // namespace dist
