#!/usr/bin/env bash
# Two hosts on one machine: runs a program under mpirun on N + N ranks of two network namespaces
# that a virtual cable joins.
#
#   two_hosts.sh [--ranks-per-host N] [--rate RATE] [--drop-when FILE] PROGRAM [FLAGS]
#
#   --ranks-per-host N   1 if not given
#   --rate RATE          speed of the cable as tc writes it (1gbit); otherwise as fast as it goes
#   --drop-when FILE     takes the cable out as soon as FILE is there
#
# The exit status is mpirun's. Where this cannot be had (it needs root, and a kernel or container
# that allows namespaces), it says "skipped: " and why, and exits with 77.
#
# Nothing outside is touched, and nothing stays behind. The namespaces, the cable, all processes,
# /run and /dev/shm are those of a process tree of their own, which the kernel takes away with its
# first process, however that one ends. Therefore no clean-up can be missed by a kill -9.
set -euo pipefail

addresses=(10.77.0.1 10.77.0.2)
names=(host-a host-b)

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
  why=$("${tree[@]}" true 2>&1) || skip "no namespaces here (${why:-unshare failed})"
  # Ends with this shell (setpriv), and its first process ends with it (--kill-child).
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
  for i in 0 1; do
    ip netns add "${names[i]}"
    ip -n "${names[i]}" link set lo up
  done
  ip -n "${names[0]}" link add cable type veth peer name cable netns "${names[1]}"
  for i in 0 1; do
    ip -n "${names[i]}" address add "${addresses[i]}/24" dev cable
    ip -n "${names[i]}" link set cable up
    # With a large burst the cable saves up while the ranks compute, and then carries a whole
    # message at once; with a small one it needs attention more often than a busy machine gives.
    if [ -n "$rate" ]; then
      tc -n "${names[i]}" qdisc add dev cable root tbf rate "$rate" burst 128kb latency 400ms
    fi
  done
}

# What mpirun starts instead of ssh: AGENT ADDRESS COMMAND.
write_agent() {
  cat >/run/agent <<AGENT
#!/bin/sh
# mpirun's ssh: AGENT ADDRESS COMMAND
case \$1 in
  ${addresses[0]}) name=${names[0]} ;;
  ${addresses[1]}) name=${names[1]} ;;
  *) echo "no host \$1" >&2; exit 1 ;;
esac
shift
exec ip netns exec "\$name" unshare --uts sh -c "hostname \$name; \$*"
AGENT
  chmod +x /run/agent
}

# By the environment, which every version of mpirun reads: OMPI_MCA_ Open MPI 4 and the ranks of 5,
# PRTE_MCA_ the launcher of 5. Without "bind none" the first rank of each host gets core 0.
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
  # For Gloo, which PyTorch's ranks talk through: where they meet, and through which interface.
  export MASTER_ADDR=${addresses[0]} MASTER_PORT=29500 GLOO_SOCKET_IFNAME=cable
}

drop_cable() {  # drop_cable FILE
  until [ -e "$1" ]; do sleep 0.02; done
  echo "two_hosts: the cable is out" >&2
  ip -n "${names[1]}" link set cable down
}

inside() {
  mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /dev/shm || skip "no mounts here"
  make_hosts >/run/why 2>&1 &  # in the background, where set -e holds
  wait $! || skip "no network of its own here ($(cat /run/why))"
  write_agent
  set_mpi_environment
  [ -z "$drop_when" ] || drop_cable "$drop_when" &
  # The first process of a tree gets no signal that it does not handle.
  trap 'exit 143' TERM INT HUP
  ip netns exec "${names[0]}" unshare --uts sh -c "hostname ${names[0]}; exec \"\$@\"" sh \
    mpirun -np $((2 * ranks)) --host "${addresses[0]}:$ranks,${addresses[1]}:$ranks" \
    -x MASTER_ADDR -x MASTER_PORT -x GLOO_SOCKET_IFNAME "$@" &
  local status=0
  wait $! || status=$?
  exit "$status"  # and all that mpirun has left behind ends here
}

usage() {
  sed -n '2,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
  exit 2
}

where=outside
ranks=1
rate=
drop_when=
arguments=("$@")
while [ $# -gt 0 ]; do
  case $1 in
    --inside) where=inside; shift ;;
    --ranks-per-host) ranks=$2; shift 2 ;;
    --rate) rate=$2; shift 2 ;;
    --drop-when) drop_when=$2; shift 2 ;;
    -*) usage ;;
    *) break ;;
  esac
done
[ $# -gt 0 ] || usage
if [ -n "$drop_when" ] && [ "$where" = outside ] && [ -e "$drop_when" ]; then
  echo "error: --drop-when: $drop_when is there already" >&2
  exit 2
fi
if [ "$where" = outside ]; then outside "${arguments[@]}"; else inside "$@"; fi
