#include "tests/support/catch_session.hpp"

#include "common/build_config.hpp"

#define CATCH_CONFIG_RUNNER  // in version 2, all of Catch2 is compiled here
#if DIST_CUDA_EMULATED
// Catch2's handler of SIGSEGV would hide the one in tests/emulation/cudart_memory.cpp, which
// reports that the host touched device memory.
#define CATCH_CONFIG_NO_POSIX_SIGNALS
#endif
#include "tests/support/catch.hpp"
#if DIST_CATCH2_VERSION >= 3
#include <catch2/catch_session.hpp>
#include <catch2/catch_test_case_info.hpp>
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>
#endif

#include <utility>

namespace {

#if DIST_CATCH2_VERSION >= 3
using ListenerBase = Catch::EventListenerBase;
#else
using ListenerBase = Catch::TestEventListenerBase;
#endif

// Global, because Catch2 itself creates its listeners.
std::function<void(const std::string&)>& listener() {
  static std::function<void(const std::string&)> the_listener;
  return the_listener;
}

struct TellListener : ListenerBase {
  using ListenerBase::ListenerBase;
  void testCaseStarting(const Catch::TestCaseInfo& info) override {
    ListenerBase::testCaseStarting(info);
    listener()(info.name);
  }
  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    ListenerBase::testCaseEnded(stats);
    listener()("");
  }
};
CATCH_REGISTER_LISTENER(TellListener)

}  // namespace

int dist::test::run_catch(int argc, char** argv,
                          std::function<void(const std::string&)> on_test_case) {
  listener() = std::move(on_test_case);
  Catch::Session session;
  if (const int wrong = session.applyCommandLine(argc, argv); wrong != 0) return wrong;
    // A name without a case fails, and so does a case that checked nothing.
#if DIST_CATCH2_VERSION < 3
  constexpr int kUnknownName = Catch::WarnAbout::NoTests;
#else
  constexpr int kUnknownName = Catch::WarnAbout::UnmatchedTestSpec;
#endif
  session.configData().warnings =
      static_cast<Catch::WarnAbout::What>(kUnknownName | Catch::WarnAbout::NoAssertions);
  return session.run();
}
