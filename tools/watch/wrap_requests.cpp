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

void forget(MPI_Request request, const Operation& operation) {
  const std::lock_guard lock(in_use.mutex);
  const auto [begin, end] = in_use.operations.equal_range(request);
  const auto found =
      std::find_if(begin, end, [&](const auto& each) { return each.second == operation; });
  if (found != end) in_use.operations.erase(found);
}

// The known operations among an array of requests.
struct Pending {
  std::vector<Operation> operations;
  std::vector<int> places;            // of each operation's request in the array
  std::vector<MPI_Request> requests;  // copies, because MPI clears those that are done

  Pending(int count, const MPI_Request* array) {
    const std::lock_guard lock(in_use.mutex);
    for (int i = 0; i < count; ++i) {
      auto [found, end] = in_use.operations.equal_range(array[i]);
      auto earlier = std::count(array, array + i, array[i]);
      for (; found != end && earlier > 0; --earlier) ++found;
      if (found == end) continue;
      operations.push_back(found->second);
      places.push_back(i);
      requests.push_back(array[i]);
    }
  }
};

// `polls`: the call returns at once, even if it has completed nothing. forward(statuses) fills
// as many statuses as `statuses_of_call` says, of all requests or of the one that is done.
template <class Forward>
int observed_end(Call call, bool polls, int count, const MPI_Request* requests,
                 int statuses_of_call, MPI_Status* statuses, Forward forward) {
  if (!observing() || count <= 0) return forward(statuses);
  // The caller may ignore statuses, but the watch needs them.
  std::vector<MPI_Status> own(static_cast<std::size_t>(statuses_of_call));
  if (statuses == MPI_STATUSES_IGNORE) statuses = own.data();
  const Pending pending(count, requests);
  std::optional<Observation> observation;
  if (!polls) observation.emplace(call, pending.operations);
  const int result = forward(statuses);
  const auto is_done = [=](int place) { return requests[place] == MPI_REQUEST_NULL; };
  if (polls && result == MPI_SUCCESS && !pending.operations.empty()) {
    if (std::ranges::any_of(pending.places, is_done)) {
      observation.emplace(call, pending.operations);
    } else {
      note_polling(call, pending.operations);
    }
  }
  for (std::size_t i = 0; i < pending.operations.size(); ++i) {
    const int place = pending.places[i];
    if (!is_done(place)) continue;
    const MPI_Status& status = statuses[statuses_of_call == 1 ? 0 : place];
    if (result == MPI_SUCCESS) finish(pending.operations[i], status);
    forget(pending.requests[i], pending.operations[i]);
  }
  return result;
}

}  // namespace

void dist::watch::keep_request(MPI_Request request, const Operation& operation) {
  if (request == MPI_REQUEST_NULL) return;
  const std::lock_guard lock(in_use.mutex);
  in_use.operations.emplace(request, operation);
}

extern "C" {

// clang-format off
#define END(NAME, POLLS, COUNT, STATUSES, PARAMETERS, ARGUMENTS)                               \
  int NAME PARAMETERS {                                                                        \
    return observed_end(Call::NAME, POLLS, COUNT, requests, STATUSES, statuses,                \
                        [=](MPI_Status* known) { return P##NAME ARGUMENTS; });                 \
  }

END(MPI_Wait, false, 1, 1, (MPI_Request* requests, MPI_Status* statuses), (requests, known))
END(MPI_Waitall, false, count, count,
    (int count, MPI_Request* requests, MPI_Status* statuses), (count, requests, known))
END(MPI_Waitany, false, count, 1,
    (int count, MPI_Request* requests, int* index, MPI_Status* statuses),
    (count, requests, index, known))
END(MPI_Test, true, 1, 1,
    (MPI_Request* requests, int* flag, MPI_Status* statuses), (requests, flag, known))
END(MPI_Testall, true, count, count,
    (int count, MPI_Request* requests, int* flag, MPI_Status* statuses),
    (count, requests, flag, known))
END(MPI_Testany, true, count, 1,
    (int count, MPI_Request* requests, int* index, int* flag, MPI_Status* statuses),
    (count, requests, index, flag, known))
#undef END
// clang-format on

int MPI_Request_free(MPI_Request* request) {
  if (observing()) {
    const Pending pending(1, request);
    if (!pending.operations.empty()) forget(*request, pending.operations[0]);
  }
  return PMPI_Request_free(request);
}

}  // extern "C"
