// A library to preload, which makes messages of a run wrong (test_wrong_messages.py). In
// $WRONG_MESSAGES, "(RANK K HOW)" is about the K-th message (from 1) that RANK sends: flip (one
// bit is wrong), round (the lowest bit of each float is), grow (all floats become 1.5 times as
// large), drop (it is not sent) or twice. Or it is about its K-th MPI_Allreduce: result (one
// bit is wrong). At the end, each rank prints how many of both it had.
#include <mpi.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <string>

static std::atomic<int> messages, results;

static int this_rank() {
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

static bool is_wrong(int number, const std::string& how) {
  const char* const faults = std::getenv("WRONG_MESSAGES");
  const std::string fault =
      '(' + std::to_string(this_rank()) + ' ' + std::to_string(number) + ' ' + how + ')';
  return faults != nullptr && std::strstr(faults, fault.c_str()) != nullptr;
}

static std::size_t bytes(int count, MPI_Datatype type) {
  int size = 0;
  PMPI_Type_size(type, &size);
  return static_cast<std::size_t>(count) * static_cast<std::size_t>(size);
}

// In a float or double, this is the highest bit of the exponent.
static void flip(void* data, int count, MPI_Datatype type) {
  static_cast<unsigned char*>(data)[bytes(count / 2 + 1, type) - 1] ^= 0x40U;
}

// As rounding may change them.
static void round(void* data, int count) {
  for (int i = 0; i < count; ++i) static_cast<unsigned char*>(data)[4 * i] ^= 1U;
}

static void grow(float* data, int count) {
  for (int i = 0; i < count; ++i) data[i] *= 1.5F;
}

// The function that would be called without this library.
template <class Function>
static Function* next(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

template <class Send, class... Request>
static int send(Send* function, const char* name, const void* data, int n, MPI_Datatype type,
                int to, int tag, MPI_Comm comm, Request*... request) {
  const int number = n == 0 ? 0 : ++messages;
  if (is_wrong(number, "drop")) return ((*request = MPI_REQUEST_NULL), ..., MPI_SUCCESS);
  const bool flips = is_wrong(number, "flip"), doubles = is_wrong(number, "twice");
  const bool rounds = is_wrong(number, "round"), grows = is_wrong(number, "grow");
  if (flips || doubles || rounds || grows) {
    void* const copy = std::malloc(bytes(n, type));  // never freed: MPI may still read it
    data = std::memcpy(copy, data, bytes(n, type));
    MPI_Request unused = MPI_REQUEST_NULL;
    if (flips) flip(copy, n, type);
    if (rounds) round(copy, n);
    if (grows) grow(static_cast<float*>(copy), n);
    if (doubles) PMPI_Isend(copy, n, type, to, tag, comm, &unused);
  }
  return next(function, name)(data, n, type, to, tag, comm, request...);
}

extern "C" {

#define SEND(NAME)                                                                       \
  int NAME(const void* data, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm) { \
    return send(&NAME, #NAME, data, n, type, to, tag, comm);                             \
  }
SEND(MPI_Send)
SEND(MPI_Ssend)
SEND(MPI_Bsend)

int MPI_Isend(const void* data, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request* request) {
  return send(&MPI_Isend, "MPI_Isend", data, n, type, to, tag, comm, request);
}

int MPI_Sendrecv(const void* out, int out_n, MPI_Datatype out_type, int to, int out_tag,
                 void* in, int in_n, MPI_Datatype in_type, int from, int in_tag, MPI_Comm comm,
                 MPI_Status* status) {
  MPI_Request sent = MPI_REQUEST_NULL;
  send(&MPI_Isend, "MPI_Isend", out, out_n, out_type, to, out_tag, comm, &sent);
  const int result = MPI_Recv(in, in_n, in_type, from, in_tag, comm, status);
  MPI_Wait(&sent, MPI_STATUS_IGNORE);
  return result;
}

int MPI_Allreduce(const void* in, void* out, int n, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm) {
  const int result = next(&MPI_Allreduce, "MPI_Allreduce")(in, out, n, type, op, comm);
  if (is_wrong(++results, "result")) flip(out, n, type);
  return result;
}

int MPI_Finalize() {
  std::fprintf(stderr, "rank %d: %d messages, %d results\n", this_rank(), messages.load(),
               results.load());
  return next(&MPI_Finalize, "MPI_Finalize")();
}

}  // extern "C"
