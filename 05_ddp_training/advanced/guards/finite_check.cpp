#include "05_ddp_training/advanced/guards/finite_check.hpp"

#include "05_ddp_training/model/kernels.hpp"

#include <cmath>

namespace dist {

FiniteCheck::FiniteCheck(std::span<const Parameter> parameters, const Stream& stream)
    : parameters_(parameters), squares_(parameters.size(), Device{}, Memory::pinned) {
  std::size_t size = 0;
  for (const Parameter& parameter : parameters) {
    size += sum_of_squares_size(parameter.value.numel());
  }
  scratch_ = Buffer<double>(size, stream.device());
}

std::string FiniteCheck::first_not_finite(const Stream& stream) {
  double* scratch = scratch_.data();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& grad = parameters_[i].grad;
    const double* sum = sum_of_squares(stream, grad.numel(), grad.data(), scratch);
    copy_bytes(stream, squares_.data() + i, sum, sizeof(double));
    scratch += sum_of_squares_size(grad.numel());
  }
  stream.synchronize();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!std::isfinite(squares_.data()[i])) return parameters_[i].name;
  }
  return "";
}

}  // namespace dist
