// Shared by the fuzz targets. run.sh starts them in an in-memory folder, where they write their
// files.
#pragma once

#include "common/check.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

namespace dist {

using View = std::span<const std::uint8_t>;

inline void require(bool kept, const char* promise) {
  if (kept) return;
  std::fprintf(stderr, "broken promise: %s\n", promise);
  std::abort();
}

inline void write_file(const std::string& path, View bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

// Whether `read` accepts its input. If it does not, it must throw an Error that names the file.
template <class Read>
bool accepts(const std::string& path, Read read) {
  try {
    read();
  } catch (const Error& error) {
    require(std::string_view(error.what()).starts_with(path + ": "), "errors name the file");
    return false;
  }
  return true;
}

}  // namespace dist
