#!/usr/bin/env bash
# run.sh BUILD [SECONDS]: fuzzes the code that reads untrusted bytes, for a minute by default, under
# the address and undefined-behaviour sanitizers: the seeds in fuzz.cpp, and the variations with which
# libFuzzer reaches new code.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
if [ ! -f "${1:-}/CMakeCache.txt" ]; then
  echo "error: ${1:-nothing} is not a build folder; type tests/fuzz/run.sh BUILD [SECONDS]" >&2
  exit 2
fi
mkdir -p "$1/fuzz"
build=$(cd "$1/fuzz" && pwd)

echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, long) { return 0; }' |
  clang++ -x c++ -fsanitize=fuzzer,address,undefined - -o "$build/probe" 2>/dev/null ||
  { echo "skipped: clang with libFuzzer is not installed"; exit 0; }
step() { "$@" >"$build/log" 2>&1 || { cat "$build/log"; exit 1; }; }
# Release is not used, because it does not optimise the files that read flags.
step cmake -S "$root" -B "$build" --preset cpu -DCMAKE_BUILD_TYPE=Fuzz -DDIST_WATCH=OFF \
  -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ \
  -DCMAKE_CXX_FLAGS="-O1 -D_GLIBCXX_ASSERTIONS" -DDIST_SANITIZE=address,undefined,fuzzer-no-link
step cmake --build "$build" --target fuzz --parallel 2

folder=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
mkdir new seeds
# Two frames are enough; recording whole call stacks would take half of the running time.
export ASAN_OPTIONS=malloc_context_size=2:quarantine_size_mb=16
# An input of 1 KiB can unpack to 1 MiB, but refusing an input must not take much memory.
"$build/bin/fuzz" new seeds -seed=1 -max_total_time="${2:-60}" -max_len=1024 -malloc_limit_mb=4 \
  -rss_limit_mb=512 -print_final_stats=1 -artifact_prefix="$build/" >"$build/log" 2>&1 ||
  { tail -n 40 "$build/log"; echo "FAILED: run $build/bin/fuzz with the file above"; exit 1; }
grep -E "DONE|number_of_executed_units" "$build/log"
