// Hashes of numbers: one 64-bit value tells whether two replicas are equal, bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

struct XXH3_state_s;  // the struct behind XXH3_state_t

namespace dist {

// The 64-bit version of XXH3, a hash function that is fast but not cryptographic. To hash
// several spans in sequence, pass the previous span's hash as `seed`.
std::uint64_t hash_of(std::span<const float> values, std::uint64_t seed = 0);

// Computes XXH3 of bytes that arrive in pieces.
class Hash {
 public:
  Hash();
  ~Hash();
  Hash(Hash&&) = delete;
  void add(const void* data, std::size_t bytes);
  std::uint64_t value() const;

 private:
  XXH3_state_s* state_;
};

}  // namespace dist
