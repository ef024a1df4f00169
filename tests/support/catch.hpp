// Includes Catch2, version 2 (Debian 12) or version 3 (Debian 13, Ubuntu 24.04).
#pragma once

#if DIST_CATCH2_VERSION >= 3
#include <catch2/catch_test_macros.hpp>
#else
#include <catch2/catch.hpp>
#endif

#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

// Catch2 shows every element of a vector, and wraps the text in quadratic time: with thousands
// of them, one wrong number would look like a hang. So it gets the length and the first
// elements, and must not take a vector for a range, of which it would show all.
template <class T, class Allocator>
struct Catch::is_range<std::vector<T, Allocator>> : std::false_type {};

template <class T, class Allocator>
struct Catch::StringMaker<std::vector<T, Allocator>> {
  static std::string convert(const std::vector<T, Allocator>& all) {
    constexpr std::size_t kShown = 16;
    std::string text = "{";
    for (std::size_t i = 0; i < all.size() && i < kShown; ++i) {
      text += (i == 0 ? " " : ", ") + Catch::Detail::stringify(static_cast<T>(all[i]));
    }
    if (all.size() > kShown) text += ", ... " + std::to_string(all.size()) + " in all";
    return text + " }";
  }
};
