// Checks whether a program prints what a README shows. The rules are in CONTRIBUTING.md,
// "READMEs".
#pragma once

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace dist::test {

// How a block may differ from the output, apart from measured numbers.
struct Looseness {
  bool any_number = false;
  bool any_order = false;  // of the lines
  double within =
      0;  // numbers with a decimal point may differ by this much, absolutely or relatively
};

// Replaces text that differs between machines and builds: reasons, limits of the transport, and
// measured memory.
inline std::string without_the_host(std::string line) {
  static const std::vector<std::pair<std::regex, std::string>> differences{
      {std::regex(R"( on cpu \([^)]*\))"), " on cpu (WHY)"},
      {std::regex(R"(no nccl: .*)"), "no nccl: WHY"},
      {std::regex(R"(^(mpirun .* )/\S*(build/bin/))"), "$1$2"},  // ./learn was a link
      {std::regex(R"(^(gradients by \w+ \(ring\)): .*)"), "$1: WHY"},
      {std::regex(R"(^communication: .*)"), "communication: OVERLAP"},
      {std::regex(R"((returns early up to|hangs above) \d+ bytes)"), "$1 LIMIT"},
      {std::regex(R"(^ *\d+ bytes from rank (\d+) to rank (\d+) on the same host.*)"),
       "LIMIT from rank $1 to rank $2"},
      {std::regex(R"(^memory: [\d.]+ MiB per rank)"), "memory: MEASURED per rank"},
      {std::regex(R"(program, MPI and data .*)"), "program, MPI and data MEASURED"}};
  for (const auto& [what, instead] : differences) {
    line = std::regex_replace(line, what, instead);
  }
  return line;
}

struct Token {
  std::string text;
  bool is_number = false;
};

// Splits a line into words, numbers with their signs, and other single characters. Spaces only
// separate.
inline std::vector<Token> tokens_of(const std::string& line) {
  static const std::regex number(R"(\d+(\.\d+)?(e[-+]?\d+)?)");
  const auto in_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
  };
  std::vector<Token> tokens;
  for (std::size_t i = 0; i < line.size();) {
    const auto is_digit = [&](std::size_t k) {
      return k < line.size() && std::isdigit(static_cast<unsigned char>(line[k])) != 0;
    };
    const bool sign = (line[i] == '-' || line[i] == '+') && is_digit(i + 1) &&
                      (i == 0 || std::string(" ([:,").find(line[i - 1]) != std::string::npos);
    std::size_t end = i + (sign ? 1 : 0);
    while (end < line.size() && in_word(line[end])) ++end;
    while (end > i + 1 && line[end - 1] == '.') --end;  // a sentence's period
    if (end == i) end = i + 1;
    const std::string text = line.substr(i, end - i);
    if (text != " ") {
      tokens.push_back({text, std::regex_match(text.substr(sign ? 1 : 0), number)});
    }
    i = end;
  }
  return tokens;
}

// A line that names a unit of time, such as "us" or "per second", contains measured numbers.
inline bool names_a_time(const std::string& line) {
  static const std::regex time(R"((^|[^\w])(ns|us|ms|microseconds|per second)($|[^\w]))");
  return line.rfind("hang: ", 0) != 0 && std::regex_search(line, time);
}

// If `measured`, numbers may differ, except before a unit of size, where they label a row.
inline bool same_line(const std::string& shown, const std::string& said, bool measured,
                      const Looseness& loose) {
  static const std::set<std::string> sizes{"B", "KiB", "MiB", "GiB", "bytes"};
  const std::vector<Token> a = tokens_of(without_the_host(shown));
  const std::vector<Token> b = tokens_of(without_the_host(said));
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].text == b[i].text) continue;
    if (!a[i].is_number || !b[i].is_number) return false;
    const bool label = i + 1 < a.size() && sizes.contains(a[i + 1].text);
    if (loose.any_number || (measured && !label)) continue;
    const double x = std::atof(a[i].text.c_str()), y = std::atof(b[i].text.c_str());
    const bool whole = (a[i].text + b[i].text).find('.') == std::string::npos;
    if (whole || std::abs(x - y) > loose.within * std::max(1.0, std::abs(x))) return false;
  }
  return true;
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream input(text);
  for (std::string line; std::getline(input, line);) lines.push_back(line);
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

// The output and errors of a run, without mpirun's messages about how the run ended.
inline std::vector<std::string> without_mpirun(const std::vector<std::string>& said) {
  static const std::regex rule("-{20,}"), notice(R"(\[[\w.-]+:\d+\] .*)");
  std::vector<std::string> lines;
  bool inside = false;
  for (const std::string& line : said) {
    if (std::regex_match(line, rule)) {
      inside = !inside;
    } else if (!inside && !std::regex_match(line, notice)) {
      lines.push_back(line);
    }
  }
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

// Describes the first difference between `shown` and `said`; nullopt if there is none. `...`
// matches any lines. Lines that begin with `hang: ` may come in any order.
inline std::optional<std::string> first_difference(const std::vector<std::string>& shown,
                                                   const std::vector<std::string>& said,
                                                   const Looseness& loose) {
  struct Line {
    std::string text;
    bool measured;
  };
  std::vector<Line> expected;
  std::vector<std::string> actual;
  std::multiset<std::string> hangs_shown, hangs_said;
  bool measured = false;
  for (const std::string& line : shown) {
    const bool below = line.rfind(' ', 0) == 0;  // a table's row, below its heading
    measured = names_a_time(line) || (measured && below);
    if (line.rfind("hang: ", 0) == 0) {
      hangs_shown.insert(line);
    } else {
      expected.push_back({line, measured});
    }
  }
  for (const std::string& line : said) {
    // On a busy machine any rank may be the slow one.
    if (line.find("the others waited for rank ") != std::string::npos) continue;
    if (line.rfind("hang: ", 0) == 0) {
      hangs_said.insert(line);
    } else {
      actual.push_back(line);
    }
  }
  for (const std::string& line : hangs_shown) {
    if (hangs_shown.count(line) != hangs_said.count(line)) return "not said: " + line;
  }
  for (const std::string& line : hangs_said) {
    if (!hangs_shown.contains(line)) return "not shown: " + line;
  }
  if (loose.any_order) {
    std::ranges::sort(actual);
    std::ranges::sort(expected, {}, &Line::text);
  }
  // reach[j]: the lines of `expected` handled so far match the first j lines of `actual`.
  std::vector<bool> reach(actual.size() + 1, false);
  reach[0] = true;
  for (const Line& line : expected) {
    std::vector<bool> next(reach.size(), false);
    std::size_t furthest = 0;
    for (std::size_t j = 0; j < reach.size(); ++j) {
      if (reach[j]) furthest = j;
      if (line.text == "...") {
        next[j] = reach[j] || (j > 0 && next[j - 1]);
      } else {
        next[j] =
            j > 0 && reach[j - 1] && same_line(line.text, actual[j - 1], line.measured, loose);
      }
    }
    if (std::find(next.begin(), next.end(), true) == next.end()) {
      return "shown: " + line.text + "\n said: " +
             (furthest < actual.size() ? actual[furthest] : std::string("nothing more"));
    }
    reach = next;
  }
  if (reach.back()) return std::nullopt;
  std::size_t end = 0;
  for (std::size_t j = 0; j < reach.size(); ++j) {
    if (reach[j]) end = j;
  }
  return "not shown: " + actual[end];
}

}  // namespace dist::test
