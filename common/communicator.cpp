#include "common/communicator.hpp"

#include "common/check.hpp"

#include <utility>

namespace dist {

Communicator Communicator::world() {
  MPI_Comm duplicate = MPI_COMM_NULL;
  MPI_CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &duplicate));
  return Communicator(duplicate);
}

Communicator Communicator::split(int color, int key) const {
  MPI_Comm part = MPI_COMM_NULL;
  MPI_CHECK(MPI_Comm_split(comm_, color, key, &part));
  return Communicator(part);
}

Communicator::Communicator(MPI_Comm owned) : comm_(owned) {
  MPI_CHECK(MPI_Comm_rank(comm_, &rank_));
  MPI_CHECK(MPI_Comm_size(comm_, &size_));
  MPI_Comm host = MPI_COMM_NULL;
  MPI_CHECK(MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host));
  MPI_CHECK(MPI_Comm_rank(host, &local_rank_));
  MPI_CHECK(MPI_Comm_size(host, &local_size_));
  MPI_CHECK(MPI_Comm_free(&host));
}

Communicator::Communicator(Communicator&& other) noexcept {
  *this = std::move(other);
}

Communicator& Communicator::operator=(Communicator&& other) noexcept {
  std::swap(comm_, other.comm_);
  std::swap(rank_, other.rank_);
  std::swap(size_, other.size_);
  std::swap(local_rank_, other.local_rank_);
  std::swap(local_size_, other.local_size_);
  return *this;
}

Communicator::~Communicator() {
  if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
}

void Communicator::barrier() const {
  if (comm_ != MPI_COMM_NULL) MPI_CHECK(MPI_Barrier(comm_));
}

bool Communicator::all_agree(bool ok) const {
  if (comm_ == MPI_COMM_NULL) return ok;  // a process without MPI
  constexpr int kYes = 0x5a5a5a5a;        // a wrong bit does not turn "no", which is 0, into it
  int verdict = ok ? kYes : 0;
  MPI_CHECK(MPI_Allreduce(MPI_IN_PLACE, &verdict, 1, MPI_INT, MPI_BAND, comm_));
  return verdict == kYes;
}

}  // namespace dist
