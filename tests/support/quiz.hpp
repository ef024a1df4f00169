// Parses the quiz of a README as a reader sees it, and finds its faults.
#pragma once

#include <string>
#include <vector>

namespace dist::test {

// `<!-- shown by: COMMAND => REGEX -->`: the output of COMMAND contains a match of REGEX.
struct Shown {
  std::string command;
  std::string regex;
};

struct Option {
  char letter;
  std::string text;
};

struct Question {
  std::string text;
  std::vector<Option> options;
  std::vector<std::string> answer;  // the lines between <details> and </details>
  std::vector<Shown> shown;
};

std::vector<std::string> lines_of(const std::string& text);
// The lines of the section "## Quiz"; empty if there is none.
std::vector<std::string> quiz_section(const std::string& readme);
std::vector<Question> questions_of(const std::vector<std::string>& section);
std::vector<Shown> shown_in(const std::string& text);

// The letters that an answer calls right, each written as **x.**. A sound answer has one.
std::string right_letters(const Question& question);

// Commands in backticks that a reader can type: mpirun, build/bin, python3, and loops of them.
// Experiments (./learn break) are only counted, because a different test runs them.
std::vector<std::string> commands_in(const std::string& text, int* experiments = nullptr);

// The text without comments, on one line.
std::string visible(const std::vector<std::string>& lines);

// The numbers that the commands must print and that `text` does not mention.
std::vector<std::string> numbers_not_said(const std::vector<Shown>& shown, std::string text);

// One sentence for each fault of a lesson's quiz. Its links are relative to `folder`.
std::vector<std::string> quiz_faults(const std::string& readme, const std::string& folder);

// Links in `text` whose file does not exist, or whose heading is not in `readme` or that file.
std::vector<std::string> dead_links(const std::string& text, const std::string& readme,
                                    const std::string& folder);

}  // namespace dist::test
