// count_traffic for tests. Without the watch, a test that uses it fails.
#pragma once

#include "common/check.hpp"
#include "common/watch.hpp"

#include <functional>

namespace dist {

// Whatever the watch does after `body` is in a CallScope named `over`, if that is not empty.
inline Traffic counted(const Communicator& comm, const std::function<void()>& body,
                       std::string_view over = {}) {
  std::optional<CallScope> scope;
  const std::optional<Traffic> traffic = count_traffic(comm, [&] {
    body();
    if (!over.empty()) scope.emplace(over);
  });
  if (!traffic)
    throw Error("built without the watch (-DDIST_WATCH=OFF), which counts messages");
  return *traffic;
}

}  // namespace dist
