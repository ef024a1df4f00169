// A fingerprint of data. Other programs can compute the same one.
#pragma once

#include <span>
#include <string>

namespace dist {

// SHA-256 of the raw bytes, as 64 hexadecimal digits.
std::string sha256(std::span<const float> values);

}  // namespace dist
