// count_traffic for tests. Without the watch, a test that uses it fails.
#pragma once

#include "common/check.hpp"
#include "common/watch.hpp"

#include <functional>

namespace dist {

inline Traffic counted(const Communicator& comm, const std::function<void()>& body) {
  const std::optional<Traffic> traffic = count_traffic(comm, body);
  if (!traffic)
    throw Error("built without the watch (-DDIST_WATCH=OFF), which counts messages");
  return *traffic;
}

}  // namespace dist
