// Copies of tensors at a particular moment, and their text form (for --explain).
#pragma once

#include "05_ddp_training/model/mlp.hpp"
#include "common/console.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace dist {

// The values as text, such as "[1 0; 0 1]": rows of `columns` numbers each. A vector is one
// row.
std::string text_of(const std::vector<float>& values, std::size_t columns);
inline std::string text_of(const std::vector<float>& values) {
  return text_of(values, values.size());
}

struct Snapshot {
  std::string name;
  std::vector<float> values;
  std::size_t columns = 0;  // the last dimension

  std::string text() const { return text_of(values, columns); }
  std::string row(std::size_t index) const;
  bool operator==(const Snapshot&) const = default;
};
using Snapshots = std::vector<Snapshot>;

// Waits for the stream.
Snapshot snapshot(const std::string& name, const Tensor& tensor, const Stream& stream);
// Snapshots of every parameter, in registration order.
Snapshots parameters_of(const Mlp& model, const Stream& stream);
Snapshots gradients_of(const Mlp& model, const Stream& stream);

// As text: "0.weight [1 0; 0 1]  0.bias [0 0]".
std::string text_of(const Snapshots& all);
Json json_of(const Snapshots& all);
// A hash of all their numbers, as 16 hexadecimal digits.
std::string hash_of(const Snapshots& all);

}  // namespace dist
