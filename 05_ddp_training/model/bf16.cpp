#include "05_ddp_training/model/bf16.hpp"

#include "05_ddp_training/model/parallel_for.hpp"

namespace dist {
namespace {

struct Round {
  const float* x;
  Bf16* rounded;
  DIST_HOST_DEVICE void operator()(std::size_t i) const { rounded[i] = to_bf16(x[i]); }
};

}  // namespace

Operand Operands::of(const Stream& stream, std::size_t place, const Tensor& matrix) {
  if (precision_ == Precision::fp32) return matrix;
  if (copies_.size() <= place) copies_.resize(place + 1);
  Buffer<Bf16>& copy = copies_[place];
  if (copy.size() < matrix.numel()) {
    if (!stream.device().is_cpu() && copy.size() > 0) outgrown_.push_back(std::move(copy));
    copy = Buffer<Bf16>(matrix.numel(), stream.device());
  }
  parallel_for(stream, matrix.numel(), Round{matrix.data(), copy.data()});
  return {matrix, copy.data()};
}

std::size_t Operands::size_bytes() const {
  std::size_t bytes = 0;
  for (const Buffer<Bf16>& copy : copies_) bytes += copy.size_bytes();
  return bytes;
}

}  // namespace dist
