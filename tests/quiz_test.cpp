// Checks the form of the lessons' quizzes, and that the commands print what the answers say.
//
// Each answer is followed by `<!-- shown by: COMMAND => REGEX -->`: COMMAND is what a reader
// types, and REGEX (ECMAScript) is what its output must match. docs/beyond.md has such lines
// too.
#include "tests/support/quiz.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/run_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>
#include <string>
#include <vector>

using namespace dist::test;

namespace {

const std::vector<std::string> kLessons{"01_send_recv", "02_broadcast", "03_all_reduce",
                                        "04_distributed_sampler", "05_ddp_training"};

std::string readme_of(const std::string& lesson) {
  return content_of(SOURCE_DIR "/" + lesson + "/README.md");
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

// Returns a Python that has `module`, or "". Calling find_spec is cheaper than importing the
// module.
std::string python_with(const std::string& module) {
  const char* chosen = std::getenv("PYTHON");
  for (const std::string python :
       {chosen == nullptr ? "python3" : chosen, "/usr/bin/python3"}) {
    const CommandResult result =
        run_command(python + " -c 'import importlib.util as u; exit(u.find_spec(\"" + module +
                    "\") is None)'");
    if (result.status == 0) return python;
  }
  return "";
}

// The command as run with this build: on the CPU, even if there is a GPU, so that every message
// goes through MPI. Empty if the command needs a Python that is not installed.
std::string runnable(std::string command) {
  command = std::regex_replace(command, std::regex("build/bin/"), PROGRAM_DIR "/");
  command = std::regex_replace(command, std::regex("mpirun -"), MPIEXEC " -");
  command = std::regex_replace(command, std::regex(" tools/"), " " SOURCE_DIR "/tools/");
  if (command.rfind("python3 ", 0) == 0) {
    const bool torch = command.find("import torch") != std::string::npos;
    static const std::string with_torch = python_with("torch");
    static const std::string plain = python_with("sys");
    const std::string python = torch ? with_torch : plain;
    command = python.empty() ? "" : python + command.substr(std::string("python3").size());
  }
  return command;
}

// Runs the command in an empty folder. The command is read from a file, because it may contain
// quotes.
CommandResult run_as_typed(const std::string& command) {
  const TemporaryFolder script;
  const TemporaryFolder empty;
  std::ofstream(script / "command.sh") << "cd " << empty.path().string() << "\n"
                                       << command << "\n";
  return run_command("EMULATED_GPUS=0 CUDA_VISIBLE_DEVICES= timeout 60 sh " +
                     (script / "command.sh"));
}

void check_shown(const std::vector<Shown>& all) {
  std::map<std::string, std::string> printed;
  for (const Shown& shown : all) {
    const std::string command = runnable(shown.command);
    if (command.empty()) {
      WARN("not run, because its Python is not installed: " << shown.command);
      continue;
    }
    if (printed.count(command) == 0) {
      const CommandResult result = run_as_typed(command);
      INFO(shown.command << "\n" << result.out << result.err);
      CHECK(result.status == 0);
      printed[command] = result.out;
    }
    INFO(shown.command << "\nshould print " << shown.regex << "\nbut prints\n"
                       << printed[command]);
    CHECK(std::regex_search(printed[command], std::regex(shown.regex)));
  }
}

void check_lesson_shown(std::size_t lesson) {
  std::string text;
  for (const std::string& line : quiz_section(readme_of(kLessons[lesson - 1]))) {
    text += line + "\n";
  }
  const std::vector<Shown> shown = shown_in(text);
  CHECK(shown.size() >= 5);
  check_shown(shown);
}

}  // namespace

TEST_CASE("every lesson has a quiz without faults", "[form]") {
  for (const std::string& lesson : kLessons) {
    for (const std::string& fault : quiz_faults(readme_of(lesson), SOURCE_DIR "/" + lesson)) {
      INFO(lesson << ": " << fault);
      CHECK(false);
    }
  }
}

TEST_CASE("a quiz comes between its lesson's sections on costs and on failures", "[form]") {
  for (const std::string& lesson : kLessons) {
    const std::string readme = readme_of(lesson);
    INFO(lesson);
    CHECK(readme.find("\n## Cost\n") < readme.find("\n## Quiz\n"));
    CHECK(readme.find("\n## Quiz\n") < readme.find("\n## If it hangs or fails here\n"));
  }
}

TEST_CASE("the experiments that answers name exist", "[experiments]") {
  const std::vector<std::string> programs{"send_recv", "broadcast", "all_reduce",
                                          "distributed_sampler", "ddp_training"};
  std::vector<std::string> known;  // for each program: its experiments, one per line
  for (const std::string& program : programs) {
    known.push_back(fmt::format("\n{}", mpirun(2, "broken/" + program, "list").out));
  }
  const std::regex experiment("./learn break ([1-5]) ([a-z0-9-]+)");
  std::vector<std::string> texts{visible(lines_of(content_of(SOURCE_DIR "/docs/beyond.md")))};
  for (const std::string& lesson : kLessons) {
    texts.push_back(visible(quiz_section(readme_of(lesson))));
  }
  for (const std::string& text : texts) {
    int named = 0;
    for (std::sregex_iterator found(text.begin(), text.end(), experiment), end; found != end;
         ++found, ++named) {
      INFO(found->str());
      const auto lesson = static_cast<std::size_t>(std::stoi((*found)[1])) - 1;
      CHECK(known[lesson].find(fmt::format("\n{} ", (*found)[2].str())) != std::string::npos);
    }
    CHECK(named >= 2);
  }
}

TEST_CASE("each fault in a quiz is found", "[form]") {
  const std::string folder = SOURCE_DIR "/03_all_reduce";
  const std::string sound = readme_of("03_all_reduce");
  REQUIRE(quiz_faults(sound, folder).empty());
  // The answer to lesson 3's first question is b, and its command prints 112352.
  struct Damage {
    std::string from, to, fault;
  };
  const std::vector<Damage> damages{
      {"## Quiz\n", "## Riddles\n", "there is no section"},
      {"- a) They grow with the ranks, by a factor of 7/4.\n", "", "has the options 'bc'"},
      {"- c) They shrink,", "- d) They shrink,", "has the options 'abd'"},
      {"**b.** Each rank", "Each rank", "names 0 right letters"},
      {"**b.** Each rank", "**b.** or **c.** Each rank", "names 2 right letters"},
      {"**b.** Each rank", "**a.** Each rank", "calls a) right but explains why it is wrong"},
      {"- a) That would be 172032", "That would be 172032", "does not say why a) is wrong"},
      {"- a) That would be 172032", "- a) No.\n\nThat would be", "says too little about a)"},
      {"<details><summary>Answer</summary>\n\n", "\n", "answers are opened"},
      {"<details><summary>Answer</summary>\n\n", "<details><summary>Answer</summary>\n",
       "answers are opened"},
      {"\n</details>", "", "closed"},
      {"112352 bytes", "112353 bytes", "does not say 112352"},
      {"<!-- shown by: mpirun -np 7", "<!-- shown by: mpirun -np 6", "is not 'shown by'"},
      {" => \"messages_per_rank\":12", " -> \"messages_per_rank\":12", "a comment in the quiz"},
      {"**b.** Each rank", "**b.** [The ring](rings.hpp) Each rank", "rings.hpp leads nowhere"},
      {"**b.** Each rank", "**b.** [Costs](#costs) Each rank", "#costs leads nowhere"},
  };
  const std::size_t quiz = sound.find("## Quiz");
  for (const Damage& damage : damages) {
    const std::string damaged =
        sound.substr(0, quiz) + replaced(sound.substr(quiz), damage.from, damage.to);
    std::string faults;
    for (const std::string& fault : quiz_faults(damaged, folder)) faults += fault + "\n";
    INFO(damage.from << " -> " << damage.to << "\nfaults found:\n" << faults);
    CHECK(faults.find(damage.fault) != std::string::npos);
  }
}

TEST_CASE("a quiz with too few questions or an unused letter is reported", "[form]") {
  const std::string folder = SOURCE_DIR "/03_all_reduce";
  const std::string readme = readme_of("03_all_reduce");
  const std::size_t sixth = readme.find("**6. ");
  REQUIRE(sixth != std::string::npos);
  const std::vector<std::string> few = quiz_faults(readme.substr(0, sixth), folder);
  REQUIRE(few.size() == 1);
  CHECK(few[0] == "5 questions, fewer than 6");

  const std::string all_b =
      std::regex_replace(readme, std::regex(R"(\*\*[abc]\.\*\*)"), "**b.**");
  const std::vector<std::string> faults = quiz_faults(all_b, folder);
  CHECK(std::count(faults.begin(), faults.end(), "no answer is a)") == 1);
  CHECK(std::count(faults.begin(), faults.end(), "no answer is c)") == 1);
}

TEST_CASE("docs/beyond.md has no broken links and says what its commands print", "[beyond]") {
  const std::string text = content_of(SOURCE_DIR "/docs/beyond.md");
  for (const std::string& target : dead_links(text, text, SOURCE_DIR "/docs")) {
    INFO(target << " leads nowhere");
    CHECK(false);
  }
  const std::vector<Shown> shown = shown_in(text);
  CHECK(shown.size() >= 10);
  for (const std::string& number : numbers_not_said(shown, visible(lines_of(text)))) {
    INFO("a command prints " << number << ", which the page does not say");
    CHECK(false);
  }
  check_shown(shown);
}

TEST_CASE("lesson 1's answers are what the commands print", "[lesson01]") {
  check_lesson_shown(1);
}

TEST_CASE("lesson 2's answers are what the commands print", "[lesson02]") {
  check_lesson_shown(2);
}

TEST_CASE("lesson 3's answers are what the commands print", "[lesson03]") {
  check_lesson_shown(3);
}

TEST_CASE("lesson 4's answers are what the commands print", "[lesson04]") {
  check_lesson_shown(4);
}

TEST_CASE("lesson 5's answers are what the commands print", "[lesson05]") {
  check_lesson_shown(5);
}
