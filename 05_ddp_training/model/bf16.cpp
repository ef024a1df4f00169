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

void round_to_bf16(const Stream& stream, std::size_t count, const float* x, Bf16* rounded) {
  parallel_for(stream, count, Round{x, rounded});
}

}  // namespace dist
