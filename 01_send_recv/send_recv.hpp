// What this file adds: the calls of MPI that main.cpp uses, with types, so that nobody can
// mistake a count for a number of bytes, or send a double as a float.
// Builds on: MPI_Send and MPI_Recv. Every later lesson builds on this file.
// Look at: send_recv, with which all ranks can send at the same time without a deadlock.
#pragma once

#include "common/check.hpp"
#include "common/communicator.hpp"

#include <mpi.h>

#include <concepts>
#include <cstdint>
#include <span>
#include <string>

namespace dist {

// The element types that our messages carry, and MPI's name for each.
template <class T>
concept MpiScalar =
    std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, std::int32_t> ||
    std::same_as<T, std::int64_t> || std::same_as<T, std::uint64_t> || std::same_as<T, char>;

template <MpiScalar T>
MPI_Datatype mpi_type() {
  if constexpr (std::same_as<T, float>) return MPI_FLOAT;
  if constexpr (std::same_as<T, double>) return MPI_DOUBLE;
  if constexpr (std::same_as<T, std::int32_t>) return MPI_INT32_T;
  if constexpr (std::same_as<T, std::int64_t>) return MPI_INT64_T;
  if constexpr (std::same_as<T, std::uint64_t>) return MPI_UINT64_T;
  if constexpr (std::same_as<T, char>) return MPI_CHAR;
}

// [3] Blocking. Returns when `data` may be overwritten. For a small message, it returns at
// once, because MPI keeps a copy. For a large message, it waits until the receive has been
// called. A program that works only with small messages is wrong.
template <MpiScalar T>
void send(const Communicator& comm, std::span<const T> data, int dest, int tag = 0) {
  MPI_CHECK(
      MPI_Send(data.data(), mpi_count(data.size()), mpi_type<T>(), dest, tag, comm.get()));
}

// Throws Error if the message does not have the `expected` length. MPI itself accepts a shorter
// message, which we never want.
template <MpiScalar T>
void check_received(const MPI_Status& status, std::size_t expected) {
  int received = 0;
  MPI_CHECK(MPI_Get_count(&status, mpi_type<T>(), &received));
  if (received != mpi_count(expected)) {
    throw Error("received " + std::to_string(received) + " elements from rank " +
                std::to_string(status.MPI_SOURCE) + ", expected " + std::to_string(expected));
  }
}

// Returns when `data` holds the message, which must have exactly the length of `data`.
template <MpiScalar T>
void recv(const Communicator& comm, std::span<T> data, int source, int tag = 0) {
  MPI_Status status;
  MPI_CHECK(MPI_Recv(data.data(), mpi_count(data.size()), mpi_type<T>(), source, tag,
                     comm.get(), &status));
  check_received<T>(status, data.size());
}

// [4] Sends and receives at the same time. MPI works on both transfers together, so a ring in
// which every rank calls this function cannot deadlock. `out` and `in` must not overlap; their
// lengths may differ.
template <MpiScalar T>
void send_recv(const Communicator& comm, std::span<const T> out, int dest, std::span<T> in,
               int source, int tag = 0) {
  MPI_Status status;
  MPI_CHECK(MPI_Sendrecv(out.data(), mpi_count(out.size()), mpi_type<T>(), dest, tag, in.data(),
                         mpi_count(in.size()), mpi_type<T>(), source, tag, comm.get(),
                         &status));
  check_received<T>(status, in.size());
}

// [5] Non-blocking. The call only starts the transfer, and wait() completes it. Until then the
// data belongs to MPI: do not write to it (isend), read it (irecv), or free it.
class [[nodiscard]] Request {
 public:
  explicit Request(MPI_Request request) : request_(request) {}
  Request(Request&& other) noexcept : request_(other.request_) {
    other.request_ = MPI_REQUEST_NULL;
  }
  Request& operator=(Request&&) = delete;
  // Dropping a request while MPI still uses the data is a bug that shows only later, so wait.
  ~Request() {
    if (request_ != MPI_REQUEST_NULL) MPI_Wait(&request_, MPI_STATUS_IGNORE);
  }

  void wait() { MPI_CHECK(MPI_Wait(&request_, MPI_STATUS_IGNORE)); }
  // Returns whether wait() would return at once.
  bool is_done() {
    int done = 0;
    MPI_CHECK(MPI_Test(&request_, &done, MPI_STATUS_IGNORE));
    return done != 0;
  }

 private:
  MPI_Request request_;
};

template <MpiScalar T>
Request isend(const Communicator& comm, std::span<const T> data, int dest, int tag = 0) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_CHECK(MPI_Isend(data.data(), mpi_count(data.size()), mpi_type<T>(), dest, tag, comm.get(),
                      &request));
  return Request(request);
}

template <MpiScalar T>
Request irecv(const Communicator& comm, std::span<T> data, int source, int tag = 0) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_CHECK(MPI_Irecv(data.data(), mpi_count(data.size()), mpi_type<T>(), source, tag,
                      comm.get(), &request));
  return Request(request);
}

}  // namespace dist
