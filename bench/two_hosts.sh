#!/usr/bin/env bash
# Two hosts on one machine: runs a program under mpirun, with N ranks in each of two network
# namespaces that are joined by a virtual cable.
#
#   two_hosts.sh [--ranks-per-host N | --ranks N,N,...] [--on HOST "COMMAND"] [--rate RATE]
#                [--drop-when FILE] [--count-bytes] [--round-robin] PROGRAM [FLAGS]
#
#   --ranks-per-host N   1 if not given
#   --ranks N,N,...      the ranks of host-a, host-b, ...; more than two hosts share a switch
#   --on HOST "COMMAND"  starts the ranks of HOST by "COMMAND ...", such as "taskset -c 0" (variables
#                        that host-a sets reach all hosts)
#   --rate RATE          speed of the cable in tc's notation (1gbit); unlimited if not given
#   --drop-when FILE     unplugs the cable as soon as FILE exists
#   --count-bytes        at the end, prints how many bytes the cable carried
#   --round-robin        ranks 0, 2, ... on one host and ranks 1, 3, ... on the other
#
# The exit status is mpirun's. The script needs root, and a kernel or container that allows
# namespaces. If either is missing, it prints "skipped: " and the reason, and exits with 77.
#
# The namespaces, the cable, all processes, /run and /dev/shm belong to a separate process tree, and
# the script changes nothing outside that tree. The kernel removes the tree when its first process
# ends, so even kill -9 leaves nothing to clean up.
set -euo pipefail

addresses=(10.77.0.1 10.77.0.2 10.77.0.3 10.77.0.4)
names=(host-a host-b host-c host-d)

skip() {
  echo "skipped: two hosts on one machine: $*"
  exit 77
}

# --- Outside: start the tree ---------------------------------------------------------------------

outside() {
  local tool
  PATH=$PATH:/usr/sbin:/sbin
  [ "$(id -u)" -eq 0 ] || skip "needs root"
  for tool in ip:iproute2 tc:iproute2 unshare:util-linux setpriv:util-linux; do
    command -v "${tool%:*}" >/dev/null ||
      skip "${tool%:*} is not installed (package ${tool#*:})"
  done
  local tree=(unshare --mount --uts --net --pid --fork --kill-child=KILL --mount-proc)
  local why
  why=$("${tree[@]}" true 2>&1) || skip "namespaces are not allowed here (${why:-unshare failed})"
  # If this shell ends, so does unshare (setpriv), and with it the first process (--kill-child).
  setpriv --pdeathsig KILL "${tree[@]}" "${BASH_SOURCE[0]}" --inside "$@" &
  local child=$!
  trap 'kill -KILL "$child" 2>/dev/null; exit 143' TERM INT HUP
  local status=0
  wait "$child" || status=$?
  exit "$status"
}

# --- Inside: two hosts and a cable ---------------------------------------------------------------

