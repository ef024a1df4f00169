# ./learn doctor: shows what this machine has, what is missing, and the command that fixes it. learn
# sources this file, which uses its variables (root, build, packages, tests) and functions. It
# changes nothing.
printf -v learn %q "$0"  # as the reader types it

ok() { printf '%sok%s       %s\n' "$green" "$plain" "$1"; }
note() { printf '%snote%s     %s\n' "$yellow" "$plain" "$1"; [ -z "${2:-}" ] || printf '         fix: %s\n' "$2"; }
problem() { printf '%sproblem%s  %s\n         fix: %s\n' "$red" "$plain" "$1" "$2"; }

# first_line OUTPUT: prints the first line that has words, without bash's name for a place in a script.
first_line() {
  local line words='^(.*: line [0-9]+: )?(.*[[:alpha:]].*)'
  while read -r line; do
    if [[ $line =~ $words ]]; then echo "${BASH_REMATCH[2]}"; return; fi
  done <<<"$1"
  echo "it says nothing"
}

examine_packages() {
  local missing all
  all=$(packages "$tests" | wc -l)
  mapfile -t missing < <(missing_packages "$tests")
  if [ ${#missing[@]} -gt 0 ]; then problem "missing packages: ${missing[*]}" "$(install_line "${missing[@]}")"
  else ok "packages: all $all are installed"; fi
}

# usable TOOL...: prints the version of a tool, or fails and prints why the course cannot use it.
usable() {
  local file version said reason=""
  file=$(type -P "$1" || echo "$1")
  said=$("$@" --version 2>&1) && [ -n "$said" ] || { echo "$file: $(first_line "$said")"; return 1; }
  version=$(first_line "$said")
  case ${1##*/} in
    cmake) [ "$(printf '%s\n' 3.25 "${version##* }" | sort -V | head -n 1)" = 3.25 ] || reason="$version is older than 3.25" ;;
    mpirun) [[ $version == *"Open MPI"* || $version == *"Open RTE"* ]] || reason="is not Open MPI: $version" ;;
    *) # shellcheck disable=SC2086  # these are several words
      said=$(echo 'int main() {}' | "$@" ${CXXFLAGS:-} -x c++ -o /dev/null - 2>&1) ||
        reason="cannot compile an empty program: $(first_line "$said")" ;;
  esac
  if [ -n "$reason" ]; then echo "$file: $reason"; return 1; fi
  echo "$version ($(readlink -f "$file"))"
}

# replace_tool TOOL...: prints how to get one that the course can use.
replace_tool() {
  local file
  while read -r file; do  # the first one may hide another
    if usable "$file" "${@:2}" >/dev/null; then echo "export PATH=${file%/*}:\$PATH"; return; fi
  done < <(type -aP "$1")
  case $1 in
    cmake)
      # Into a folder of its own, pip installs everywhere: also in a virtual environment, and where the
      # system manages Python's packages. The folder on the PATH has nothing but CMake's programs.
      python3 -m pip --version >/dev/null 2>&1 || printf '%s && ' "$(install_line python3-pip)"
      echo "python3 -m pip install --upgrade --target ~/.local/cmake 'cmake>=3.25' && export PATH=~/.local/cmake/cmake/data/bin:\$PATH" ;;
    mpirun)
      if [ -x /usr/bin/mpirun.openmpi ]; then as_root "update-alternatives --set mpirun /usr/bin/mpirun.openmpi"
      else install_line --reinstall openmpi-bin; fi ;;
    *) if [ -n "${CXX:-}${CXXFLAGS:-}" ]; then echo "unset CXX CXXFLAGS"; else install_line --reinstall g++; fi ;;
  esac
}

examine_tools() {
  local tool said
  for tool in "${CXX:-c++}" cmake mpirun; do
    # shellcheck disable=SC2086  # CXX may be several words
    if ! type -P "$tool" >/dev/null && [ "$tool" != "${CXX:-}" ]; then
      if [ -x "/usr/bin/$tool" ]; then problem "$tool is not on the PATH" "export PATH=/usr/bin:\$PATH"
      else note "not checked: $tool is missing"; fi
    elif said=$(usable $tool); then ok "$said"
    else problem "$said" "$(replace_tool $tool)"; fi
  done
}

