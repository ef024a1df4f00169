# ./learn doctor: shows what this machine has, what is missing, and the command that fixes it. learn
# sources this file, which uses its variables (root, build, packages, tests) and functions. It
# changes nothing.
problems=0
# The reader's own settings, saved before learn sets these variables for itself.
readers_oversubscribe=${OMPI_MCA_rmaps_base_oversubscribe:-${PRTE_MCA_rmaps_default_mapping_policy:-}}
readers_root=${OMPI_ALLOW_RUN_AS_ROOT:-}

ok() { printf '%sok%s       %s\n' "$green" "$plain" "$1"; }
note() { printf '%snote%s     %s\n' "$yellow" "$plain" "$1"; [ -z "${2:-}" ] || printf '         fix: %s\n' "$2"; }
problem() {
  printf '%sproblem%s  %s\n         fix: %s\n' "$red" "$plain" "$1" "$2"
  problems=$((problems + 1))
}

examine_packages() {
  local missing
  mapfile -t missing < <(missing_packages "$tests")
  if [ ${#missing[@]} -eq 0 ]; then
    ok "packages: all $(packages "$tests" | wc -l) are installed"
  else
    problem "missing packages: ${missing[*]}" "$(install_line "${missing[@]}")"
  fi
}

examine_tools() {
  if command -v c++ >/dev/null 2>&1; then ok "compiler: $(c++ --version | head -n 1)"; fi
  local version
  version=$(cmake --version 2>/dev/null | sed -n '1s/.* //p')
  if [ -n "$version" ]; then
    if [ "$(printf '%s\n' 3.25 "$version" | sort -V | head -n 1)" = 3.25 ]; then ok "CMake $version"
    else problem "CMake $version is older than 3.25" "python3 -m pip install --user cmake"; fi
  fi
  local prefix file
  version=""
  for prefix in "${prefixes[@]}" /usr /usr/local; do
    for file in "$prefix"/{lib,lib/*-linux-gnu,share}/cmake/Catch2/Catch2ConfigVersion.cmake; do
      if [ -z "$version" ] && [ -f "$file" ]; then
        version=$(sed -n 's/^set(PACKAGE_VERSION "\(.*\)")/\1/p' "$file" | head -n 1)
      fi
    done
  done
  case $version in
    2.* | 3.*) ok "Catch2 $version" ;;
    "") note "Catch2 is not installed: the programs build without it, but the tests do not" "$(install_line catch2)" ;;
    *) note "Catch2 $version: this course was tested with 2.13 and 3" ;;
  esac
}

examine_build() {
  local stale
  stale=$(stale_build)
  if [ -n "$stale" ]; then problem "${build#"$PWD"/} cannot be used: $stale" "./learn 1   # configures it anew"; fi
}

# mpi_library_of FILE: prints the path of the MPI library that FILE uses.
mpi_library_of() { ldd "$1" 2>/dev/null | sed -n 's/.*libmpi[^ ]* => \([^ ]*\) .*/\1/p' | head -n 1; }

examine_mpi() {
  command -v mpirun >/dev/null 2>&1 || { problem "mpirun is not on the PATH" "sudo apt-get install openmpi-bin"; return; }
  local version launcher
  version=$(mpirun --version 2>/dev/null | head -n 1)
  launcher=$(readlink -f "$(command -v mpirun)")
  case $version in
    *"Open MPI"* | *"Open RTE"*) ok "$version ($launcher)" ;;
    *) problem "this mpirun is not from Open MPI: $version" "sudo update-alternatives --set mpirun /usr/bin/mpirun.openmpi" ;;
  esac
  local program=$build/bin/send_recv flags="" what="messages"
  if [ -x "${program}_perf" ]; then  # it sends large messages, too
    program=${program}_perf flags="--act exchange" what="large messages (ptrace is allowed or not used)"
  fi
  if [ -x "$program" ]; then
    set_mpi_environment
    local output
    # shellcheck disable=SC2086  # no flags are no argument
    output=$(timeout 60 mpirun -np 2 "$program" $flags </dev/null 2>&1 || true)
    if grep -q '^1 rank,' <<<"$output" || grep -q 'needs two ranks' <<<"$output"; then
      problem "two MPI implementations are mixed, so every process believes it is rank 0 of 1: $launcher starts the programs, but they use $(mpi_library_of "$program")" \
        "rm -r ${build#"$PWD"/}   # then ./learn 1, with mpirun and mpicxx of the same MPI first on the PATH"
    elif grep -q 'Read -1' <<<"$output"; then
      problem "this container forbids ptrace, so sending a large message prints 'Read -1, expected'" \
        "export OMPI_MCA_btl_vader_single_copy_mechanism=none"
    elif grep -q '^verified' <<<"$output"; then
      ok "mpirun matches the programs, and two ranks can exchange $what"
    else
      problem "two ranks could not exchange messages; the output begins: $(head -n 1 <<<"$output")" "mpirun -np 2 ${program#"$PWD"/} $flags   # shows all the output"
    fi
  else
    note "build lesson 1 to check whether mpirun matches the programs" "./learn 1"
  fi
  local cores
  cores=$(nproc)
  if [ "$cores" -lt 4 ] && [ -z "$readers_oversubscribe" ]; then
    note "$cores cores: mpirun says 'not enough slots' for 4 ranks unless more ranks than cores are allowed (./learn does this automatically)" \
      "export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe"
  else
    ok "$cores cores"
  fi
  if [ "$(id -u)" -eq 0 ] && [ -z "$readers_root" ]; then
    note "you are root, so a plain mpirun refuses to run (./learn sets these variables automatically)" \
      "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"
  else
    ok "user $(id -un) may run mpirun"
  fi
  if command -v ompi_info >/dev/null 2>&1 && ompi_info --parsable --all 2>/dev/null | grep -q 'mpi_built_with_cuda_support:value:true'; then
    ok "this Open MPI accepts GPU memory (it is CUDA-aware)"
  else
    note "this Open MPI does not accept GPU memory (it is not CUDA-aware), so the programs send through pinned host memory; NCCL is not affected"
  fi
}

examine_shared_memory() {
  local free
  free=$(df -k --output=avail /dev/shm 2>/dev/null | tail -n 1 | tr -d ' ' || true)
  if [ -z "$free" ] || [ ! -w /dev/shm ]; then
    problem "/dev/shm is missing or not writable, so Open MPI's ranks on one host cannot exchange messages through it" "mount -t tmpfs tmpfs /dev/shm"
  elif [ "$free" -lt $((64 * 1024)) ]; then
    problem "/dev/shm has $((free / 1024)) MiB free" "docker run --shm-size=1g ...   # or delete old files in /dev/shm"
  else
    ok "/dev/shm has $((free / 1024)) MiB free"
  fi
}

examine_gpus() {
  local gpus=0
  if command -v nvidia-smi >/dev/null 2>&1; then gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU' || true); fi
  if [ "$gpus" -eq 0 ]; then
    note "no GPU: everything runs on the CPU"
  elif [ "$gpus" -lt 4 ]; then
    note "$gpus GPU(s): with more ranks than that, several ranks share a GPU and gradients travel through host memory" "./learn 5 -n $gpus   # one GPU per rank, with NCCL"
  else
    ok "$gpus GPUs"
  fi
  local cuda folder header version=""
  cuda=$(from_cache DIST_CUDA_STATUS:INTERNAL 2>/dev/null || true)
  if [ -z "$cuda" ] && folder=$(mktemp -d 2>/dev/null); then  # no build: try what it would use
    cuda=$(cd "$folder" && cmake -DCMAKE_CXX_COMPILER="${CXX:-c++}" -P "$root/cmake/TryCuda.cmake" 2>&1 |
      sed -n 's/^CUDA: //p' || true)
    rm -r "$folder"
  fi
  if [[ $cuda == [0-9]* ]]; then ok "CUDA Toolkit $cuda"
  else note "CUDA: ${cuda:-not examined, because this needs CMake 3.25 or newer}"; fi
  header=$(ls -U "$(from_cache NCCL_INCLUDE_DIR:PATH 2>/dev/null)/nccl.h" \
    "${CUDA_HOME:-/usr/local/cuda}/include/nccl.h" /usr/include/nccl.h 2>/dev/null | head -n 1 || true)
  if [ -n "$header" ]; then
    version=$(sed -n 's/^#define NCCL_\(MAJOR\|MINOR\|PATCH\) \([0-9]*\).*/\2/p' "$header" | paste -sd.)
    if [ "$(printf '%s\n' 2.18 "$version" | sort -V | head -n 1)" = 2.18 ]; then ok "NCCL $version"
    else problem "NCCL $version is older than 2.18" "sudo apt-get install libnccl2 libnccl-dev"; fi
  elif [ "$gpus" -gt 0 ]; then
    problem "NCCL is not installed" "sudo apt-get install libnccl2 libnccl-dev   # from NVIDIA's repository"
  else
    note "no NCCL: it is not needed without a GPU"
  fi
}

run_doctor() {
  examine_packages
  examine_tools
  examine_build
  examine_mpi
  examine_shared_memory
  examine_gpus
  echo
  if [ "$problems" -eq 0 ]; then echo "no problems found"; else echo "problems to fix: $problems"; return 1; fi
}
