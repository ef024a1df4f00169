// What happens to the files of a folder, in order, as the kernel reports it (inotify). It does
// not matter by which calls a program does it.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <sys/inotify.h>
#include <unistd.h>
#include <vector>

namespace dist::test {

class FolderEvents {
 public:
  // From now on. Without inotify, nothing is seen.
  explicit FolderEvents(const std::filesystem::path& folder)
      : inotify_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    ::inotify_add_watch(inotify_, folder.c_str(),
                        IN_CREATE | IN_DELETE | IN_MODIFY | IN_MOVED_FROM | IN_MOVED_TO);
  }
  ~FolderEvents() { ::close(inotify_); }
  FolderEvents(FolderEvents&&) = delete;

  struct Event {
    std::uint32_t what;   // IN_CREATE, ...
    std::uint32_t moved;  // the same for both halves of a move within the folder
    std::string name;
  };
  // What has happened since the last call.
  std::vector<Event> read() {
    std::vector<Event> all;
    alignas(inotify_event) std::array<char, 64 * 1024> buffer{};
    for (ssize_t got = 0; (got = ::read(inotify_, buffer.data(), buffer.size())) > 0;) {
      for (const char* at = buffer.data(); at < buffer.data() + got;) {
        inotify_event event{};
        std::memcpy(&event, at, sizeof(event));
        all.push_back({event.mask, event.cookie, at + sizeof(event)});
        at += sizeof(event) + event.len;
      }
    }
    return all;
  }

 private:
  int inotify_;
};

}  // namespace dist::test
