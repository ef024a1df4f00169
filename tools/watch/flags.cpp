#include "tools/watch/flags.hpp"

#include <charconv>
#include <cstring>
#include <string_view>

namespace dist::watch {

Flags read_flags(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i < argc && argv[i] != nullptr; ++i) {
    const std::string_view argument = argv[i];
    const auto value_of = [&](const char* flag) -> std::string_view {
      const std::size_t length = std::strlen(flag);
      if (!argument.starts_with(flag)) return {};
      if (argument.size() > length) {
        return argument[length] == '=' ? argument.substr(length + 1) : std::string_view();
      }
      return i + 1 < argc ? std::string_view(argv[i + 1]) : std::string_view();
    };
    if (argument == kStrictFlag.name) flags.strict = true;
    if (const auto file = value_of(kTraceFlag.name); !file.empty()) flags.trace = file;
    if (const auto text = value_of(kTimeoutFlag.name); !text.empty()) {
      double seconds = 0;
      const char* const end = text.data() + text.size();
      const auto [stop, problem] = std::from_chars(text.data(), end, seconds);
      const bool number = problem == std::errc{} && stop == end;
      if (number && seconds >= 0 && seconds <= kTimeoutFlag.largest) flags.timeout_s = seconds;
    }
  }
  return flags;
}

}  // namespace dist::watch
