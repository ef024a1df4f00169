// What this file adds: a picture of the ring as it runs. It shows which chunk arrives at which
// rank in each step, and whose shares the chunk holds.
// Builds on: the ring itself. Each rank contributes a different digit, so a sum shows which
// ranks contributed to it, and how often.
#pragma once

#include "common/communicator.hpp"

#include <string>
#include <vector>

namespace dist {

// A 64-bit sum has 16 hexadecimal digits, one per rank.
constexpr int kMostPictureRanks = 16;

// Runs the ring on one element per rank. Called on all ranks, of which there must be 2 to
// kMostPictureRanks. Returns the picture's lines on rank 0 and no lines on the other ranks. The
// letter 'a' + r stands for rank r's share; a share that is counted twice appears twice.
std::vector<std::string> ring_picture(const Communicator& comm);

// The letters of a sum in which rank r's share is 16^r; for example, "ac" for 0x101.
std::string shares(unsigned long long sum);

}  // namespace dist
