// The quiz of a README, read as a reader sees it, and what is wrong with it.
#pragma once

#include <string>
#include <vector>

namespace dist::test {

// `<!-- shown by: COMMAND => REGEX -->`: what COMMAND prints matches REGEX somewhere.
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
// The lines of a "## Quiz" section, none if there is no such section.
std::vector<std::string> quiz_section(const std::string& readme);
std::vector<Question> questions_of(const std::vector<std::string>& section);
std::vector<Shown> shown_in(const std::string& text);

// The letters that an answer calls right: those of its **x.** (one, if it is sound).
std::string right_letters(const Question& question);

// Commands in `...` that a reader can type: those of mpirun, build/bin, python3 and a loop of
// them. Experiments (./learn break) are counted but not given: another test runs them.
std::vector<std::string> commands_in(const std::string& text, int* experiments = nullptr);

// Text without comments, on one line.
std::string visible(const std::vector<std::string>& lines);

// The numbers that the commands must print and that `text` does not say.
std::vector<std::string> numbers_not_said(const std::vector<Shown>& shown, std::string text);

// One sentence for each fault of a lesson's quiz; `folder` is where its links start from.
std::vector<std::string> quiz_faults(const std::string& readme, const std::string& folder);

// Links in `text` that lead nowhere: to no file, or to no heading of `readme` or of that file.
std::vector<std::string> dead_links(const std::string& text, const std::string& readme,
                                    const std::string& folder);

}  // namespace dist::test
