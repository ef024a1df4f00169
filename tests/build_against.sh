#!/usr/bin/env bash
# Builds lessons 1 and 5 without CUDA against the libraries in PREFIX, with warnings as errors, and
# runs both:
#   [CXX=g++-11] tests/build_against.sh PREFIX BUILD_FOLDER [CMAKE FLAGS]
set -euo pipefail
cd "$(dirname "$0")/../.."
prefix=$1 build=$2
shift 2
cmake --preset cpu -B "$build" -DCMAKE_PREFIX_PATH="$prefix" -DDIST_WERROR=ON "$@"
cmake --build "$build" --target send_recv ddp_training
grep -E '^(CMAKE_CXX_COMPILER|fmt_DIR|CLI11_DIR|nlohmann_json_DIR):' "$build/CMakeCache.txt"
while IFS= read -r line; do [[ $line == \#* ]] || export "${line?}"; done <tools/learn/mpi.env
mpirun -np 4 "$build/bin/send_recv"
mpirun -np 4 "$build/bin/ddp_training" --max-steps 20
