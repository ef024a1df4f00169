#include "05_ddp_training/advanced/gpt/attention.hpp"

#include "05_ddp_training/advanced/gpt/exp.hpp"
#include "05_ddp_training/model/parallel_for.hpp"
#include "common/check.hpp"

#include <cmath>

namespace dist::gpt {
namespace {

struct Heads {
  std::size_t length, heads, size;
  float scale;  // 1 / sqrt(size)
};

// What an index of the kernels below is: a token, as one head sees it.
struct Token {
  std::size_t width, stride;  // of a row of y, and of a row of qkv
  std::size_t first, row;     // the sequence's first row, and this token's
  std::size_t head;           // where the head begins in a row
  DIST_HOST_DEVICE Token(const Heads& n, std::size_t i)
      : width(n.heads * n.size),
        stride(3 * width),
        first(i / n.length / n.heads * n.length),
        row(first + i % n.length),
        head(i / n.length % n.heads * n.size) {}
};

// A sum of vectors of a head, each times a factor. If kSize, the vectors' size, is known when
// this is compiled, the sum stays in registers. (0: it is not. The whole step of a model whose
// heads have 16 numbers then takes 1.4 times as long.)
constexpr std::size_t kLargestSize = 128;
template <std::size_t kSize>
struct Sum {
  std::size_t size;
  float sum[kSize > 0 ? kSize : kLargestSize];
  DIST_HOST_DEVICE explicit Sum(const Heads& n) : size(kSize > 0 ? kSize : n.size) {
    for (std::size_t d = 0; d < size; ++d) sum[d] = 0.0F;
  }
  DIST_HOST_DEVICE void add(float factor, const float* x) {
#pragma omp simd
    for (std::size_t d = 0; d < size; ++d) sum[d] = std::fma(factor, x[d], sum[d]);
  }
  DIST_HOST_DEVICE void write(float* to) const {
    for (std::size_t d = 0; d < size; ++d) to[d] = sum[d];
  }
};

template <std::size_t kSize>
DIST_HOST_DEVICE float dot(const Heads& n, const float* a, const float* b) {
  float sum = 0.0F;
#pragma omp simd reduction(+ : sum)
  for (std::size_t d = 0; d < (kSize > 0 ? kSize : n.size); ++d) sum += a[d] * b[d];
  return sum;
}

template <std::size_t kSize>
struct Attend {
  Heads n;
  const float* qkv;
  float *p, *y;
  DIST_HOST_DEVICE void operator()(std::size_t i) const {
    const Token t(n, i);
    const std::size_t seen = t.row - t.first + 1;
    const float* query = qkv + t.row * t.stride + t.head;
    const float* keys = qkv + t.first * t.stride + t.width + t.head;
    const float* values = keys + t.width;
    float* mine = p + i * n.length;
    float largest = -INFINITY, sum = 0.0F;
    for (std::size_t u = 0; u < seen; ++u) {
      mine[u] = n.scale * dot<kSize>(n, query, keys + u * t.stride);
      largest = mine[u] > largest ? mine[u] : largest;
    }
#pragma omp simd reduction(+ : sum)
    for (std::size_t u = 0; u < seen; ++u) sum += mine[u] = exp_of(mine[u] - largest);
    const float share = 1.0F / sum;
    Sum<kSize> seen_values(n);
    for (std::size_t u = 0; u < seen; ++u) {
      mine[u] *= share;
      seen_values.add(mine[u], values + u * t.stride);
    }
    seen_values.write(y + t.row * t.width + t.head);
  }
};

// The gradients of a token's products with keys, and of its query. With g[u] = grad_y .
// value[u], the gradient of p[u]:
//   grad_products[u] = p[u] (g[u] - sum over v of p[v] g[v]) / sqrt(size)
template <std::size_t kSize>
struct AttendBackwardQuery {
  Heads n;
  const float *qkv, *p, *grad_y;
  float *grad_products, *grad_qkv;
  DIST_HOST_DEVICE void operator()(std::size_t i) const {
    const Token t(n, i);
    const std::size_t seen = t.row - t.first + 1;
    const float* keys = qkv + t.first * t.stride + t.width + t.head;
    const float* values = keys + t.width;
    const float *from = grad_y + t.row * t.width + t.head, *mine = p + i * n.length;
    float* grad = grad_products + i * n.length;
    float sum = 0.0F;
    for (std::size_t u = 0; u < seen; ++u) {
      grad[u] = dot<kSize>(n, from, values + u * t.stride);
      sum += mine[u] * grad[u];
    }
    Sum<kSize> grad_query(n);
    for (std::size_t u = 0; u < seen; ++u) {
      grad[u] = n.scale * mine[u] * (grad[u] - sum);
      grad_query.add(grad[u], keys + u * t.stride);
    }
    grad_query.write(grad_qkv + t.row * t.stride + t.head);
  }
};

// The gradients of a token's key and value: sums over the tokens that have seen it. A kernel of
// its own, because in the one above, several indices would add to the same key.
template <std::size_t kSize>
struct AttendBackwardKey {
  Heads n;
  const float *qkv, *p, *grad_y, *grad_products;
  float* grad_qkv;
  DIST_HOST_DEVICE void operator()(std::size_t i) const {
    const Token t(n, i);
    const std::size_t place = t.row - t.first;
    Sum<kSize> grad_key(n), grad_value(n);
    for (std::size_t later = place; later < n.length; ++later) {
      const std::size_t row = t.first + later;
      const std::size_t pair = (i - place + later) * n.length + place;  // of (later, place)
      grad_key.add(grad_products[pair], qkv + row * t.stride + t.head);
      grad_value.add(p[pair], grad_y + row * t.width + t.head);
    }
    float* key = grad_qkv + t.row * t.stride + t.width + t.head;
    grad_key.write(key);
    grad_value.write(key + t.width);
  }
};

// Runs a kernel for all heads of all tokens. The sizes are small GPTs' and GPT-2's.
template <template <std::size_t> class Kernel, class... Operands>
void for_each_head(const Pass& pass, const Heads& n, std::size_t rows, Operands... operands) {
  const std::size_t count = rows * n.heads;
  switch (n.size) {
    case 16: return parallel_for(pass.stream, count, Kernel<16>{n, operands...});
    case 32: return parallel_for(pass.stream, count, Kernel<32>{n, operands...});
    case 64: return parallel_for(pass.stream, count, Kernel<64>{n, operands...});
    default: return parallel_for(pass.stream, count, Kernel<0>{n, operands...});
  }
}

Heads heads_of(std::size_t length, std::size_t heads, std::size_t size) {
  return {length, heads, size, 1.0F / std::sqrt(static_cast<float>(size))};
}

}  // namespace

Attention::Attention(Module& model, const std::string& name, std::size_t width,
                     std::size_t heads, Device device)
    : heads_(heads),
      size_(heads > 0 ? width / heads : 0),
      to_qkv_(model, name + ".c_attn", width, 3 * width, device),
      projection_(model, name + ".c_proj", width, width, device) {
  if (heads * size_ != width || size_ > kLargestSize) {
    throw Error("attention's heads must divide its width into at most 128 numbers each");
  }
}

Tensor Attention::forward(const Tensor& x, const Pass& pass) {
  const std::size_t rows = x.dim(0);
  qkv_ = to_qkv_.forward(x, pass);
  p_ = pass.make({rows / pass.length, heads_, pass.length, pass.length});
  const Tensor y = pass.make(x.shape());
  for_each_head<Attend>(pass, heads_of(pass.length, heads_, size_), rows, qkv_.data(),
                        p_.data(), y.data());
  return projection_.forward(y, pass);
}

Tensor Attention::backward(const Tensor& grad_y, const Pass& pass) {
  const Heads n = heads_of(pass.length, heads_, size_);
  const std::size_t rows = grad_y.dim(0);
  const Tensor grad = projection_.backward(grad_y, pass);
  const Tensor grad_products = pass.make(p_.shape()), grad_qkv = pass.make(qkv_.shape());
  for_each_head<AttendBackwardQuery>(pass, n, rows, qkv_.data(), p_.data(), grad.data(),
                                     grad_products.data(), grad_qkv.data());
  for_each_head<AttendBackwardKey>(pass, n, rows, qkv_.data(), p_.data(), grad.data(),
                                   grad_products.data(), grad_qkv.data());
  return to_qkv_.backward(grad_qkv, pass);
}

}  // namespace dist::gpt