make_hosts() {
  local i
  for i in "${!ranks[@]}"; do
    ip netns add "${names[i]}"
    ip -n "${names[i]}" link set lo up
  done
  if [ ${#ranks[@]} -eq 2 ]; then
    ip -n "${names[0]}" link add cable type veth peer name cable netns "${names[1]}"
  else
    ip link add switch type bridge
    ip link set switch up
    for i in "${!ranks[@]}"; do
      ip link add "port$i" type veth peer name cable netns "${names[i]}"
      ip link set "port$i" master switch up
    done
  fi
  for i in "${!ranks[@]}"; do
    ip -n "${names[i]}" address add "${addresses[i]}/24" dev cable
    ip -n "${names[i]}" link set cable up
    # With a larger burst the cable would save up credit while the ranks compute, and then send a
    # whole message at once. With a smaller burst the kernel would have to serve the cable more
    # often than a busy machine can.
    if [ -n "$rate" ]; then
      tc -n "${names[i]}" qdisc add dev cable root tbf rate "$rate" burst 128kb latency 400ms
    fi
  done
}

# Writes the command that mpirun runs instead of ssh: AGENT ADDRESS COMMAND. It starts a daemon,
# which starts the host's ranks.
write_agent() {
  {
    echo '#!/bin/sh'
    echo 'case $1 in'
    for i in "${!ranks[@]}"; do
      echo "${addresses[i]}) name=${names[i]} start='${starts[${names[i]}]:-}' ;;"
    done
    echo '*) echo "no host $1" >&2; exit 1 ;;'
    echo 'esac'
    echo 'shift'
    # $* is a line for a shell; it may begin with variables.
    echo 'exec $start ip netns exec "$name" unshare --uts sh -c "hostname $name; $*"'
  } >/run/agent
  chmod +x /run/agent
}

# Sets variables for every version: Open MPI 4 and version 5's ranks read OMPI_MCA_*, while
# version 5's launcher reads PRTE_MCA_*. Without the binding policy "none", the first rank of
# each host would be bound to core 0.
set_mpi_environment() {
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  export OMPI_MCA_plm_rsh_agent=/run/agent PRTE_MCA_plm_ssh_agent=/run/agent
  export OMPI_MCA_pml=ob1 OMPI_MCA_btl='^openib,ofi,uct,usnic'
  export OMPI_MCA_btl_tcp_if_include=10.77.0.0/24 OMPI_MCA_oob_tcp_if_include=10.77.0.0/24
  export PRTE_MCA_prte_if_include=10.77.0.0/24
  export OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none
  export OMPI_MCA_rmaps_base_oversubscribe=1
  export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
  export OMPI_MCA_mpi_yield_when_idle=${OMPI_MCA_mpi_yield_when_idle:-1}
  export OMPI_MCA_orte_tmpdir_base=/run PRTE_MCA_prte_tmpdir_base=/run
  # Gloo, which connects PyTorch's ranks, needs to know where they meet and which interface they
  # use.
  export MASTER_ADDR=${addresses[0]} MASTER_PORT=29500 GLOO_SOCKET_IFNAME=cable
}

drop_cable() {  # drop_cable FILE
  until [ -e "$1" ]; do sleep 0.02; done
  echo "two_hosts: the cable is unplugged" >&2
  ip -n "${names[1]}" link set cable down
}

count_bytes() {
  local sent
  sent=$(ip netns exec "${names[0]}" cat /sys/class/net/cable/statistics/{tx,rx}_bytes)
  echo "two_hosts: the cable carried ${sent/$'\n'/ bytes to ${names[1]} and } to ${names[0]}"
}

inside() {
  mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /dev/shm || skip "mounts are not allowed here"
  make_hosts >/run/why 2>&1 &  # set -e works only in the background
  wait $! || skip "separate networks are not allowed here ($(cat /run/why))"
  write_agent
  set_mpi_environment
  [ -z "$drop_when" ] || drop_cable "$drop_when" &
  # The first process of a process tree receives only the signals that it handles.
  trap 'exit 143' TERM INT HUP
  local hosts='' i
  for i in "${!ranks[@]}"; do hosts+=,${addresses[i]}:${ranks[i]}; done
  # shellcheck disable=SC2086  # a command and its arguments
  ${starts[${names[0]}]:-} ip netns exec "${names[0]}" unshare --uts \
    sh -c "hostname ${names[0]}; exec \"\$@\"" sh \
    mpirun -np $((${ranks[*]/%/+}0)) --host "${hosts#,}" "${placement[@]}" -x MASTER_ADDR -x MASTER_PORT -x GLOO_SOCKET_IFNAME "$@" &
  local status=0
  wait $! || status=$?
  [ -z "$count" ] || count_bytes
  exit "$status"  # which ends everything that mpirun has left behind
}

usage() {
  sed -n '2,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
  exit 2
}

where=outside
ranks=(1 1)
declare -A starts=()
rate=
drop_when=
count=
placement=()
arguments=("$@")
while [ $# -gt 0 ]; do
  case $1 in
    --inside) where=inside; shift ;;
    --ranks-per-host) ranks=("$2" "$2"); shift 2 ;;
    --ranks) IFS=, read -ra ranks <<<"$2"; shift 2 ;;
    --on) starts[$2]=$3; shift 3 ;;
    --rate) rate=$2; shift 2 ;;
    --drop-when) drop_when=$2; shift 2 ;;
    --count-bytes) count=1; shift ;;
    --round-robin) placement=(--map-by node); shift ;;
    -*) usage ;;
    *) break ;;
  esac
done
[ $# -gt 0 ] || usage
if [ -n "$drop_when" ] && [ "$where" = outside ] && [ -e "$drop_when" ]; then
  echo "error: --drop-when: $drop_when already exists" >&2
  exit 2
fi
if [ "$where" = outside ]; then outside "${arguments[@]}"; else inside "$@"; fi
