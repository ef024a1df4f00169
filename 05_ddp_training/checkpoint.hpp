// What this file adds: parameters on disk, in the safetensors format, so that
// safetensors.torch.load_file and load_state_dict read them as they are.
//
// The layout (huggingface/safetensors, "Format"): the length of the header as a little-endian
// 64-bit number, a JSON header that gives every tensor's type, shape and byte range, then the
// raw numbers.
#pragma once

#include "05_ddp_training/mlp.hpp"

#include <cstdint>
#include <map>
#include <span>
#include <string>

namespace dist {

// Called on one rank: rank 0's parameters are everybody's. `metadata` goes into the header as
// it is. Whoever reads `path` at any moment finds the old file or the new one, whole: it is
// written under another name, brought to the disk, and then renamed. Throws Error naming the
// file; the old one is kept then.
void save_checkpoint(const std::string& path, std::span<const Parameter> parameters,
                     const std::map<std::string, std::string>& metadata, const Stream& stream);

}  // namespace dist
