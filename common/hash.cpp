#include "common/hash.hpp"

#include "common/check.hpp"

#include <xxhash.h>

namespace dist {

std::uint64_t hash_of(std::span<const float> values, std::uint64_t seed) {
  return XXH3_64bits_withSeed(values.data(), values.size_bytes(), seed);
}

Hash::Hash() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw Error("not enough memory for a hash");
  XXH3_64bits_reset(state_);
}
Hash::~Hash() {
  XXH3_freeState(state_);
}
void Hash::add(const void* data, std::size_t bytes) {
  XXH3_64bits_update(state_, data, bytes);
}
std::uint64_t Hash::value() const {
  return XXH3_64bits_digest(state_);
}

}  // namespace dist
