// The arithmetic of forward, backward and loss, apart from matrix products: one function per
// operation. The optimizers' arithmetic is in update_kernels.hpp.
//
// Every function queues its work on `stream` and takes pointers into its device's memory. Each
// has one source for both devices (parallel_for.hpp). Each output is computed by one index,
// which adds in a fixed order, so a repeated run gives bitwise equal results.
#pragma once

#include "common/stream.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace dist {

// Why this build's kernels cannot run on the current GPU, such as a card that is older than the
// architectures for which they were compiled. Empty if they can, and without CUDA.
std::string why_no_kernel();

// x[r][c] += bias[c], where x is (rows, columns).
void add_bias(const Stream& stream, std::size_t rows, std::size_t columns, const float* bias,
              float* x);
// add_bias followed by ReLU: negative numbers become 0.
void add_bias_relu(const Stream& stream, std::size_t rows, std::size_t columns,
                   const float* bias, float* x);
// gradient[i] = 0 where the ReLU's output was 0.
void relu_backward(const Stream& stream, std::size_t count, const float* output,
                   float* gradient);
// sums[c] = sum over r of x[r][c], where x is (rows, columns): the gradient of a bias. If `add`
// is true, adds to the existing sums.
void column_sums(const Stream& stream, std::size_t rows, std::size_t columns, const float* x,
                 float* sums, bool add = false);

// into[i] += x[i].
void add_to(const Stream& stream, std::size_t count, const float* x, float* into);
// x[i] *= factor.
void scale(const Stream& stream, std::size_t count, float factor, float* x);

// Softmax and cross entropy, forward and backward together. For each row of `logits`, whose
// shape is (rows, classes):
//   losses[r]       = -log softmax(logits[r])[targets[r]]
//   gradient[r][c]  = (softmax(logits[r])[c] - (c == targets[r])) * scale
// If `scale` is 1 / rows, `gradient` is the gradient of the mean loss.
void softmax_cross_entropy(const Stream& stream, std::size_t rows, std::size_t classes,
                           const float* logits, const std::int32_t* targets, float* losses,
                           float* gradient, float scale);

// The same for a batch that is one of several parts of a step, followed by:
//   *part       = 0 if this is the first part, else one more than before
//   means[part] = the mean of `losses`, added up in double, from the first to the last
//   numbers[0]  = the mean of means[0] to means[part], and numbers[1] = *stop
// `stop` is in pinned host memory, and `blocks_done` is as in parallel_for_then. The device
// counts the parts, so that all those between the first and the last queue the same work
// (StepGraph).
struct StepLoss {
  bool is_first;
  std::size_t* part;
  double* means;
  double* numbers;
  const double* stop;
  unsigned* blocks_done;
};
void softmax_cross_entropy(const Stream& stream, std::size_t rows, std::size_t classes,
                           const float* logits, const std::int32_t* targets, float* losses,
                           float* gradient, float scale, const StepLoss& step);
// hashes[t] = a hash of the bits of x[t], x[t + threads], x[t + 2 threads], ...
void hash_bits(const Stream& stream, std::size_t count, const float* x, std::size_t threads,
               std::uint64_t* hashes);
// hits[r] = 1 if the largest of logits[r] (the first one in a tie) is at targets[r], else 0.
void count_hits(const Stream& stream, std::size_t rows, std::size_t classes,
                const float* logits, const std::int32_t* targets, float* hits);

}  // namespace dist
