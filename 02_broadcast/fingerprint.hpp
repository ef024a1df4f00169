// Fingerprints of numbers: to tell in one word whether two replicas are equal to the bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

struct XXH3_state_s;  // what XXH3_state_t is

namespace dist {

// XXH3, 64 bits: fast, for comparing replicas. Not cryptographic. `seed` chains several spans:
// pass the hash so far.
std::uint64_t fingerprint(std::span<const float> values, std::uint64_t seed = 0);

// The same hash of bytes that come piece by piece.
class Fingerprint {
 public:
  Fingerprint();
  ~Fingerprint();
  Fingerprint(const Fingerprint&) = delete;
  Fingerprint& operator=(const Fingerprint&) = delete;
  void add(const void* data, std::size_t bytes);
  std::uint64_t value() const;

 private:
  XXH3_state_s* state_;
};

}  // namespace dist
