#include "01_send_recv/gpu/why_no_nccl.hpp"
#include "05_ddp_training/process_group/host_process_group.hpp"
#include "05_ddp_training/process_group/nccl_process_group.hpp"
#include "05_ddp_training/process_group/process_group.hpp"

namespace dist {

std::string to_string(Backend backend) {
  switch (backend) {
    case Backend::ours: return "ours";
    case Backend::mpi: return "mpi";
    case Backend::nccl: return "nccl";
  }
  throw Error("a backend without a name");
}

BackendChoice choose_backend(const std::string& request, const Communicator& comm,
                             Device device) {
  if (request == "ours") return {Backend::ours, "as requested"};
  if (request == "mpi") return {Backend::mpi, "as requested"};
  const std::string obstacle = why_no_nccl(comm, device);
  if (obstacle.empty()) return {Backend::nccl, "a GPU for every rank"};
  if (request == "nccl") throw Error("--backend: nccl: " + obstacle);
  return {Backend::ours, obstacle};
}

std::unique_ptr<ProcessGroup> make_process_group(Backend backend, const Communicator& comm,
                                                 Device device, AllReduceAlgorithm algorithm,
                                                 bool overlap) {
  switch (backend) {
    case Backend::ours:
    case Backend::mpi:
      return std::make_unique<HostProcessGroup>(backend, comm, device, algorithm, overlap);
    case Backend::nccl: return std::make_unique<NcclProcessGroup>(comm, device);
  }
  throw Error("a backend without a process group");
}

}  // namespace dist
