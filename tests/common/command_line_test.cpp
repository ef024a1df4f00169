// Tests which command-line flags are accepted, and which are refused with an error that names
// the flag.
#include "common/command_line.hpp"

#include "tests/support/mpi_test.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace dist;

namespace {

// One flag of every kind, and a function that parses them.
struct Flags {
  int number = 7;
  std::size_t size = 9;
  double rate = 0.5;
  std::string kind = "ring";
  bool loud = false;
  std::optional<bool> tall;
  std::vector<std::size_t> hidden{16, 8};
  std::string file = "none";
  int rare = 1;
  CommandLine command_line{"prog", "What it does."};

  Flags() {
    command_line.number("--number", number, -10, 10, "a number");
    command_line.number<std::size_t>("--size", size, 1, 1000, "a size");
    command_line.number("--rate", rate, 0.0, 2.0, "a rate");
    command_line.choice("--kind", kind, {"ring", "tree"}, "a choice");
    command_line.flag("--loud", loud, "a switch");
    command_line.flag("--tall,!--no-tall", tall, "a switch with a third state");
    command_line.list("--hidden", hidden, "a list");
    command_line.text("--file", file, "a name");
    command_line.advanced();
    command_line.number("--rare", rare, 0, 5, "seldom needed");
  }

  std::optional<CommandLine::Exit> parse(std::vector<std::string> words) {
    words.insert(words.begin(), "prog");
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    return command_line.parse(static_cast<int>(words.size()), argv.data());
  }
};

}  // namespace

TEST_CASE("valid flags are read, and absent flags keep their defaults") {
  Flags flags;
  REQUIRE_FALSE(flags.parse({"--number", "-5", "--size=010", "--rate", "1e-3", "--loud",
                             "--hidden", "5", "--hidden", "3,1,4"}));
  CHECK(flags.number == -5);
  CHECK(flags.size == 10);  // not octal
  CHECK(flags.rate == 1e-3);
  CHECK(flags.kind == "ring");
  CHECK(flags.loud);
  CHECK(flags.hidden == std::vector<std::size_t>{3, 1, 4});  // the last one wins
  CHECK(flags.command_line.given("--size"));
  CHECK_FALSE(flags.command_line.given("--file"));
  CHECK(error_of([&] { static_cast<void>(flags.command_line.given("--old-name")); }) ==
        "--old-name: the program has no such flag");
  CHECK_FALSE(flags.tall);
  REQUIRE_FALSE(flags.parse({"--no-tall", "--tall"}));
  CHECK(flags.tall == true);
  REQUIRE_FALSE(flags.parse({"--tall", "--tall", "--no-tall"}));
  CHECK(flags.tall == false);
}

TEST_CASE("invalid flags are refused, and the error names the flag") {
  using Words = std::vector<std::string>;
  const auto check_refused = [](const Words& words) {
    Flags flags;
    const auto exit = flags.parse(words);
    CAPTURE(words);
    CHECK(exit.has_value());
    if (!exit) return;
    CAPTURE(exit->text);
    CHECK(exit->status == 2);
    CHECK(exit->text.starts_with("error: " + words.front() + ": "));
    CHECK(exit->text.ends_with("\n"));
  };
  const std::vector<std::pair<std::string, Words>> all{
      {"--size", {"-5", "0", "1001", "12abc", "", " 5", "+5", "0x10", "1.5", "[5]", "--loud"}},
      {"--size", {"99999999999999999999", "18446744073709551621"}},  // 2^64 + 5
      {"--number", {"11", "-11", "4294967301"}},                     // 2^32 + 5
      {"--rate", {"nan", "inf", "-inf", "1e999", "1e-999", "2.5", "-0.1", "0.1x", "", "0x1"}},
      {"--kind", {"rin", "ringo", "RING", ""}},
      {"--hidden", {"1,,2", "0,1", "1,2,", ",1", "", "1 2", "[3,4]", "16777217"}},
      {"--file", {""}},
      {"--rare", {"6"}},
      {"--siz", {"3"}}};
  for (const auto& [flag, values] : all) {
    for (const std::string& value : values) check_refused({flag, value});
  }
  for (const char* alone : {"--size", "--file", "--bogus", "--bogus=3", "-x", "stray"}) {
    check_refused({alone});
  }
  for (const char* value : {"maybe", "3", "-1", "false"}) {
    for (const std::string flag : {"--loud", "--help", "--version"}) {
      const auto exit = Flags().parse({flag + "=" + value});
      CAPTURE(flag, value);
      CHECK(exit.has_value());
      if (exit) CHECK(exit->text == "error: " + flag + ": takes no value\n");
    }
  }
}

TEST_CASE("--help names the usual flags, and --help-all names all of them") {
  for (const std::string word : {"--help", "-h", "--help-all"}) {
    CAPTURE(word);
    const auto exit = Flags().parse({word});
    REQUIRE(exit.has_value());
    CHECK(exit->status == 0);
    for (const char* part : {"What it does.", "--hidden", "16,8", "--version"}) {
      CHECK(exit->text.find(part) != std::string::npos);
    }
    CHECK((exit->text.find("--rare") != std::string::npos) == (word == "--help-all"));
  }
}
