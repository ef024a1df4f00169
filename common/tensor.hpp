// A tensor: contiguous float32 numbers on a device, with a shape, in row-major order.
//
// A tensor is a view of shared storage. narrow() and view() give a new view of the same
// storage, so that one flat message can also be the gradients of ten layers (05,
// distributed_data_parallel). Copying a Tensor copies the view, never the numbers.
#pragma once

#include "common/device.hpp"
#include "common/stream.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dist {

using Shape = std::vector<std::size_t>;

std::size_t numel(const Shape& shape);
std::string to_string(const Shape& shape);  // "(64, 784)"

class Tensor {
 public:
  Tensor() = default;
  // Its own zeroed storage.
  Tensor(Shape shape, Device device);
  // A view of existing memory, which `owner` keeps alive.
  Tensor(std::shared_ptr<void> owner, float* data, Shape shape, Device device);

  const Shape& shape() const { return shape_; }
  std::size_t dim(std::size_t axis) const { return shape_.at(axis); }
  std::size_t numel() const { return numel_; }
  std::size_t size_bytes() const { return numel_ * sizeof(float); }
  Device device() const { return device_; }
  float* data() const { return data_; }

  // `count` elements, starting with element `begin`, as a one-dimensional tensor.
  Tensor narrow(std::size_t begin, std::size_t count) const;
  // The same elements with a different shape.
  Tensor view(Shape shape) const;
  // The first `count` rows.
  Tensor rows(std::size_t count) const;

  // The elements, for access by the host. Throws Error for a tensor on a GPU.
  std::span<float> span() const;

 private:
  std::shared_ptr<void> owner_;
  float* data_ = nullptr;
  Shape shape_{0};
  std::size_t numel_ = 0;
  Device device_;
};

// Copies bytes between host and device, or within either, in the stream's order. On a GPU the
// call may return before the copy is done.
void copy_bytes(const Stream& stream, void* to, const void* from, std::size_t bytes);
void copy(const Stream& stream, const Tensor& to, const Tensor& from);

// Returns a copy in host memory. The copy is complete on return.
std::vector<float> to_host(const Stream& stream, const Tensor& tensor);

}  // namespace dist
