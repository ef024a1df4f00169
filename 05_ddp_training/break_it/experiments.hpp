// What lesson 5 breaks on purpose: `ddp_training --break NAME`. Each stands in the file of its
// name.
#pragma once

#include "tools/broken/break_it.hpp"

#include <array>
#include <string>

namespace dist {

bool break_no_all_reduce(const BreakIt& with);
bool break_skip_parameter(const BreakIt& with);
bool break_gradient_noise(const BreakIt& with);
bool break_update_noise(const BreakIt& with);
bool break_average_parameters(const BreakIt& with);
bool break_all_save(const BreakIt& with);
bool break_rank0_loss(const BreakIt& with);
bool break_lr(const BreakIt& with);
bool break_no_wait(const BreakIt& with);
bool break_tiny_model(const BreakIt& with);
bool break_memory(const BreakIt& with);
bool break_wrong_stream(const BreakIt& with);
bool break_no_sync(const BreakIt& with);

// Why there is no one file that all ranks could write (all-save).
std::string no_common_folder(const BreakIt& with);
// Why nothing is queued here (wrong-stream, no-sync).
std::string no_queue(const BreakIt& with);

inline constexpr std::array kDdpExperiments{
    Experiment{"no-all-reduce", "N models that learn are one model", break_no_all_reduce},
    Experiment{"skip-parameter", "one bias will not matter", break_skip_parameter},
    Experiment{"gradient-noise", "randomness makes replicas diverge", break_gradient_noise},
    Experiment{"update-noise", "a little noise after the average is as good",
               break_update_noise},
    Experiment{"average-parameters", "DDP averages parameters, or might as well",
               break_average_parameters},
    Experiment{"all-save", "replicas are equal, so every rank may save", break_all_save, 2,
               no_common_folder},
    Experiment{"rank0-loss", "rank 0's loss is the loss", break_rank0_loss},
    Experiment{"lr", "N ranks, so the learning rate times N", break_lr},
    Experiment{"no-wait", "overlap is free", break_no_wait},
    Experiment{"tiny-model", "N ranks are N times as fast", break_tiny_model},
    Experiment{"memory", "data parallelism saves memory", break_memory},
    Experiment{"wrong-stream", "work queued is work done", break_wrong_stream, 2, no_queue},
    Experiment{"no-sync", "a copy that was asked for is there", break_no_sync, 2, no_queue},
};

}  // namespace dist
