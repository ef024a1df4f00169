// Checks a quiz against the rules of CONTRIBUTING.md, "How to add a quiz question".
#include "tests/support/quiz.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <regex>
#include <set>

namespace dist::test {
namespace {

constexpr std::size_t kFewestQuestions = 6;
constexpr std::size_t kShortestReason = 40;  // characters
const std::string kLetters = "abc";

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

// What an answer says about each wrong letter: the items "- a) ..." or "- a), c) ...",
// including continuation lines.
std::vector<Option> reasons_in(const Question& question) {
  static const std::regex item(R"(- ([abc])\)(?:, ([abc])\))?(.*))");
  std::vector<Option> reasons;
  std::size_t letters = 0;  // of the item that this line may continue
  for (const std::string& line : question.answer) {
    std::smatch part;
    if (std::regex_match(line, part, item)) {
      letters = part[2].matched ? 2 : 1;
      for (std::size_t i = 1; i <= letters; ++i) {
        reasons.push_back({part[static_cast<int>(i)].str()[0], part[3]});
      }
    } else if (line.empty()) {
      letters = 0;
    } else {
      for (std::size_t i = 0; i < letters; ++i) reasons[reasons.size() - 1 - i].text += line;
    }
  }
  return reasons;
}

void check_options(const Question& question, std::vector<std::string>& faults) {
  std::string letters;
  for (const Option& option : question.options) letters += option.letter;
  if (letters != kLetters) {
    faults.push_back(fmt::format("has the options '{}' instead of abc", letters));
  }
}

void check_answer(const Question& question, std::vector<std::string>& faults) {
  const std::string right = right_letters(question);
  if (right.size() != 1) {
    faults.push_back(fmt::format("names {} right letters instead of one", right.size()));
    return;
  }
  std::set<char> explained;
  for (const Option& reason : reasons_in(question)) {
    explained.insert(reason.letter);
    if (reason.text.size() < kShortestReason) {
      faults.push_back(fmt::format("says too little about {})", reason.letter));
    }
  }
  for (const char letter : kLetters) {
    if (letter == right[0] && explained.count(letter) != 0) {
      faults.push_back(fmt::format("calls {}) right but explains why it is wrong", letter));
    } else if (letter != right[0] && explained.count(letter) == 0) {
      faults.push_back(fmt::format("does not say why {}) is wrong", letter));
    }
  }
}

void check_evidence(const Question& question, const std::set<std::string>& run,
                    std::vector<std::string>& faults) {
  const std::string text = visible(question.answer);
  int experiments = 0;
  const std::vector<std::string> commands = commands_in(text, &experiments);
  if (commands.empty() && experiments == 0) faults.push_back("no command shows the answer");
  for (const std::string& command : commands) {
    if (run.count(command) == 0) faults.push_back("is not 'shown by' its command " + command);
  }
  for (const std::string& number : numbers_not_said(question.shown, text)) {
    faults.push_back(fmt::format("does not say {}, which its command prints", number));
  }
}

// GitHub renders a folded answer only if there are empty lines around its tags.
void check_folding(const std::vector<std::string>& section, std::size_t questions,
                   std::vector<std::string>& faults) {
  std::size_t opened = 0;
  std::size_t closed = 0;
  for (std::size_t i = 0; i < section.size(); ++i) {
    const bool empty_before = i > 0 && section[i - 1].empty();
    const bool empty_after = i + 1 < section.size() && section[i + 1].empty();
    if (section[i] == "<details><summary>Answer</summary>" && empty_before && empty_after) {
      ++opened;
    }
    if (section[i] == "</details>" && empty_before) ++closed;
  }
  if (opened != questions || closed != questions) {
    faults.push_back(fmt::format("{} questions, but {} answers are opened and {} are closed",
                                 questions, opened, closed));
  }
}

}  // namespace

std::vector<std::string> quiz_faults(const std::string& readme, const std::string& folder) {
  const std::vector<std::string> section = quiz_section(readme);
  if (section.empty()) return {"there is no section '## Quiz'"};
  const std::vector<Question> questions = questions_of(section);
  std::vector<std::string> faults;
  if (questions.size() < kFewestQuestions) {
    faults.push_back(
        fmt::format("{} questions, fewer than {}", questions.size(), kFewestQuestions));
  }
  check_folding(section, questions.size(), faults);
  std::set<std::string> run;
  for (const Question& question : questions) {
    for (const Shown& shown : question.shown) run.insert(shown.command);
  }
  std::string rights;
  for (const Question& question : questions) {
    std::vector<std::string> of_this;
    check_options(question, of_this);
    check_answer(question, of_this);
    check_evidence(question, run, of_this);
    for (const std::string& fault : of_this) {
      faults.push_back(fmt::format("'{}' {}", question.text, fault));
    }
    rights += right_letters(question);
  }
  for (const char letter : kLetters) {
    if (rights.find(letter) == std::string::npos) {
      faults.push_back(fmt::format("no answer is {})", letter));
    }
  }
  const std::string text = joined(section);
  for (const std::string& target : dead_links(text, readme, folder)) {
    faults.push_back(fmt::format("the link {} leads nowhere", target));
  }
  const auto promised = static_cast<std::size_t>(
      std::count_if(section.begin(), section.end(),
                    [](const std::string& line) { return line.rfind("<!--", 0) == 0; }));
  if (shown_in(text).size() != promised) {
    faults.push_back("a comment in the quiz is not of the form 'shown by: COMMAND => REGEX'");
  }
  return faults;
}

}  // namespace dist::test
