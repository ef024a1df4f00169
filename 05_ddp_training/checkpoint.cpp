#include "05_ddp_training/checkpoint.hpp"

#include "05_ddp_training/safetensors.hpp"

#include <vector>

namespace dist {

void save_checkpoint(const std::string& path, std::span<const Parameter> parameters,
                     const std::map<std::string, std::string>& metadata, const Stream& stream) {
  std::vector<NamedTensor> tensors;
  for (const Parameter& parameter : parameters) {
    tensors.push_back({parameter.name, parameter.value});
  }
  write_safetensors(path, tensors, metadata, stream);
}

}  // namespace dist
