#include "05_ddp_training/data_parallel.hpp"

#include "05_ddp_training/distributed_data_parallel.hpp"
#include "05_ddp_training/naive_data_parallel.hpp"

namespace dist {

std::unique_ptr<DataParallel> make_data_parallel(const std::string& name, Mlp& module,
                                                 ProcessGroup& group, const Stream& stream) {
  if (name == "naive") return std::make_unique<NaiveDataParallel>(module, group, stream);
  return std::make_unique<DistributedDataParallel>(module, group, stream);
}

}  // namespace dist
