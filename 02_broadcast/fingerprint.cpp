#include "02_broadcast/fingerprint.hpp"

#include "common/check.hpp"

#include <xxhash.h>

namespace dist {

std::uint64_t fingerprint(std::span<const float> values, std::uint64_t seed) {
  return XXH3_64bits_withSeed(values.data(), values.size_bytes(), seed);
}

Fingerprint::Fingerprint() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw Error("not enough memory for a hash");
  XXH3_64bits_reset(state_);
}
Fingerprint::~Fingerprint() {
  XXH3_freeState(state_);
}
void Fingerprint::add(const void* data, std::size_t bytes) {
  XXH3_64bits_update(state_, data, bytes);
}
std::uint64_t Fingerprint::value() const {
  return XXH3_64bits_digest(state_);
}

}  // namespace dist
