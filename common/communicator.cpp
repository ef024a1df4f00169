#include "common/communicator.hpp"

#include <algorithm>

namespace dist {

// What a rank says that agrees: a wrong bit does not turn "no", which is 0, into it.
constexpr int kYes = 0x5a5a5a5a;

Communicator Communicator::world() {
  MPI_Comm same = MPI_COMM_NULL;
  MPI_CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &same));
  Communicator world(same, alone());
  const Communicator host = world.split_by_host();
  world.local_rank_ = host.rank();
  world.local_size_ = host.size();
  return world;
}

Communicator Communicator::duplicate() const {
  MPI_Comm same = MPI_COMM_NULL;
  MPI_CHECK(MPI_Comm_dup(get(), &same));
  return {same, *this};
}

Communicator Communicator::split(int color, int key) const {
  MPI_Comm part = MPI_COMM_NULL;
  MPI_CHECK(MPI_Comm_split(get(), color, key, &part));
  return {part, *this};
}

Communicator Communicator::split_by_host() const {
  MPI_Comm host = MPI_COMM_NULL;
  MPI_CHECK(MPI_Comm_split_type(get(), MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host));
  return {host, *this};
}

Communicator::Communicator(MPI_Comm owned, const Communicator& parent)
    : comm_(new MPI_Comm(owned)),
      local_rank_(parent.local_rank_),
      local_size_(parent.local_size_) {
  MPI_CHECK(MPI_Comm_rank(owned, &rank_));
  MPI_CHECK(MPI_Comm_size(owned, &size_));
}

void Communicator::Free::operator()(MPI_Comm* comm) const {
  MPI_Comm_free(comm);
  delete comm;
}

void Communicator::barrier() const {
  if (comm_) MPI_CHECK(MPI_Barrier(*comm_));
}

bool Communicator::all_agree(bool ok) const {
  if (!comm_) return ok;  // a process without MPI
  int verdict = ok ? kYes : 0;
  MPI_CHECK(MPI_Allreduce(MPI_IN_PLACE, &verdict, 1, MPI_INT, MPI_BAND, *comm_));
  return verdict == kYes;
}

std::optional<int> Communicator::first_to_disagree(bool ok) const {
  const std::vector<int> all = all_gather(ok ? kYes : 0);
  const auto first = std::ranges::find_if(all, [](int one) { return one != kYes; });
  if (first == all.end()) return std::nullopt;
  return static_cast<int>(first - all.begin());
}

}  // namespace dist
