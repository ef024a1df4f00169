// Finds a function's lines in a source file that clang-format has formatted.
#pragma once

#include <cstddef>
#include <regex>
#include <string>
#include <vector>

namespace dist::test {

inline std::string trimmed(const std::string& line) {
  const std::size_t begin = line.find_first_not_of(' ');
  return begin == std::string::npos ? "" : line.substr(begin);
}

inline bool ends_with_any(const std::string& line, const std::string& characters) {
  return !line.empty() && characters.find(line.back()) != std::string::npos;
}

// The lines of each definition of `name` in a file, without indentation and empty lines: from
// the line with the name to the closing brace, which is in the column where that line begins.
inline std::vector<std::vector<std::string>> bodies_of(const std::vector<std::string>& file,
                                                       const std::string& name) {
  const std::regex head("(^|.*[^\\w:.>])" + name + "(<.*>)?\\(.*");
  std::vector<std::vector<std::string>> bodies;
  for (std::size_t first = 0; first < file.size(); ++first) {
    if (!std::regex_match(file[first], head)) continue;
    const std::size_t indent = file[first].find_first_not_of(' ');
    if (file[first].compare(indent, 2, "//") == 0) continue;
    std::size_t open = first;  // a declaration or a call ends before a brace opens
    while (open + 1 < file.size() && !ends_with_any(file[open], "{;}")) {
      ++open;
    }
    std::size_t last = open;
    if (ends_with_any(file[open], ";")) continue;
    const std::string close = std::string(indent, ' ') + "}";
    while (ends_with_any(file[open], "{") && last + 1 < file.size() &&
           file[last].rfind(close, 0) != 0) {
      ++last;
    }
    std::vector<std::string> body;
    for (std::size_t i = first; i <= last; ++i) {
      if (!trimmed(file[i]).empty()) body.push_back(trimmed(file[i]));
    }
    bodies.push_back(body);
  }
  return bodies;
}

}  // namespace dist::test
