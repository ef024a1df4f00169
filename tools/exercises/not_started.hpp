// What an exercise does until you have written it.
#pragma once

namespace dist {

struct NotStarted {};

// Replace the line that calls this function with your solution.
[[noreturn]] inline void not_started() {
  throw NotStarted{};
}

}  // namespace dist
