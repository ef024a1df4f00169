// The functions that programs call (common/watch.hpp).
#include "common/atomic_file.hpp"
#include "common/watch.hpp"
#include "tools/watch/communicators.hpp"
#include "tools/watch/flags.hpp"
#include "tools/watch/observation.hpp"
#include "tools/watch/scopes.hpp"
#include "tools/watch/session.hpp"
#include "tools/watch/traffic.hpp"

#include <array>
#include <exception>

namespace {

using namespace dist;
using namespace dist::watch;

void set_strict(bool on) {
  if (on) {
    mode |= kStrict;
  } else {
    mode &= ~unsigned{kStrict};
  }
}

void keep_trace_if_possible() {
  try {
    keep_trace();
  } catch (const std::exception&) {  // report only the failure that ends the program
  }
}

}  // namespace

extern "C" [[gnu::visibility("default")]] const dist::WatchTable dist_watch_table;
const dist::WatchTable dist_watch_table{
    .flags = kFlags,
    .begin_call = begin_call_scope,
    .end_call = end_call_scope,
    .begin_wait = begin_wait_scope,
    .end_wait = end_wait_scope,
    .set_starting = set_starting,
    .timeout_s = timeout_s,
    .name_thread = name_thread,
    .start_count = start_count,
    .end_count = end_count,
    .flags_are_read = flags_are_read,
    .require_writable =
        [](const std::string& flag, const std::string& file) {
          require_writable(std::array{OutputFile{flag, file}});
        },
    .finish_trace = finish_trace,
    .keep_trace = keep_trace_if_possible,
    .set_strict = set_strict,
    .is_observing = observing,
    .id_of = [](MPI_Comm comm) { return info_of(comm).id; },
};
