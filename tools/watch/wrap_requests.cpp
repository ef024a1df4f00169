// The ends of non-blocking calls. A request does not say which operation it belongs to, so the
// watch remembers that from the request's start to its end.
#include "tools/watch/observation.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

using namespace dist::watch;

namespace {

// The operations that belong to an array of requests. The class copies the array, because MPI
// clears the requests that are done.
class Pending {
 public:
  Pending(int count, const MPI_Request* requests)
      : requests_(requests, requests + count), by_index_(requests_.size()) {
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      const auto earlier = requests_.begin() + static_cast<std::ptrdiff_t>(i);
      const auto equal = std::count(requests_.begin(), earlier, requests_[i]);
      by_index_[i] = find_request(requests_[i], static_cast<std::size_t>(equal));
      if (by_index_[i]) operations_.push_back(*by_index_[i]);
    }
  }
  const std::vector<Operation>& operations() const { return operations_; }
  void done(int index, const MPI_Status& status) const {
    const auto i = static_cast<std::size_t>(index);
    if (!by_index_[i]) return;
    finish(*by_index_[i], status);
    forget_request(requests_[i], *by_index_[i]);
  }
  void all_done(const std::vector<MPI_Status>& statuses) const {
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      done(static_cast<int>(i), statuses[i]);
    }
  }

 private:
  std::vector<MPI_Request> requests_;
  std::vector<std::optional<Operation>> by_index_;
  std::vector<Operation> operations_;
};

// Space for `count` statuses, even if the caller has chosen to ignore them.
class Statuses {
 public:
  Statuses(int count, MPI_Status* callers)
      : own_(static_cast<std::size_t>(count)), callers_(callers) {}
  MPI_Status* data() { return own_.data(); }
  const std::vector<MPI_Status>& get() const { return own_; }
  void give() const {
    if (callers_ == MPI_STATUSES_IGNORE) return;
    for (std::size_t i = 0; i < own_.size(); ++i) callers_[i] = own_[i];
  }

 private:
  std::vector<MPI_Status> own_;
  MPI_Status* callers_;
};

}  // namespace

extern "C" {

int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  MPI_Status own{};
  if (status == MPI_STATUS_IGNORE) status = &own;
  if (!observing()) return PMPI_Wait(request, status);
  const MPI_Request waited = *request;
  const std::optional<Operation> operation = find_request(waited);
  const Observation observation(
      Call::MPI_Wait, operation ? std::span(&*operation, 1) : std::span<const Operation>());
  const int result = PMPI_Wait(request, status);
  if (operation && result == MPI_SUCCESS) finish(*operation, *status);
  if (operation) forget_request(waited, *operation);
  return result;
}

int MPI_Waitall(int count, MPI_Request* requests, MPI_Status* statuses) {
  if (!observing() || count <= 0) return PMPI_Waitall(count, requests, statuses);
  const Pending pending(count, requests);
  Statuses all(count, statuses);
  const Observation observation(Call::MPI_Waitall, pending.operations());
  const int result = PMPI_Waitall(count, requests, all.data());
  all.give();
  if (result == MPI_SUCCESS) pending.all_done(all.get());
  return result;
}

int MPI_Waitany(int count, MPI_Request* requests, int* index, MPI_Status* status) {
  if (!observing()) return PMPI_Waitany(count, requests, index, status);
  MPI_Status own{};
  if (status == MPI_STATUS_IGNORE) status = &own;
  const Pending pending(count, requests);
  const Observation observation(Call::MPI_Waitany, pending.operations());
  const int result = PMPI_Waitany(count, requests, index, status);
  if (result == MPI_SUCCESS && *index != MPI_UNDEFINED) pending.done(*index, *status);
  return result;
}

int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  if (!observing()) return PMPI_Test(request, flag, status);
  MPI_Status own{};
  if (status == MPI_STATUS_IGNORE) status = &own;
  const Pending pending(1, request);
  const int result = PMPI_Test(request, flag, status);
  if (result != MPI_SUCCESS || pending.operations().empty()) return result;
  if (*flag == 0) {
    note_polling(Call::MPI_Test, pending.operations());
  } else {
    const Observation observation(Call::MPI_Test, pending.operations());
    pending.done(0, *status);
  }
  return result;
}

int MPI_Testall(int count, MPI_Request* requests, int* flag, MPI_Status* statuses) {
  if (!observing() || count <= 0) return PMPI_Testall(count, requests, flag, statuses);
  const Pending pending(count, requests);
  Statuses all(count, statuses);
  const int result = PMPI_Testall(count, requests, flag, all.data());
  if (result == MPI_SUCCESS && *flag == 0) {
    note_polling(Call::MPI_Testall, pending.operations());
    return result;
  }
  all.give();
  if (result == MPI_SUCCESS) {
    const Observation observation(Call::MPI_Testall, pending.operations());
    pending.all_done(all.get());
  }
  return result;
}

int MPI_Testany(int count, MPI_Request* requests, int* index, int* flag, MPI_Status* status) {
  if (!observing()) return PMPI_Testany(count, requests, index, flag, status);
  MPI_Status own{};
  if (status == MPI_STATUS_IGNORE) status = &own;
  const Pending pending(count, requests);
  const int result = PMPI_Testany(count, requests, index, flag, status);
  if (result != MPI_SUCCESS) return result;
  if (*flag == 0) {
    note_polling(Call::MPI_Testany, pending.operations());
  } else if (*index != MPI_UNDEFINED) {
    const Observation observation(Call::MPI_Testany, pending.operations());
    pending.done(*index, *status);
  }
  return result;
}

int MPI_Request_free(MPI_Request* request) {
  if (observing()) {
    if (const auto operation = find_request(*request)) forget_request(*request, *operation);
  }
  return PMPI_Request_free(request);
}

}  // extern "C"
