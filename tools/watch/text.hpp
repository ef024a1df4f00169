// Builds sentences from parts. A formatting library would take longer to compile than the rest
// of the watch.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <type_traits>

namespace dist::watch {

// `part` is a text or an integer.
template <class Part>
void append(std::string& text, const Part& part) {
  if constexpr (std::is_convertible_v<Part, std::string_view>) {
    text += std::string_view(part);
  } else {
    text += std::to_string(part);
  }
}

template <class... Parts>
std::string concat(const Parts&... parts) {
  std::string text;
  (append(text, parts), ...);
  return text;
}

template <class Range>
std::string join(const Range& parts, std::string_view between) {
  std::string text;
  for (const auto& part : parts) {
    if (!text.empty()) text += between;
    append(text, part);
  }
  return text;
}

// `format` is a printf format for one double.
inline std::string format_number(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

}  // namespace dist::watch
