// Turns a list into text. fmt::join does so too, but fmt 11 moved it to another header.
#pragma once

#include <fmt/format.h>

#include <ranges>
#include <string>
#include <string_view>

namespace dist {

// "1, 2, 3": the values in order, each formatted by `format`.
template <std::ranges::input_range Range>
std::string join(const Range& values, std::string_view separator,
                 fmt::string_view format = "{}") {
  std::string text;
  std::string_view gap;
  for (const auto& value : values) {
    text += gap;
    text += fmt::vformat(format, fmt::make_format_args(value));
    gap = separator;
  }
  return text;
}

}  // namespace dist
