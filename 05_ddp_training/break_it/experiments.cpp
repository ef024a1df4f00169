// The experiments of lesson 5: build/bin/broken/ddp_training NAME. Each is in the file of its
// name, except that two which show two sides of one idea share a file.
#include "05_ddp_training/model/kernels.hpp"
#include "tools/break_it/experiment.hpp"

namespace dist {

using Show = bool(const Program&);
Show break_no_all_reduce, break_skip_parameter;  // not_averaged.cpp
Show break_gradient_noise, break_update_noise;   // noise.cpp
Show break_wrong_stream, break_no_sync;          // queued_work.cpp
Show break_average_parameters, break_all_save, break_rank0_loss, break_lr, break_no_wait,
    break_iallreduce, break_pipeline_sends, break_tensor_backward, break_tiny_model,
    break_tied_weight, break_memory, break_loss_item;

static std::string no_common_folder(const Program& program) {
  return program.comm.local_size() == program.comm.size() ? "" : "needs all ranks on one host";
}
static std::string no_queue(const Program& program) {
  if (!program.stream.device().is_cpu()) return "";
  return "nothing is queued on a CPU: this experiment needs --device cuda, on a GPU or with "
         "-DDIST_CUDA=EMULATED";
}

constexpr Experiment kExperiments[] = {
    {"no-all-reduce", "if N ranks learn, they train one model", break_no_all_reduce},
    {"skip-parameter", "leaving out one bias does no harm", break_skip_parameter},
    {"gradient-noise", "randomness makes replicas diverge", break_gradient_noise},
    {"update-noise", "a little noise after the average is harmless", break_update_noise},
    {"average-parameters", "DDP averages parameters, or might as well",
     break_average_parameters},
    {"all-save", "replicas are equal, so every rank may save", break_all_save, 2,
     no_common_folder},
    {"rank0-loss", "rank 0's loss is the loss of the whole batch", break_rank0_loss},
    {"lr", "with N ranks, multiply the learning rate by N", break_lr},
    {"no-wait", "overlap is free", break_no_wait},
    {"iallreduce", "a non-blocking all-reduce works in the background", break_iallreduce},
    {"tiny-model", "N ranks are N times as fast", break_tiny_model},
    {"memory", "data parallelism saves memory", break_memory},
    {"tensor-backward", "each rank needs only its own gradients", break_tensor_backward},
    {"tied-weight", "a gradient is ready as soon as it has been computed", break_tied_weight},
    {"pipeline-sends", "a stage may send whatever it has ready", break_pipeline_sends},
    {"wrong-stream", "queued work is finished work", break_wrong_stream, 2, no_queue},
    {"no-sync", "a copy is done when the call returns", break_no_sync, 2, no_queue},
    {"loss-item", "reading one number costs one small copy", break_loss_item, 1, no_queue},
};

std::span<const Experiment> experiments() {
  return kExperiments;
}

std::string why_no_kernel_of_experiments() {
  return why_no_kernel();
}

}  // namespace dist
