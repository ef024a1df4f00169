// How a reader refuses a file. A download is often a web server's message or an archive.
#pragma once

#include "common/check.hpp"
#include "common/join.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dist {

// Throws Error unless `holds`. The reason begins with the file: "x.gz: truncated: ...".
template <class... T>
void check_file(bool holds, fmt::format_string<T...> why, T&&... values) {
  if (!holds) throw Error(fmt::format(why, std::forward<T>(values)...));
}

// Says what kind of file begins with these bytes (128 are enough), and what to do with it; ""
// for an unknown kind. A good safetensors file may begin with any byte, so do not ask about it.
inline std::string what_is(std::string_view first) {
  constexpr const char* kTorch =
      "a file of torch.save: convert it with "
      "safetensors.torch.save_file(torch.load(FILE), NEW_FILE)";
  constexpr std::pair<std::string_view, const char*> kinds[]{
      {"version https://git-lfs", "a Git LFS pointer: run git lfs pull"},
      {"\x1f\x8b", "gzip data: unpack it with gunzip"},
      {"PK\3\4", "a zip archive: unpack it with unzip"},
      {"\x80\2\x8a", kTorch},  // before PyTorch 1.6, which saves zip archives
      {"\x93NUMPY", "a NumPy array"},
      {"\x89PNG", "a PNG image"}};
  if (first.empty()) return "an empty file";
  if (first.starts_with("PK") && first.find("/data.pkl") != first.npos) return kTorch;
  for (const auto& [begin, kind] : kinds) {
    if (first.starts_with(begin)) return kind;
  }
  first.remove_prefix(std::min(first.find_first_not_of(" \t\r\n"), first.size()));
  first = first.substr(0, std::min<std::size_t>(first.find_first_of("\r\n"), 60));
  if (!std::ranges::all_of(first, [](char c) { return ' ' <= c && c <= '~'; })) return "";
  return fmt::format("{}: {}", first.starts_with('<') ? "a web page" : "text", first);
}

// "a, b, c and 4 more"
inline std::string first_few(std::vector<std::string> names) {
  if (names.empty()) return "nothing";
  const std::size_t count = names.size();
  names.resize(std::min<std::size_t>(count, 3));
  return join(names, ", ") + (count > 3 ? fmt::format(" and {} more", count - 3) : "");
}

}  // namespace dist
