// What lesson 3's program shows besides its two algorithms: the ring, step by step, and the
// algorithms for a second reading.
#pragma once

#include "03_all_reduce/reduce_op.hpp"
#include "common/program.hpp"

#include <span>
#include <string>
#include <vector>

namespace dist {

// The values of the program's --algorithm: "both", and all algorithms but NCCL's.
std::vector<std::string> shown_algorithms();
// Checks the flags: throws an Error that names the flag if these ranks cannot share memory, or
// are too few or too many for a picture.
void check_shown(const Communicator& comm, const std::string& algorithm, bool picture);

// Called on all ranks with the same length, op and algorithm. Runs any of these algorithms
// once. (A program that calls many all-reduces keeps an AllReducer, choice/all_reducer.hpp.)
void all_reduce_by_name(const Communicator& comm, const std::string& algorithm,
                        std::span<float> data, ReduceOp op);

// Called on all ranks. Prints ring_picture for 2 to 4 ranks, which fits on one screen, or for
// any number of ranks if it was `asked_for`.
void draw_ring(const Program& program, bool asked_for);

// A 64-bit sum has 16 hexadecimal digits, one per rank.
constexpr int kMostPictureRanks = 16;

// Runs the two halves of the ring on one element per rank. Called on all ranks, of which there
// must be 2 to kMostPictureRanks. Returns the picture's lines on rank 0 and no lines on the
// other ranks: which chunk arrives at which rank in each step, and whose shares it then holds.
// The letter 'a' + r stands for rank r's share; a share that is counted twice appears twice.
std::vector<std::string> ring_picture(const Communicator& comm);

// The letters of a sum in which rank r's share is 16^r; for example, "ac" for 0x101.
std::string shares(unsigned long long sum);

}  // namespace dist
