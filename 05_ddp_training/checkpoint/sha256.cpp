#include "05_ddp_training/checkpoint/sha256.hpp"

#include "common/check.hpp"

#include <fmt/core.h>
#include <openssl/evp.h>

#include <array>

namespace dist {

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
