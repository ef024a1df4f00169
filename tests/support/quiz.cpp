#include "tests/support/quiz.hpp"

#include "tests/support/run_command.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <filesystem>
#include <regex>
#include <sstream>

namespace dist::test {
namespace {

// GitHub's anchor for a heading: lower case, hyphens for spaces, no punctuation.
std::string anchor_of(const std::string& heading) {
  std::string anchor;
  for (const char c : heading.substr(heading.find_first_not_of("# "))) {
    const auto u = static_cast<unsigned char>(c);
    if (std::isalnum(u) || c == '-' || c == '_') anchor += static_cast<char>(std::tolower(u));
    if (c == ' ') anchor += '-';
  }
  return anchor;
}

bool has_heading(const std::string& markdown, const std::string& anchor) {
  for (const std::string& line : lines_of(markdown)) {
    if (!line.empty() && line[0] == '#' && anchor_of(line) == anchor) return true;
  }
  return false;
}

// The numbers that every match of a regular expression contains, not those in its syntax.
std::vector<std::string> numbers_in_regex(const std::string& regex) {
  // Remove classes, quantifiers, and escapes such as \d and \1; keep escaped decimal points.
  std::string text = std::regex_replace(regex, std::regex(R"(\[[^\]]*\]|\{[^}]*\})"), " ");
  text = std::regex_replace(text, std::regex(R"(\\\.)"), ".");
  text = std::regex_replace(text, std::regex(R"(\\.)"), " ");
  static const std::regex number(R"(\d+(\.\d+)?)");
  std::vector<std::string> numbers;
  for (std::sregex_iterator found(text.begin(), text.end(), number), end; found != end;
       ++found) {
    numbers.push_back(found->str());
  }
  return numbers;
}

// Whether `text` contains `number` by itself, not as part of a longer number.
bool has_number(const std::string& text, const std::string& number) {
  for (std::size_t at = text.find(number); at != std::string::npos;
       at = text.find(number, at + 1)) {
    const bool begins = at == 0 || std::isdigit(static_cast<unsigned char>(text[at - 1])) == 0;
    const std::size_t end = at + number.size();
    const bool ends =
        end == text.size() || std::isdigit(static_cast<unsigned char>(text[end])) == 0;
    if (begins && ends) return true;
  }
  return false;
}

}  // namespace

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    while (line.starts_with("<!-- ") && !line.ends_with("-->")) {  // a multi-line comment
      std::string more;
      if (!std::getline(stream, more)) break;
      line += " " + more.substr(std::min(more.size(), more.find_first_not_of(' ')));
    }
    lines.push_back(line);
  }
  return lines;
}

std::vector<std::string> quiz_section(const std::string& readme) {
  std::vector<std::string> section;
  bool inside = false;
  for (const std::string& line : lines_of(readme)) {
    if (line.rfind("## ", 0) == 0) inside = line == "## Quiz";
    if (inside) section.push_back(line);
  }
  return section;
}

std::vector<Shown> shown_in(const std::string& text) {
  static const std::regex comment(R"(<!-- shown by: (.+?) => (.+) -->)");
  std::vector<Shown> shown;
  for (const std::string& line : lines_of(text)) {
    std::smatch part;
    if (std::regex_match(line, part, comment)) shown.push_back({part[1], part[2]});
  }
  return shown;
}

std::vector<Question> questions_of(const std::vector<std::string>& section) {
  static const std::regex head(R"(\*\*(\d+)\. (.*)\*\*)");
  static const std::regex option(R"(- (\w)\) (.*))");
  std::vector<Question> questions;
  bool answering = false;
  for (const std::string& line : section) {
    std::smatch part;
    if (std::regex_match(line, part, head)) {
      questions.push_back({part[2], {}, {}, {}});
      answering = false;
    } else if (questions.empty()) {
      continue;
    } else if (line.rfind("<details>", 0) == 0 || line == "</details>") {
      answering = line != "</details>";
    } else if (answering) {
      questions.back().answer.push_back(line);
    } else if (std::regex_match(line, part, option)) {
      questions.back().options.push_back({part[1].str()[0], part[2]});
    } else {
      for (const Shown& shown : shown_in(line)) questions.back().shown.push_back(shown);
    }
  }
  return questions;
}

std::string right_letters(const Question& question) {
  static const std::regex bold(R"(\*\*(\w)\.\*\*)");
  const std::string text = visible(question.answer);
  std::string letters;
  for (std::sregex_iterator found(text.begin(), text.end(), bold), end; found != end; ++found) {
    letters += (*found)[1];
  }
  return letters;
}

std::vector<std::string> commands_in(const std::string& text, int* experiments) {
  static const std::regex code("`([^`]+)`");
  static const std::regex typed(R"((mpirun -|build/|python3 |for \w+ in ).*)");
  std::vector<std::string> commands;
  for (std::sregex_iterator found(text.begin(), text.end(), code), end; found != end; ++found) {
    const std::string command = (*found)[1];
    if (std::regex_match(command, typed)) commands.push_back(command);
    if (command.rfind("./learn break ", 0) == 0 && experiments != nullptr) ++*experiments;
  }
  return commands;
}

std::string visible(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) {
    if (line.rfind("<!--", 0) == 0) continue;
    const std::size_t begin = line.find_first_not_of(' ');
    if (begin != std::string::npos) text += line.substr(begin) + " ";
  }
  return text;
}

std::vector<std::string> numbers_not_said(const std::vector<Shown>& shown, std::string text) {
  text = std::regex_replace(text, std::regex(R"((\d),(?=\d{3}))"), "$1");  // 20,000 is 20000
  std::vector<std::string> missing;
  for (const Shown& one : shown) {
    for (const std::string& number : numbers_in_regex(one.regex)) {
      if (!has_number(text, number)) missing.push_back(number);
    }
  }
  return missing;
}

std::vector<std::string> dead_links(const std::string& text, const std::string& readme,
                                    const std::string& folder) {
  static const std::regex link(R"(\]\(([^)]+)\))");
  std::vector<std::string> dead;
  for (std::sregex_iterator found(text.begin(), text.end(), link), end; found != end; ++found) {
    const std::string target = (*found)[1];
    if (target.find("://") != std::string::npos) continue;
    const std::size_t hash = target.find('#');
    const std::string path = folder + "/" + target.substr(0, hash);
    const bool here = hash == 0;
    if (!here && !std::filesystem::exists(path)) {
      dead.push_back(target);
    } else if (hash != std::string::npos &&
               !has_heading(here ? readme : content_of(path), target.substr(hash + 1))) {
      dead.push_back(target);
    }
  }
  return dead;
}

}  // namespace dist::test
