#include "common/hash.hpp"

#include "common/check.hpp"

#include <fmt/core.h>
#include <openssl/evp.h>
#include <xxhash.h>

#include <array>

namespace dist {

std::uint64_t fingerprint(std::span<const float> values, std::uint64_t seed) {
  return XXH3_64bits_withSeed(values.data(), values.size_bytes(), seed);
}

Fingerprint::Fingerprint() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw Error("no memory for a hash");
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

std::string sha256(std::span<const float> values) {
  std::array<unsigned char, 32> digest{};
  unsigned length = 0;
  if (EVP_Digest(values.data(), values.size_bytes(), digest.data(), &length, EVP_sha256(),
                 nullptr) != 1) {
    throw Error("SHA-256 failed in libcrypto");
  }
  std::string text;
  for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace dist
