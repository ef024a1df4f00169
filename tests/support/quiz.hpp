// Parses a README's quiz as a reader sees it, and finds faults in the quiz.
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
// The lines of the section "## Quiz"; empty if there is no such section.
std::vector<std::string> quiz_section(const std::string& readme);
std::vector<Question> questions_of(const std::vector<std::string>& section);
std::vector<Shown> shown_in(const std::string& text);

// The letters that an answer marks as right (**x.**). A valid answer marks exactly one.
std::string right_letters(const Question& question);

// The commands in backticks that a reader can type: those that run mpirun, a program in
// build/bin, or python3, and loops over such commands. Experiments (./learn break) are only
// counted, because a different test runs them.
std::vector<std::string> commands_in(const std::string& text, int* experiments = nullptr);

// The text of `lines` without comments, joined into one line.
std::string visible(const std::vector<std::string>& lines);

// The numbers that the commands must print but `text` does not mention.
std::vector<std::string> numbers_not_said(const std::vector<Shown>& shown, std::string text);

// One sentence for each fault in a lesson's quiz. The README's links are relative to `folder`.
std::vector<std::string> quiz_faults(const std::string& readme, const std::string& folder);

// The links in `text` to files that do not exist, or to headings that are missing in `readme`
// or in the linked file.
std::vector<std::string> dead_links(const std::string& text, const std::string& readme,
                                    const std::string& folder);

}  // namespace dist::test
