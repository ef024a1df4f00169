// A rank's part of a model: the interface to tensor_parallel.cpp and pipeline_parallel.cpp that
// their training loop (train_part.hpp) uses.
#pragma once

#include "02_broadcast/chunks.hpp"
#include "04_distributed_sampler/batch_plan.hpp"
#include "05_ddp_training/model/mlp.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace dist {

// The rows and columns of a parameter that a rank has. A bias is a matrix of one column.
struct Held {
  ChunkRange rows, columns;
};

// A rank's part of a model.
class PartOfModel {
 public:
  virtual ~PartOfModel() = default;
  // What the rank `rank` of all ranks has of an Mlp's parameter i of this size, if anything.
  virtual std::optional<Held> held(int rank, std::size_t i, std::size_t rows,
                                   std::size_t columns) const = 0;
  // Called on all ranks of a row with the same batch. Writes the gradients of its mean loss.
  // Returns this rank's share of that loss: the shares of the row add up to it.
  virtual double forward_and_backward(const Batch& batch) = 0;
  // The most micro-batches whose activations this rank has held at a time.
  virtual std::size_t most_in_flight() const { return 1; }

  std::span<Parameter> parameters() { return parameters_; }

 protected:
  void start_from(std::span<const Parameter> whole, int rank) {
    for (std::size_t i = 0; i < whole.size(); ++i) {
      const Tensor& all = whole[i].value;
      const std::size_t width = all.numel() / all.dim(0);
      const std::optional<Held> mine = held(rank, i, all.dim(0), width);
      if (!mine) continue;
      const auto [rows, columns] = *mine;
      const Tensor value({rows.count, columns.count}, Device{});
      for (std::size_t row = 0; row < rows.count; ++row) {
        std::copy_n(all.data() + (rows.begin + row) * width + columns.begin, columns.count,
                    value.data() + row * columns.count);
      }
      parameters_.push_back({"", value, Tensor(value.shape(), Device{})});
    }
  }
  std::vector<Parameter> parameters_;  // each layer's weight before its bias
};

}  // namespace dist
