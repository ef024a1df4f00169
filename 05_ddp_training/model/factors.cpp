#include "05_ddp_training/model/factors.hpp"

#include <utility>

namespace dist {

Factor Factors::of(const Stream& stream, std::size_t place, const Tensor& matrix) {
  if (precision_ == Precision::fp32) return matrix;
  if (copies_.size() <= place) copies_.resize(place + 1);
  Buffer<Bf16>& copy = copies_[place];
  if (copy.size() < matrix.numel()) {
    if (!stream.device().is_cpu() && copy.size() > 0) outgrown_.push_back(std::move(copy));
    copy = Buffer<Bf16>(matrix.numel(), stream.device());
  }
  round_to_bf16(stream, matrix.numel(), matrix.data(), copy.data());
  return {matrix, copy.data()};
}

std::size_t Factors::size_bytes() const {
  std::size_t bytes = 0;
  for (const Buffer<Bf16>& copy : copies_) bytes += copy.size_bytes();
  return bytes;
}

}  // namespace dist
