// A small model, whose replicas lesson 2's program makes equal.
#pragma once

#include "common/program.hpp"
#include "common/tensor.hpp"

#include <string>
#include <vector>

namespace dist {

// The values of the program's --algorithm: "both", and all algorithms but NCCL's.
std::vector<std::string> shown_broadcasts();

// Called on all ranks. With --json, runs the tree once more, with four numbers per rank, and
// prints a row for each message, in the order of rounds; the web site's player shows them.
void print_tree_rows(const Program& program, int root);

// Returns, on the device, a linear layer's 36 parameters as `rank` draws them (seed + rank).
Tensor draw_model(const Program& program, int rank);

// Called on all ranks after a broadcast from `root` has changed `model`, which this rank drew.
// Prints the hashes before and after. Returns, on all ranks, whether all have the root's bits.
bool show_replicas(const Program& program, const Tensor& model, int root);

}  // namespace dist
