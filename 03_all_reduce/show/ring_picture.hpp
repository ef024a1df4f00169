// What this file adds: the ring as it runs, drawn: which chunk arrives where in which step, and
// whose shares it holds by then.
// Builds on: the ring itself, on other numbers. Each rank's share is one digit, so that a sum
// says which ranks are in it, and how often.
#pragma once

#include "common/communicator.hpp"

#include <string>
#include <vector>

namespace dist {

// As many ranks as a 64-bit sum has digits to count in.
constexpr int kMostPictureRanks = 16;

// Called on all ranks, at least 2 and at most kMostPictureRanks: runs the ring on one element
// per rank. The lines are on rank 0, empty elsewhere. Rank r's share is the letter 'a' + r, a
// share that is counted twice stands there twice.
std::vector<std::string> ring_picture(const Communicator& comm);

// The letters in a sum of shares, each 16^rank: "ac" for 0x101.
std::string shares(unsigned long long sum);

}  // namespace dist
