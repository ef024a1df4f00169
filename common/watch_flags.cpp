#include "common/watch_flags.hpp"

namespace dist {

void declare_watch_flags(CommandLine& flags, WatchFlags& into) {
  constexpr double kLongestTimeout_s = 1e6;
  CommandLine watching = flags.only(Effect::watching);
  watching.text("--trace", into.trace, "write a Chrome trace (JSON) of this run");
  watching.flag("--strict", into.strict, "send synchronously, so that MPI buffers no message");
  watching.number(
      "--timeout", into.timeout_s, 0.0, kLongestTimeout_s,
      "report a hang if nothing moves for so many seconds while a rank waits; 0: never");
}

WatchFlags read_watch_flags(int argc, char** argv) {
  CommandLine command_line("", "");  // all other flags are unknown to it
  WatchFlags flags;
  declare_watch_flags(command_line, flags);
  static_cast<void>(command_line.parse(argc, argv));
  return flags;
}

}  // namespace dist
