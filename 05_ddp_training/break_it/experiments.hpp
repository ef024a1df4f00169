// The experiments of lesson 5, each in a file of the same name. Run one with
// build/bin/broken/ddp_training NAME.
#pragma once

#include "common/program.hpp"

#include <string>

namespace dist {

bool break_no_all_reduce(const Program& program);
bool break_skip_parameter(const Program& program);
bool break_gradient_noise(const Program& program);
bool break_update_noise(const Program& program);
bool break_average_parameters(const Program& program);
bool break_all_save(const Program& program);
bool break_rank0_loss(const Program& program);
bool break_lr(const Program& program);
bool break_no_wait(const Program& program);
bool break_iallreduce(const Program& program);
bool break_tiny_model(const Program& program);
bool break_memory(const Program& program);
bool break_fp16_underflow(const Program& program);
bool break_wrong_stream(const Program& program);
bool break_no_sync(const Program& program);
bool break_loss_item(const Program& program);

// Why all-save cannot run here (the ranks share no folder); empty if it can.
std::string no_common_folder(const Program& program);
// Why wrong-stream, no-sync and loss-item cannot run here (nothing is queued); empty if they
// can.
std::string no_queue(const Program& program);

}  // namespace dist
