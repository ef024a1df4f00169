// Operations on plain numbers: one function per operation. Those of a layer are in linear.hpp,
// of the loss in loss.hpp, of an optimizer in adam.hpp and sgd.hpp.
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

// into[i] += x[i].
void add_to(const Stream& stream, std::size_t count, const float* x, float* into);
// x[i] *= factor.
void scale(const Stream& stream, std::size_t count, float factor, float* x);

// hashes[t] = a hash of the bits of x[t], x[t + threads], x[t + 2 threads], ...
void hash_bits(const Stream& stream, std::size_t count, const float* x, std::size_t threads,
               std::uint64_t* hashes);
// hits[r] = 1 if the argmax of logits[r], as torch.argmax defines it, is targets[r], else 0.
void count_hits(const Stream& stream, std::size_t rows, std::size_t classes,
                const float* logits, const std::int32_t* targets, float* hits);

}  // namespace dist