examine_build() {
  local foreign stale
  foreign=$(foreign_build)
  stale=$(stale_build)
  if [ -n "$foreign" ]; then problem "$build is not a build folder of this course: $foreign" "export LEARN_BUILD_DIR=~/build"
  elif [ -n "$stale" ]; then problem "${build#"$PWD"/} cannot be used: $stale" "$learn 1   # configures it anew"
  else ok "the build folder is ${build#"$PWD"/}"; fi
}

# The reader's own settings of mpirun, which may be left over from another job or machine.
readers_settings() {
  local name
  for name in "${!OMPI_MCA_@}" "${!PRTE_MCA_@}" "${!PMIX_@}" "${!TMPDIR@}"; do
    grep -qxF "$name=${!name}" "$root/tools/learn/mpi.env" || echo "$name"
  done
}

# exchange [NAME...]: prints the output of two ranks that run without these variables.
exchange() (
  unset "$@"
  set_mpi_environment
  # shellcheck disable=SC2086  # no flags are no argument
  timeout 60 mpirun -np 2 "$program" $flags </dev/null 2>&1 || true
)

examine_messages() {
  local program=$build/bin/send_recv_perf flags="--act exchange" output settings  # large messages, too
  if [ ! -x "$program" ]; then program=$build/bin/send_recv flags=""; fi
  if [ ! -x "$program" ]; then
    note "not checked: whether mpirun matches the programs, because lesson 1 is not built" "$learn 1"
    return
  fi
  output=$(exchange)
  mapfile -t settings < <(readers_settings)
  if grep -qE 'alone in its MPI world|^1 rank,|needs two ranks' <<<"$output"; then
    problem "two MPI implementations are mixed, so every process believes it is rank 0 of 1: $(readlink -f "$(type -P mpirun)") starts the programs, but they use $(ldd "$program" | grep -o '/[^ ]*libmpi[^ ]*' | head -n 1)" \
      "rm -r ${build#"$PWD"/} && $learn 1   # with mpirun and mpicxx of the same MPI first on the PATH"
  elif grep -q 'Read -1' <<<"$output"; then
    problem "this container forbids ptrace, so sending a large message prints 'Read -1, expected'" \
      "export OMPI_MCA_btl_vader_single_copy_mechanism=none"
  elif grep -q '^verified' <<<"$output"; then
    ok "mpirun matches the programs, and two ranks can exchange messages"
  elif [ ${#settings[@]} -gt 0 ] && exchange "${settings[@]}" | grep -q '^verified'; then
    problem "two ranks can exchange messages only without your ${settings[*]}: $(first_line "$output")" "unset ${settings[*]}"
  else
    problem "two ranks could not exchange messages: $(first_line "$output")" "$learn 1 -n 2   # shows all the output"
  fi
}

examine_plain_mpirun() {
  local cores file
  cores=$(nproc | grep -x '[0-9]\+')
  printf -v file %q "$root/tools/learn/mpi.env"
  if { [ "$cores" -lt 4 ] && [ -z "${OMPI_MCA_rmaps_base_oversubscribe:-${PRTE_MCA_rmaps_default_mapping_policy:-}}" ]; } ||
    { [ "$EUID" -eq 0 ] && [ -z "${OMPI_ALLOW_RUN_AS_ROOT:-}" ]; }; then
    note "$cores cores, user $(id -un): a plain mpirun refuses root, and more ranks than cores (./learn allows both)" "export \$(grep -v '^#' $file)"
  else
    ok "$cores cores, and user $(id -un) may run mpirun"
  fi
}

examine_gpu_memory() {
  local settings
  settings=$(ompi_info --parsable --all)
  if grep -q 'mpi_built_with_cuda_support:value:true' <<<"$settings" &&
    ! grep -q ':opal_cuda_support:value:false' <<<"$settings"; then
    ok "this Open MPI accepts GPU memory (it is CUDA-aware)"
  else
    note "this Open MPI does not accept GPU memory (it is not CUDA-aware), so the programs send through pinned host memory; NCCL is not affected"
  fi
}

examine_shared_memory() {
  # Open MPI needs more than a container's 64 MiB. Without access from GPU to GPU, NCCL adds some
  # 10 MB for each of its channels (NVIDIA/nccl#525).
  local free=-1 needed=65
  if [ "$(count_gpus)" -ge 2 ]; then needed=512; fi
  if [ -w /dev/shm ]; then free=$(df -k --output=avail /dev/shm | tail -n 1 | grep -o '[0-9]\+'); fi
  if [ "$free" -lt 0 ]; then
    problem "/dev/shm is missing or not writable, so Open MPI's ranks on one host cannot exchange messages through it" \
      "$(as_root "mkdir -p /dev/shm && mount -t tmpfs tmpfs /dev/shm")"
  elif [ "$free" -lt $((needed * 1024)) ]; then
    problem "/dev/shm has $((free / 1024)) MiB free, less than $needed" "$(as_root "mount -o remount,size=1g /dev/shm")   # in Docker: docker run --shm-size=1g"
  else
    ok "/dev/shm has $((free / 1024)) MiB free"
  fi
}

count_gpus() { { nvidia-smi -L 2>/dev/null || true; } | grep -c '^GPU' || true; }

examine_gpus() {
  local gpus
  gpus=$(count_gpus)
  if [ "$gpus" -eq 0 ]; then
    note "no GPU: everything runs on the CPU"
  elif [ "$gpus" -lt 4 ]; then
    note "$gpus GPU(s): with more ranks than that, several ranks share a GPU and gradients travel through host memory" "$learn 5 -n $gpus   # one GPU per rank, with NCCL"
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
  case $cuda in
    [0-9]*) ok "CUDA Toolkit $cuda" ;;
    "not found") note "no CUDA Toolkit: the programs are built for the CPU" ;;
    *) note "CUDA: ${cuda:-not examined, because this needs CMake 3.25 or newer}" ;;
  esac
  header=$(ls -U "$(from_cache NCCL_INCLUDE_DIR:PATH 2>/dev/null)/nccl.h" \
    "${CUDA_HOME:-/usr/local/cuda}/include/nccl.h" /usr/include/nccl.h 2>/dev/null | head -n 1 || true)
  if [ -n "$header" ]; then
    version=$(sed -n 's/^#define NCCL_\(MAJOR\|MINOR\|PATCH\) \([0-9]*\).*/\2/p' "$header" | paste -sd.)
    if [ "$(printf '%s\n' 2.18 "$version" | sort -V | head -n 1)" = 2.18 ]; then ok "NCCL $version"
    else problem "NCCL $version is older than 2.18" "$(install_line libnccl2 libnccl-dev)"; fi
  elif [ "$gpus" -gt 0 ]; then
    problem "NCCL is not installed" "$(install_line libnccl2 libnccl-dev)   # from NVIDIA's repository"
  else
    note "no NCCL: it is not needed without a GPU"
  fi
}

# Each check runs in a shell of its own. A tool that is missing or fails ends it, and the next one begins.
examine_all() {
  local check said status
  exec 3>&1
  for check in packages tools build messages plain_mpirun gpu_memory shared_memory gpus; do
    set +e
    said=$(set -e; "examine_$check" 2>&1 >&3)
    status=$?
    [ $status -eq 0 ] || note "not checked: ${check//_/ }: $(first_line "$said")"
  done
}

run_doctor() {
  local line problems=0 rest=""
  while IFS= read -r line; do
    echo "$line"
    case $line in
      "${red}problem"*) problems=$((problems + 1)) ;;
      *" not checked: "*) rest="; not everything was checked" ;;
    esac
  done < <(examine_all)
  echo
  if [ $problems -eq 0 ]; then echo "no problems found$rest"; else echo "problems to fix: $problems$rest"; return 1; fi
}
