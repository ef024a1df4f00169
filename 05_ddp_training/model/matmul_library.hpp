// What this file adds: which library computes the matrix products on the CPU.
#pragma once

#include "common/command_line.hpp"
#include "common/names.hpp"
#include "common/stream.hpp"

#include <string>

namespace dist {

enum class MatmulLibrary { automatic, onednn, openblas, plain };

// The names that --matmul accepts.
inline const Names<MatmulLibrary> kMatmulLibraries{{"auto", MatmulLibrary::automatic},
                                                   {"onednn", MatmulLibrary::onednn},
                                                   {"openblas", MatmulLibrary::openblas},
                                                   {"plain", MatmulLibrary::plain}};

// Adds --matmul, whose value is for use_matmul_library, to a program's flags. All ranks refuse
// what this build has not.
void declare_matmul(CommandLine& flags, MatmulLibrary& library);

// Why this build, or this host, cannot use it; empty if it can.
std::string why_no_matmul(MatmulLibrary library);

// From now on `library` multiplies whatever is multiplied on this stream, if it is on the CPU;
// GPUs have only cuBLAS. At first this is `automatic`, which depends on the CPU and on the
// sizes, but never on measurements: who repeats a run on the same host gets the same bits.
void use_matmul_library(const Stream& stream, MatmulLibrary library);

// The library, its version, and the kernels that it has chosen for this CPU, for example
// "OpenBLAS 0.3.21 (Zen)". Products of equal text, threads and sizes have equal bits.
std::string describe_matmul(MatmulLibrary library);

}  // namespace dist
