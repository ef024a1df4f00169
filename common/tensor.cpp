#include "common/tensor.hpp"

#include "common/buffer.hpp"
#include "common/check.hpp"
#include "common/check_cuda.hpp"
#include "common/join.hpp"

#include <fmt/format.h>

#include <cstring>
#include <utility>

namespace dist {

std::size_t numel(const Shape& shape) {
  std::size_t product = 1;
  for (const std::size_t extent : shape) {
    if (__builtin_mul_overflow(product, extent, &product)) {
      throw Error(
          fmt::format("a tensor of shape {} is larger than any memory", to_string(shape)));
    }
  }
  return product;
}

std::string to_string(const Shape& shape) {
  return fmt::format("({})", join(shape, ", "));
}

Tensor::Tensor(Shape shape, Device device)
    : Tensor(nullptr, nullptr, std::move(shape), device) {
  owner_ = allocate(bytes_of(numel_, sizeof(float)), device);
  data_ = static_cast<float*>(owner_.get());
}

Tensor::Tensor(std::shared_ptr<void> owner, float* data, Shape shape, Device device)
    : owner_(std::move(owner)),
      data_(data),
      shape_(std::move(shape)),
      numel_(dist::numel(shape_)),
      device_(device) {}

Tensor Tensor::narrow(std::size_t begin, std::size_t count) const {
  if (begin > numel_ || count > numel_ - begin) {
    throw Error(
        fmt::format("narrow({}, {}) is outside a tensor of {} elements", begin, count, numel_));
  }
  return {owner_, data_ + begin, {count}, device_};
}

Tensor Tensor::view(Shape shape) const {
  if (dist::numel(shape) != numel_) {
    throw Error(fmt::format("cannot view a tensor of shape {} as {}", to_string(shape_),
                            to_string(shape)));
  }
  return {owner_, data_, std::move(shape), device_};
}

Tensor Tensor::rows(std::size_t count) const {
  Shape shape = shape_;
  if (shape.empty() || count > shape[0]) {
    throw Error(
        fmt::format("cannot take {} rows of a tensor of shape {}", count, to_string(shape_)));
  }
  shape[0] = count;
  return {owner_, data_, std::move(shape), device_};
}

std::span<float> Tensor::span() const {
  if (!device_.is_cpu()) {
    throw Error(fmt::format("the host cannot access a tensor on {}; copy it first",
                            to_string(device_)));
  }
  return {data_, numel_};
}

void copy_bytes(const Stream& stream, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
#if DIST_WITH_CUDA
  if (!stream.device().is_cpu()) {
    CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream.get()));
    return;
  }
#endif
  static_cast<void>(stream);
  std::memcpy(to, from, bytes);
}

void copy(const Stream& stream, const Tensor& to, const Tensor& from) {
  if (to.numel() != from.numel()) {
    throw Error(fmt::format("cannot copy a tensor of shape {} into one of shape {}",
                            to_string(from.shape()), to_string(to.shape())));
  }
  copy_bytes(stream, to.data(), from.data(), from.size_bytes());
}

std::vector<float> to_host(const Stream& stream, const Tensor& tensor) {
  std::vector<float> values(tensor.numel());
  copy_bytes(stream, values.data(), tensor.data(), tensor.size_bytes());
  stream.synchronize();
  return values;
}

}  // namespace dist
