// What this file adds: a picture of the ring as it runs: which chunk arrives where in each
// step, and whose shares it holds.
// Builds on: the ring itself. Each rank contributes a different digit, so a sum shows which
// ranks contributed to it, and how often.
#pragma once

#include "common/communicator.hpp"

#include <string>
#include <vector>

namespace dist {

// A 64-bit sum has 16 hexadecimal digits, one per rank.
constexpr int kMostPictureRanks = 16;

// Called on all ranks, at least 2 and at most kMostPictureRanks: runs the ring on one element
// per rank. Returns the lines on rank 0, and nothing on the other ranks. The letter 'a' + r is
// rank r's share; if it is counted twice, it appears twice.
std::vector<std::string> ring_picture(const Communicator& comm);

// The letters of a sum in which rank r's share is 16^r: "ac" for 0x101.
std::string shares(unsigned long long sum);

}  // namespace dist
