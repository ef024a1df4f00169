// The checks of lesson 5's exercises.
#pragma once

#include "01_send_recv/gpu/nccl_communicator.hpp"
#include "05_ddp_training/exercise/gradient_sync.hpp"
#include "05_ddp_training/exercise/step_to_predict.hpp"
#include "05_ddp_training/exercise/training_state.hpp"
#include "common/stream.hpp"
#include "common/tensor.hpp"
#include "tests/exercises/message_checks.hpp"

#include <memory>

namespace dist::exercise {

using Gradients = std::vector<std::span<float>>;
using Backward = std::function<void(std::size_t)>;
using SyncGradients = std::function<void(const Communicator&, const Gradients&)>;
using Accumulates =
    std::function<void(const Communicator&, std::size_t, const Gradients&, const Backward&)>;
using Overlaps = std::function<std::unique_ptr<GradientSync>(
    ProcessGroup&, std::vector<Gradient>, BucketPlan, const Stream&)>;
using Predicts = std::function<Prediction(const StepToPredict&)>;
using NcclAverages =
    std::function<void(NcclCommunicator&, const Tensor&, const Stream&, const Stream&)>;
using Checkpoints = std::function<std::unique_ptr<CheckpointFile>(const Communicator&,
                                                                  const std::string& path)>;

std::vector<Check> checks_of_sync_gradients(const SyncGradients& solution);
std::vector<Check> checks_of_accumulate(const Accumulates& solution);
std::vector<Check> checks_of_overlap(const Overlaps& solution);
std::vector<Check> checks_of_predict(const Predicts& solution);
std::vector<Check> checks_of_checkpoint(const Checkpoints& solution);
std::vector<Check> checks_of_nccl_average(const NcclAverages& solution);  // if emulated

}  // namespace dist::exercise
