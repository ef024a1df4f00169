// Fuzzes the command line of a training program: each line of the input is one argument.
#include "05_ddp_training/trainer/options.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <algorithm>
#include <optional>
#include <sstream>
#include <vector>

using namespace dist;

namespace {

struct Program {
  Options options;
  CommandLine flags{"fuzz", "a training program"};

  Program() { options.declare_training(flags, /*writes=*/true); }

  std::optional<CommandLine::Exit> parse(std::vector<std::string> words) {
    words.insert(words.begin(), "fuzz");
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    return flags.parse(static_cast<int>(argv.size()), argv.data());
  }

  // The flags that were given, with their current values.
  std::vector<std::string> words() const {
    // A flag that takes no value has the default "yes" or "no". Its current text alone does not
    // identify it as such a flag, because a file can also be called "yes" or "no".
    static const std::vector<CommandLine::Value> untouched = Program().flags.values();
    const std::vector<CommandLine::Value> values = flags.values();
    std::vector<std::string> words;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto& [flag, value] = values[i];
      if (!flags.given(flag)) continue;
      const bool takes_value = untouched[i].text != "yes" && untouched[i].text != "no";
      words.push_back(!takes_value && value == "no" ? "--no-" + flag.substr(2) : flag);
      if (takes_value) words.push_back(value);
    }
    return words;
  }
};

// Checks one flag of each kind that has limits.
void check_limits(const Options& options) {
  require(options.batch_size >= 1 && options.batch_size <= 1 << 24, "--batch-size");
  require(options.optimizer.lr >= 0 && options.optimizer.lr <= 1e6, "--lr");
  for (const double beta : options.optimizer.betas) require(beta >= 0 && beta < 1, "--betas");
  for (const std::size_t width : options.layers) {
    require(width >= 1 && width <= 1 << 24, "--layers");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::istringstream input(std::string(data, data + size));
  std::vector<std::string> words;
  for (std::string word; std::getline(input, word);) words.push_back(word);
  Program program;
  if (const auto exit = program.parse(words)) {
    require(exit->status == 0 || (exit->status == 2 && exit->text.starts_with("error: ")),
            "the answer is one error message or help");
    require(exit->text.ends_with('\n'), "the answer ends with a line break");
    return 0;
  }
  check_limits(program.options);
  Program again;
  require(!again.parse(program.words()), "accepted flags are accepted again");
  require(program.words() == again.words(), "rereading the accepted flags changes no value");
  return 0;
}
