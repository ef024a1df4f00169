// The ends of non-blocking calls. A request does not say which operation it belongs to, so the
// watch remembers that from the request's start to its end.
#include "tools/watch/call_hooks.hpp"

#include <algorithm>
#include <mutex>
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

Requests& requests_in_use() {
  static auto* const the_requests = new Requests;  // threads may outlive static objects
  return *the_requests;
}

void forget(MPI_Request request, const Operation& operation) {
  const std::lock_guard lock(requests_in_use().mutex);
  const auto [begin, end] = requests_in_use().operations.equal_range(request);
  const auto found =
      std::find_if(begin, end, [&](const auto& each) { return each.second == operation; });
  if (found != end) requests_in_use().operations.erase(found);
}

// The known operations among an array of requests. Copies the requests, because MPI clears
// those that are done.
class Pending {
 public:
  Pending(int count, const MPI_Request* requests) {
    const std::lock_guard lock(requests_in_use().mutex);
    for (int i = 0; i < count; ++i) {
      auto [found, end] = requests_in_use().operations.equal_range(requests[i]);
      auto earlier = std::count(requests, requests + i, requests[i]);
      for (; found != end && earlier > 0; --earlier) ++found;
      if (found == end) continue;
      places_.push_back({i, requests[i]});
      operations_.push_back(found->second);
    }
  }
  const std::vector<Operation>& operations() const { return operations_; }
  void done(int index, const MPI_Status& status) const {
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (places_[i].index == index) end(i, status);
    }
  }
  void all_done(const MPI_Status* statuses) const {
    for (std::size_t i = 0; i < places_.size(); ++i) end(i, statuses[places_[i].index]);
  }
  void forget_all() const {
    for (std::size_t i = 0; i < places_.size(); ++i) {
      forget(places_[i].request, operations_[i]);
    }
  }

 private:
  struct Place {
    int index;
    MPI_Request request;
  };
  void end(std::size_t i, const MPI_Status& status) const {
    finish(operations_[i], status);
    forget(places_[i].request, operations_[i]);
  }

  std::vector<Place> places_;
  std::vector<Operation> operations_;
};

// For calls of MPI_Test's kind. `done` is called if the call has set `flag`.
template <class Forward, class Done>
int observed_test(Call call, int count, const MPI_Request* requests, const int* flag,
                  Forward forward, Done done) {
  const Pending pending(count, requests);
  const int result = forward();
  if (result != MPI_SUCCESS || pending.operations().empty()) return result;
  if (*flag == 0) {
    note_polling(call, pending.operations());
  } else {
    const Observation observation(call, pending.operations());
    done(pending);
  }
  return result;
}

// The caller may ignore statuses, but the watch needs them.
std::vector<MPI_Status> replace_ignored(MPI_Status*& statuses, int count) {
  std::vector<MPI_Status> own;
  if (statuses == MPI_STATUSES_IGNORE) {
    own.resize(static_cast<std::size_t>(count));
    statuses = own.data();
  }
  return own;
}

}  // namespace

void dist::watch::keep_request(MPI_Request request, const Operation& operation) {
  if (request == MPI_REQUEST_NULL) return;
  const std::lock_guard lock(requests_in_use().mutex);
  requests_in_use().operations.emplace(request, operation);
}

extern "C" {

int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  if (!observing()) return PMPI_Wait(request, status);
  MPI_Status own{};
  if (status == MPI_STATUS_IGNORE) status = &own;
  const Pending pending(1, request);
  const Observation observation(Call::MPI_Wait, pending.operations());
  const int result = PMPI_Wait(request, status);
  if (result == MPI_SUCCESS) {
    pending.done(0, *status);
  } else {
    pending.forget_all();
  }
  return result;
}

int MPI_Waitall(int count, MPI_Request* requests, MPI_Status* statuses) {
  if (!observing() || count <= 0) return PMPI_Waitall(count, requests, statuses);
  const std::vector<MPI_Status> own = replace_ignored(statuses, count);
  const Pending pending(count, requests);
  const Observation observation(Call::MPI_Waitall, pending.operations());
  const int result = PMPI_Waitall(count, requests, statuses);
  if (result == MPI_SUCCESS) pending.all_done(statuses);
  return result;
}

int MPI_Waitany(int count, MPI_Request* requests, int* index, MPI_Status* status) {
  if (!observing()) return PMPI_Waitany(count, requests, index, status);
  MPI_Status own{};
  if (status == MPI_STATUS_IGNORE) status = &own;
  const Pending pending(count, requests);
  const Observation observation(Call::MPI_Waitany, pending.operations());
  const int result = PMPI_Waitany(count, requests, index, status);
  if (result == MPI_SUCCESS) pending.done(*index, *status);
  return result;
}

int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  if (!observing()) return PMPI_Test(request, flag, status);
  MPI_Status own{};
  if (status == MPI_STATUS_IGNORE) status = &own;
  return observed_test(
      Call::MPI_Test, 1, request, flag, [&] { return PMPI_Test(request, flag, status); },
      [&](const Pending& pending) { pending.done(0, *status); });
}

int MPI_Testall(int count, MPI_Request* requests, int* flag, MPI_Status* statuses) {
  if (!observing() || count <= 0) return PMPI_Testall(count, requests, flag, statuses);
  const std::vector<MPI_Status> own = replace_ignored(statuses, count);
  return observed_test(
      Call::MPI_Testall, count, requests, flag,
      [&] { return PMPI_Testall(count, requests, flag, statuses); },
      [&](const Pending& pending) { pending.all_done(statuses); });
}

int MPI_Testany(int count, MPI_Request* requests, int* index, int* flag, MPI_Status* status) {
  if (!observing()) return PMPI_Testany(count, requests, index, flag, status);
  MPI_Status own{};
  if (status == MPI_STATUS_IGNORE) status = &own;
  return observed_test(
      Call::MPI_Testany, count, requests, flag,
      [&] { return PMPI_Testany(count, requests, index, flag, status); },
      [&](const Pending& pending) { pending.done(*index, *status); });
}

int MPI_Request_free(MPI_Request* request) {
  if (observing()) Pending(1, request).forget_all();
  return PMPI_Request_free(request);
}

}  // extern "C"
