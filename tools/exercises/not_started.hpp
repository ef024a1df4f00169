// What an exercise does until its reader has written it.
#pragma once

namespace dist::exercise {

struct NotStarted {};

// Replace the line that calls this by your solution.
[[noreturn]] inline void not_started() {
  throw NotStarted{};
}

}  // namespace dist::exercise
