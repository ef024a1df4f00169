// What this file adds: a model's parameters on disk, under PyTorch's names, so that
// safetensors.torch.load_file and load_state_dict read them as they are.
// Builds on: safetensors.
#pragma once

#include "05_ddp_training/mlp.hpp"

#include <map>
#include <span>
#include <string>

namespace dist {

// Called on one rank: rank 0's parameters are everybody's. `metadata` goes into the header.
// Whole or not at all, as write_safetensors; throws Error naming the file.
void save_checkpoint(const std::string& path, std::span<const Parameter> parameters,
                     const std::map<std::string, std::string>& metadata, const Stream& stream);

}  // namespace dist
