#include "05_ddp_training/advanced/guards/stop_request.hpp"

#include <csignal>

namespace dist {
namespace {

// What a handler may touch.
volatile std::sig_atomic_t was_asked = 0;

extern "C" void remember(int) {
  was_asked = 1;
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;  // a message under way is not disturbed
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

}  // namespace

StopRequest::StopRequest() {
  was_asked = 0;
  handle(SIGUSR1, remember);
  handle(SIGTERM, remember);
}

StopRequest::~StopRequest() {
  handle(SIGUSR1, SIG_DFL);
  handle(SIGTERM, SIG_DFL);
}

bool StopRequest::asked() const {
  return was_asked != 0;
}

}  // namespace dist
