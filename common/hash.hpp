// Fingerprints of numbers: to tell in one word whether two replicas are equal to the bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace dist {

// XXH3, 64 bits: fast, for comparing replicas. Not cryptographic. `seed` chains several spans:
// pass the hash so far.
std::uint64_t fingerprint(std::span<const float> values, std::uint64_t seed = 0);

// SHA-256 of the raw bytes as 64 hexadecimal digits: for comparing with other programs.
std::string sha256(std::span<const float> values);

}  // namespace dist
