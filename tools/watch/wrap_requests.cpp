// The ends of non-blocking calls. A request does not say which operation it belongs to, so the
// watch remembers that from the request's start to its end.
#include "tools/watch/wrap.hpp"

#include <algorithm>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

using namespace dist::watch;

namespace {

struct Requests {
  std::mutex mutex;
  // Open MPI returns the same request for all sends that complete immediately, so a request may
  // stand for several operations.
  std::unordered_multimap<MPI_Request, Operation> operations;
};
Requests& in_use = *new Requests;  // threads may outlive static objects

// Takes the operations of an array of requests, as far as they are known, from those in use.
struct Taken {
  std::vector<Operation> operations;
  std::vector<int> places;  // of their requests in the array

  Taken(int count, const MPI_Request* requests) {
    const std::lock_guard lock(in_use.mutex);
    for (int i = 0; i < count; ++i) {
      const auto found = in_use.operations.find(requests[i]);
      if (found == in_use.operations.end()) continue;
      operations.push_back(found->second);
      places.push_back(i);
      in_use.operations.erase(found);
    }
  }
};

// `polls`: the call returns at once, even if it has completed nothing. forward(statuses) fills
// as many statuses as `statuses_of_call` says, of all requests or of the one that is done.
template <class Forward>
int observed_end(Call call, bool polls, int count, const MPI_Request* requests,
                 int statuses_of_call, MPI_Status* statuses, Forward forward) {
  std::optional<CallThatWaits> may_sleep;
  if (!polls) may_sleep.emplace();
  if (!observing() || count <= 0) return forward(statuses);
  // The caller may ignore statuses, but the watch needs them.
  std::vector<MPI_Status> own(static_cast<std::size_t>(statuses_of_call));
  if (statuses == MPI_STATUSES_IGNORE) statuses = own.data();
  const Taken taken(count, requests);
  std::optional<Observation> observation;
  if (!polls) observation.emplace(call, taken.operations);
  const int result = forward(statuses);
  const auto is_done = [=](int place) { return is_complete(requests[place]); };
  if (polls && result == MPI_SUCCESS && !taken.operations.empty()) {
    if (std::ranges::any_of(taken.places, is_done)) {
      observation.emplace(call, taken.operations);
    } else {
      note_polling(call, taken.operations);
    }
  }
  for (std::size_t i = 0; i < taken.places.size(); ++i) {
    const int place = taken.places[i];
    if (!is_done(place)) {
      keep_request(requests[place], taken.operations[i]);
    } else if (result == MPI_SUCCESS) {
      finish(taken.operations[i], statuses[statuses_of_call == 1 ? 0 : place]);
    }
  }
  return result;
}

}  // namespace

void dist::watch::keep_request(MPI_Request request, const Operation& operation) {
  if (request == MPI_REQUEST_NULL) return;
  const std::lock_guard lock(in_use.mutex);
  in_use.operations.emplace(request, operation);
}

std::size_t dist::watch::open_requests() {
  const std::lock_guard lock(in_use.mutex);
  return in_use.operations.size();
}

extern "C" {

// clang-format off
#define END(NAME, POLLS, COUNT, STATUSES, PARAMETERS, WORK)                                    \
  int NAME PARAMETERS {                                                                        \
    return observed_end(Call::NAME, POLLS, COUNT, requests, STATUSES, statuses,                \
                        [=](MPI_Status* known) { return WORK; });                              \
  }

END(MPI_Wait, false, 1, 1, (MPI_Request* requests, MPI_Status* statuses),
    PMPI_Wait(requests, known))
END(MPI_Waitall, false, count, count, (int count, MPI_Request* requests, MPI_Status* statuses),
    PMPI_Waitall(count, requests, known))
END(MPI_Waitany, false, count, 1,
    (int count, MPI_Request* requests, int* index, MPI_Status* statuses),
    PMPI_Waitany(count, requests, index, known))
END(MPI_Test, true, 1, 1, (MPI_Request* requests, int* flag, MPI_Status* statuses),
    PMPI_Test(requests, flag, known))
END(MPI_Testall, true, count, count,
    (int count, MPI_Request* requests, int* flag, MPI_Status* statuses),
    PMPI_Testall(count, requests, flag, known))
END(MPI_Testany, true, count, 1,
    (int count, MPI_Request* requests, int* index, int* flag, MPI_Status* statuses),
    PMPI_Testany(count, requests, index, flag, known))
// Of these two, statuses[i] belongs to the request at places[i]; to find it, a copy is spread out.
#define END_OF_SOME(NAME, POLLS)                                                               \
  int NAME(int count, MPI_Request* requests, int* done, int* places, MPI_Status* statuses) {   \
    std::vector<MPI_Status> some(static_cast<std::size_t>(std::max(count, 0)));                \
    MPI_Status* const own = statuses == MPI_STATUSES_IGNORE ? some.data() : statuses;          \
    std::vector<MPI_Status> spread(some.size());                                               \
    return observed_end(                                                                       \
        Call::NAME, POLLS, count, requests, std::max(count, 2), spread.data(),                 \
        [&](MPI_Status* known) {                                                               \
          const int result = P##NAME(count, requests, done, places, own);                      \
          for (int i = 0; result == MPI_SUCCESS && *done != MPI_UNDEFINED && i < *done; ++i) { \
            known[places[i]] = own[i];                                                         \
          }                                                                                    \
          return result;                                                                       \
        });                                                                                    \
  }
END_OF_SOME(MPI_Waitsome, false)
END_OF_SOME(MPI_Testsome, true)
#undef END
#undef END_OF_SOME
// clang-format on

int MPI_Request_free(MPI_Request* request) {
  if (observing()) Taken(1, request);
  forget_persistent(*request);
  return PMPI_Request_free(request);
}

}  // extern "C"
