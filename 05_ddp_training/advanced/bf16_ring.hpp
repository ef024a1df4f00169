// What this file adds: lesson 3's ring with every message in bf16 (like PyTorch's
// bf16_compress_hook, which divides before it adds). Builds on: 02, chunks; bf16. Look at: the
// sum, which is made in fp32 and rounded for the next rank.
#pragma once

#include "01_send_recv/send_recv.hpp"
#include "02_broadcast/chunks.hpp"
#include "05_ddp_training/model/bf16.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace dist {

// Replaces `data` by its mean over the ranks, whose sum is rounded to bf16, with the same bits
// on all of them. Called on all ranks with the same length. As with NCCL, each sum is rounded
// for the next rank, so a number is rounded first, and again with every addition.
inline void average_in_bf16(const Communicator& comm, std::span<float> data) {
  std::vector<Bf16> sums(data.size()), spare(chunk_range(data.size(), comm.size(), 0).count);
  const auto chunk = [&](int index) {
    return window(std::span(sums), chunk_range(data.size(), comm.size(), index));
  };
  const auto bytes = [](std::span<Bf16> numbers) {
    return std::span(reinterpret_cast<char*>(numbers.data()), numbers.size_bytes());
  };
  std::ranges::transform(data, sums.begin(), to_bf16);
  for (int step = 1; step < comm.size(); ++step) {  // reduce-scatter
    const auto out = chunk(comm.rank() - step), in = chunk(comm.rank() - step - 1);
    const std::span<Bf16> arrived = std::span(spare).first(in.size());
    send_recv<char>(comm, bytes(out), comm.right(), bytes(arrived), comm.left());
    std::ranges::transform(in, arrived, in.begin(), [](Bf16 own, Bf16 other) {
      return to_bf16(to_float(own) + to_float(other));
    });
  }
  for (int step = 0; step < comm.size() - 1; ++step) {  // all-gather
    send_recv<char>(comm, bytes(chunk(comm.rank() - step)), comm.right(),
                    bytes(chunk(comm.rank() - step - 1)), comm.left());
  }
  const auto ranks = static_cast<float>(comm.size());
  std::ranges::transform(sums, data.begin(), [&](Bf16 sum) { return to_float(sum) / ranks; });
}

}  // namespace dist
