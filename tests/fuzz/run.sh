#!/usr/bin/env bash
# run.sh BUILD [TARGET...]: fuzzes the code that reads untrusted bytes, under the address and
# undefined-behaviour sanitizers. Each target gets 20,000 inputs, or a million with FAULTS_LONG=1:
# the seeds below, and the variations with which libFuzzer reaches new code.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$1/fuzz"
build=$(cd "$1/fuzz" && pwd)
targets=("${@:2}")
[ $# -gt 1 ] || targets=(idx safetensors command_line)
runs=20000
[ "${FAULTS_LONG:-0}" = 0 ] || runs=1000000

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
mkdir idx safetensors command_line

# The seeds: valid files, and files that are almost valid.
images='\0\0\10\3\0\0\0\2\0\0\0\1\0\0\0\3'
printf "${images}pixels" >idx/images
printf "${images}pixel" >idx/short
printf '\0\0\10\3\0\0\0\4\200\0\0\0\200\0\0\0' >idx/wraps  # wraps around to 0 pixels in 64 bits
printf '\0\0\10\1\0\0\0\3\4\0\11' >idx/labels
gzip -n <idx/images >idx/packed
head -c 25 idx/packed >idx/cut

safetensors() { printf "\\x$(printf %x ${#2})\0\0\0\0\0\0\0%s%s" "$2" "$3" >"safetensors/$1"; }
tensor() { printf '"%s":{"dtype":"F32","shape":%s,"data_offsets":%s}' "$@"; }
safetensors metadata '{"__metadata__":{"step":"3","xxh3_64":"0123456789abcdef"}}' ''
safetensors two "{$(tensor a '[2]' '[0,8]'),$(tensor b '[]' '[8,12]')}" abcdefghijkl
safetensors overlap \
  "{$(tensor a '[1]' '[0,4]'),$(tensor b '[1]' '[0,4]'),$(tensor c '[1]' '[8,12]')}" abcdefghijkl

arguments() { printf '%s\n' "${@:2}" >"command_line/$1"; }
arguments adam --dataset synthetic --layers 5,3 --batch-size 1 --lr 1e-3 --betas 0.9,0.99 --json
arguments sgd --optimizer=sgd --momentum=0.9 --nesterov --no-shuffle --test-fraction=.5 --metrics x
arguments below --batch-size 0
arguments above --batch-size 16777217
arguments files --metrics yes --checkpoint no
arguments help --help-all

# Two frames are enough; recording whole call stacks would take half of the running time.
export ASAN_OPTIONS=malloc_context_size=2:quarantine_size_mb=16
failed=0
for target in "${targets[@]}"; do
  began=$SECONDS
  # An input of 1 KiB can unpack to 1 MiB, but refusing an input must not take much memory.
  if "$build/bin/fuzz_$target" "$target" -seed=1 -runs=$runs -max_len=1024 -malloc_limit_mb=4 \
    -rss_limit_mb=512 -print_final_stats=1 -artifact_prefix="$build/$target-" >"$build/log" 2>&1
  then
    inputs=$(sed -n 's/^stat::number_of_executed_units: //p' "$build/log")
    edges=$(sed -n 's/.*DONE *cov: \([0-9]*\).*/\1/p' "$build/log")
    echo "figure 11: $target: $inputs inputs, $((SECONDS - began)) s, 0 crashes, $edges edges of code"
  else
    failed=1
    tail -n 40 "$build/log"
    echo "FAILED: run $build/bin/fuzz_$target with the file above to reproduce this"
  fi
done
exit $failed
