#!/usr/bin/env bash
# Builds lessons 1 and 5 without CUDA against the libraries in PREFIX, with warnings as errors, and
# runs both:
#   [CXX=g++-11] tests/build_against.sh PREFIX BUILD_FOLDER [CMAKE FLAGS]
set -euo pipefail
cd "$(dirname "$0")/.."
refuse() {
  echo "error: $1; type tests/build_against.sh PREFIX BUILD_FOLDER [CMAKE FLAGS]" >&2
  exit 2
}
[ $# -ge 2 ] || refuse "two folders are needed"
prefix=$1 build=$2
[ -d "$prefix" ] || refuse "the prefix $prefix is not a folder"
shift 2
cmake --preset cpu -B "$build" -DCMAKE_PREFIX_PATH="$prefix" -DDIST_WERROR=ON "$@"
cmake --build "$build" --target send_recv ddp_training
grep -E '^(CMAKE_CXX_COMPILER|fmt_DIR|CLI11_DIR|nlohmann_json_DIR):' "$build/CMakeCache.txt"
while IFS= read -r line; do [[ $line == \#* ]] || export "${line?}"; done <tools/learn/mpi.env
mpirun -np 4 "$build/bin/send_recv"
mpirun -np 4 "$build/bin/ddp_training" --max-steps 20
