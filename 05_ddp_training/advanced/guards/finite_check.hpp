// What this file adds: one number that is not finite, on one rank, in one gradient, would be in
// every parameter of every rank after the next step. This finds it before.
#pragma once

#include "05_ddp_training/model/mlp.hpp"
#include "common/buffer.hpp"

#include <span>
#include <string>
#include <vector>

namespace dist {

class FiniteCheck {
 public:
  // `parameters` must outlive the check.
  FiniteCheck(std::span<const Parameter> parameters, const Stream& stream);

  // The first parameter whose gradient holds a NaN or an infinity; empty if all numbers are
  // finite. Waits for the stream.
  //
  // Asked of the averaged gradients it needs no message, and all ranks get the same answer: a
  // sum is not finite if one of its terms is not, and all ranks have the same sums.
  std::string first_not_finite(const Stream& stream);

 private:
  std::span<const Parameter> parameters_;
  Buffer<double> scratch_;  // on the device, a part for each parameter
  Buffer<double> squares_;  // on the host, one number for each parameter
};

}  // namespace dist
