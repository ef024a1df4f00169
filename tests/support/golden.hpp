// Reads what PyTorch printed, and hashes our numbers for comparison. Each file in
// tests/golden says how it was made.
#pragma once

#include "05_ddp_training/checkpoint/safetensors.hpp"

#include <nlohmann/json.hpp>

#include <fstream>
#include <string>
#include <vector>

namespace dist::test {

// The content of a file in tests/golden. Bind the result to a name: a loop over
// golden(...).at(...) would use a destroyed temporary.
inline nlohmann::json golden(const std::string& name) {
  std::ifstream file(std::string(GOLDEN_DIR) + "/" + name);
  return nlohmann::json::parse(file);
}

// The SHA-256 hash of numbers of any type. dist::sha256 takes floats, but reads only their
// bytes.
template <class T>
std::string sha256_of(const std::vector<T>& values) {
  const std::size_t size = values.size() * sizeof(T);
  if (size % sizeof(float) != 0) return "not a whole number of floats";
  return sha256({reinterpret_cast<const float*>(values.data()), size / sizeof(float)});
}

}  // namespace dist::test
