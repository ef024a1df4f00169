#!/usr/bin/env bash
# Runs the batch script of docs/running.md under a Slurm of its own, whose two nodes are this host.
# slurm_test.sh SOURCE_DIR BUILD_DIR
set -uo pipefail
root=$1
build=$2
failed=0
skip() { echo "skipped: $*"; exit 0; }
[ "$(id -u)" -eq 0 ] || skip "only root can start Slurm's daemons"
command -v slurmctld >/dev/null || skip "Slurm is not installed (package slurm-wlm)"
# expect WHAT CONDITION...
expect() { if "${@:2}"; then echo "ok: $1"; else echo "FAILED: $1"; failed=1; fi; }
wait_for() {  # wait_for WHAT CONDITION...: ends the test if that takes more than 120 seconds
  local deadline=$((SECONDS + 120))
  until "${@:2}"; do
    [ $SECONDS -lt $deadline ] || { echo "FAILED: $1"; squeue; tail -n 20 ./*.log; exit 1; }
    sleep 0.1
  done
  echo "ok: $1"
}

work=$(mktemp -d) || exit 1
export SLURM_CONF=$work/slurm.conf
daemons=()
# The processes that run in the folder of this test: daemons, batch scripts and ranks.
ours() { find /proc/[0-9]* -maxdepth 1 -name cwd -lname "$work*" 2>/dev/null | cut -d/ -f3; }
jobs_are_left() { squeue --noheader 2>/dev/null | grep -q .; }
end_all() {
  cd /
  local deadline=$((SECONDS + 30)) process
  scancel --user=root 2>/dev/null
  while jobs_are_left && [ $SECONDS -lt $deadline ]; do sleep 0.1; done
  [ ${#daemons[@]} -eq 0 ] || kill "${daemons[@]}" 2>/dev/null
  while [ -n "$(ours)" ] && [ $SECONDS -lt $deadline ]; do sleep 0.1; done
  for process in $(ours); do kill -KILL "$process"; done
  wait  # for the daemons
  rm -rf "$work"
}
trap end_all EXIT
trap 'exit 1' INT TERM
cd "$work" || exit 1

port=$((20000 + RANDOM % 10000))  # lower than the ports that the kernel chooses for others
new_port() { ((++port)); while (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do ((++port)); done; }
host=$(hostname -s)
# Open MPI names its shared memory after the job's number, so two tests must not both have job 1.
settings=(
  "FirstJobId=$port" ClusterName=test "SlurmctldHost=$host(127.0.0.1)" SlurmUser=root MailProg=/bin/true
  AuthType=auth/none CredType=cred/none AuthInfo=cred_expire=5  # a requeued job waits for 5 s
  SchedulerType=sched/builtin SchedulerParameters=sched_interval=1 SelectType=select/cons_tres
  SelectTypeParameters=CR_CPU SlurmdParameters=config_overrides TaskPlugin=task/none
  ProctrackType=proctrack/linuxproc "SlurmctldLogFile=$work/slurmctld.log"
  "SlurmdLogFile=$work/%n.log" "SlurmctldPidFile=$work/slurmctld.pid" "SlurmdPidFile=$work/%n.pid"
  "StateSaveLocation=$work/state" "SlurmdSpoolDir=$work/%n" "TmpFS=$work/%n")
printf '%s\n' "${settings[@]}" >slurm.conf
mkdir state node1 node2
for node in node1 node2; do
  new_port; echo "NodeName=$node NodeHostname=$host NodeAddr=127.0.0.1 Port=$port CPUs=2" >>slurm.conf
done
new_port; printf '%s\n' "SlurmctldPort=$port" "PartitionName=all Nodes=ALL Default=YES" >>slurm.conf
slurmctld -D >slurmctld.out 2>&1 & daemons+=($!)
for node in node1 node2; do slurmd -D -N $node >$node.out 2>&1 & daemons+=($!); done
both_idle() { [ "$(sinfo --noheader --Node --format=%T 2>/dev/null | grep -cx idle)" -eq 2 ]; }
wait_for "Slurm has two idle nodes" both_idle
srun --mpi=list 2>&1 | grep -qw pmix || skip "this Slurm has no PMIx"

ln -s "$build" build
awk '/^<!--.*slurm_test/ {fences = 1; next} fences && /^```/ {++fences; next} fences == 2' \
  "$root/docs/running.md" >train.sh
expect "docs/running.md has a batch script" grep -q '^srun .*bin/ddp_training' train.sh
if command -v shellcheck >/dev/null; then expect "shellcheck accepts it" shellcheck train.sh; fi
srun --nodes=1 --ntasks=2 --mpi=pmix build/bin/send_recv >ring.txt
expect "srun starts one run of two ranks" grep -q '^2 ranks' ring.txt

has() { scontrol show job "$1" | grep -qE "$2"; }  # has JOB PATTERN
trains() { grep -q '"step":100,' "train-$1.jsonl" 2>/dev/null; }
job=(train.sh --layers "784,64,10" --epochs)
one_rank=(sbatch --parsable --nodes=1 --ntasks-per-node=1)
two_ranks=(sbatch --parsable --nodes=2 --ntasks-per-node=1)

limited=$("${one_rank[@]}" --time=2 "${job[@]}" 1000000)  # trains while the rest is tested

wrong=$("${one_rank[@]}" "${job[@]}" none)
wait_for "a wrong flag ends the job" has "$wrong" 'JobState=FAILED'
expect "a wrong flag is not tried again" has "$wrong" 'Restarts=0 .*ExitCode=2:0'

cancelled=$("${one_rank[@]}" "${job[@]}" 1000000)
wait_for "a job trains" trains "$cancelled"
scancel "$cancelled"
wait_for "scancel ends it for good" has "$cancelled" 'JobState=CANCELLED'
wait_for "a cancelled job leaves a checkpoint" test -e "train-$cancelled.safetensors"

whole=$("${two_ranks[@]}" "${job[@]}" 100)
wait_for "an undisturbed job ends" has "$whole" 'JobState=COMPLETED'
cut=$("${two_ranks[@]}" "${job[@]}" 100)
wait_for "a second job trains" trains "$cut"
scancel --signal=TERM "$cut"
wait_for "a job with status 75 is requeued" has "$cut" 'Restarts=1'
wait_for "the requeued job ends" has "$cut" 'JobState=COMPLETED'
expect "its ranks ended with status 75" grep -q 'Exited with exit code 75' "train-$cut.log"
expect "it continued from its checkpoint" grep -q "^continues train-$cut" "train-$cut.log"
expect "it was stopped once" has "$cut" 'Restarts=1 .*ExitCode=0:0'
for kind in jsonl safetensors; do
  expect "both jobs wrote the same $kind" cmp "train-$whole.$kind" "train-$cut.$kind"
done

wait_for "a job is stopped before its time limit, and requeued" has "$limited" 'Restarts=[1-9]'
expect "it saved a checkpoint" grep -q '^stopped after step' "train-$limited.log"
expect "the limit itself did not stop it" test -z "$(grep 'TIME LIMIT' "train-$limited.log")"
exit $failed
