// The ends of non-blocking calls. A request does not say which operation it belongs to, so the
// watch remembers that from the request's start to its end.
#include "tools/watch/observe/wrap.hpp"

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

// A call that polls returns at once, even if it has completed nothing.
enum class Ends { waits, polls };

// forward(statuses) fills as many statuses as `statuses_of_call` says, of all requests or of
// the one that is done.
template <class Forward>
int observed_end(Call call, Ends ends, int count, const MPI_Request* requests,
                 int statuses_of_call, MPI_Status* statuses, Forward forward) {
  const bool polls = ends == Ends::polls;
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

// Of these calls, statuses[i] belongs to the request at places[i]; to find it, a copy is spread
// out.
int observed_end_of_some(Call call, Ends ends, decltype(&PMPI_Waitsome) work, int count,
                         MPI_Request* requests, int* done, int* places, MPI_Status* statuses) {
  std::vector<MPI_Status> some(static_cast<std::size_t>(std::max(count, 0)));
  MPI_Status* const own = statuses == MPI_STATUSES_IGNORE ? some.data() : statuses;
  std::vector<MPI_Status> spread(some.size());
  return observed_end(
      call, ends, count, requests, std::max(count, 2), spread.data(), [=](MPI_Status* known) {
        const int result = work(count, requests, done, places, own);
        for (int i = 0; result == MPI_SUCCESS && *done != MPI_UNDEFINED && i < *done; ++i) {
          known[places[i]] = own[i];
        }
        return result;
      });
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

int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  return observed_end(Call::MPI_Wait, Ends::waits, 1, request, 1, status,
                      [=](MPI_Status* known) { return PMPI_Wait(request, known); });
}
int MPI_Waitall(int count, MPI_Request* requests, MPI_Status* statuses) {
  return observed_end(Call::MPI_Waitall, Ends::waits, count, requests, count, statuses,
                      [=](MPI_Status* known) { return PMPI_Waitall(count, requests, known); });
}
int MPI_Waitany(int count, MPI_Request* requests, int* index, MPI_Status* status) {
  return observed_end(
      Call::MPI_Waitany, Ends::waits, count, requests, 1, status,
      [=](MPI_Status* known) { return PMPI_Waitany(count, requests, index, known); });
}
int MPI_Waitsome(int count, MPI_Request* requests, int* done, int* places,
                 MPI_Status* statuses) {
  return observed_end_of_some(Call::MPI_Waitsome, Ends::waits, PMPI_Waitsome, count, requests,
                              done, places, statuses);
}
int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  return observed_end(Call::MPI_Test, Ends::polls, 1, request, 1, status,
                      [=](MPI_Status* known) { return PMPI_Test(request, flag, known); });
}
int MPI_Testall(int count, MPI_Request* requests, int* flag, MPI_Status* statuses) {
  return observed_end(
      Call::MPI_Testall, Ends::polls, count, requests, count, statuses,
      [=](MPI_Status* known) { return PMPI_Testall(count, requests, flag, known); });
}
int MPI_Testany(int count, MPI_Request* requests, int* index, int* flag, MPI_Status* status) {
  return observed_end(
      Call::MPI_Testany, Ends::polls, count, requests, 1, status,
      [=](MPI_Status* known) { return PMPI_Testany(count, requests, index, flag, known); });
}
int MPI_Testsome(int count, MPI_Request* requests, int* done, int* places,
                 MPI_Status* statuses) {
  return observed_end_of_some(Call::MPI_Testsome, Ends::polls, PMPI_Testsome, count, requests,
                              done, places, statuses);
}

int MPI_Request_free(MPI_Request* request) {
  if (observing()) Taken(1, request);
  forget_persistent(*request);
  return PMPI_Request_free(request);
}

}  // extern "C"
