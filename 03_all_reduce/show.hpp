// What lesson 3 also shows: the ring, step by step, and the algorithms for a second reading.
#pragma once

#include "03_all_reduce/reduce_op.hpp"
#include "common/program.hpp"

#include <span>
#include <string>
#include <vector>

namespace dist {

// The values of the program's --algorithm: "both", and all algorithms but NCCL's.
std::vector<std::string> shown_algorithms();
// Checks --algorithm: throws an Error that names the flag if these ranks cannot share memory.
void check_shown(const Communicator& comm, const std::string& algorithm);

// Called on all ranks with the same length, op and algorithm. Runs any of these algorithms
// once. (A program that calls many all-reduces keeps an AllReducer, choice/all_reducer.hpp.)
void all_reduce_by_name(const Communicator& comm, const std::string& algorithm,
                        std::span<float> data, ReduceOp op);

// Called on all ranks. Runs the two halves of the ring on one element per rank, and prints
// which chunk arrives at which rank in each step, and whose shares it then holds. The letter
// 'a' + r stands for rank r's share; a share that is counted twice appears twice. Prints
// nothing for more than four ranks, which would not fit on a screen; with --json, a row per
// message for up to eight. Returns on all ranks whether every rank ends with every share once.
bool draw_ring(const Program& program);

}  // namespace dist
