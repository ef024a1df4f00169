"""The batch script of docs/running.md, under a Slurm of its own whose two nodes are this host."""

from __future__ import annotations

import os
import pathlib
import random
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence

import pytest
from programs import BUILD, ROOT, command

NODES = ["node1", "node2"]


def wait_for(
    what: str, condition: Callable[[], object], why_not: Callable[[], str] = str, seconds: float = 600
) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what}\n{why_not()}"
        time.sleep(0.1)  # Slurm tells nobody what has happened


def free_ports(count: int) -> list[int]:
    """Ports lower than those that the kernel chooses for others."""
    found: list[int] = []
    first = random.randrange(20000, 30000)
    while len(found) < count:
        first += 1
        with socket.socket() as free:
            if free.connect_ex(("127.0.0.1", first)) != 0:
                found.append(first)
    return found


# {at}: the folder. Open MPI names its shared memory after the job's number, so two tests must not
# both have job 1. A requeued job waits for cred_expire's 5 s.
SETTINGS = """
    FirstJobId={ports[0]} ClusterName=test SlurmctldHost={host}(127.0.0.1) SlurmctldPort={ports[0]}
    SlurmUser=root MailProg=/bin/true AuthType=auth/none CredType=cred/none AuthInfo=cred_expire=5
    SchedulerType=sched/builtin SchedulerParameters=sched_interval=1 SelectType=select/cons_tres
    SelectTypeParameters=CR_CPU SlurmdParameters=config_overrides TaskPlugin=task/none
    ProctrackType=proctrack/linuxproc SlurmctldLogFile={at}/slurmctld.log SlurmdLogFile={at}/%n.log
    SlurmctldPidFile={at}/slurmctld.pid SlurmdPidFile={at}/%n.pid StateSaveLocation={at}/state
    SlurmdSpoolDir={at}/%n TmpFS={at}/%n"""
NODE = "NodeName={} NodeHostname={} NodeAddr=127.0.0.1 Port={} CPUs=2"
# The kernel ends all that the daemons have started when the first process of their tree ends.
TREE = "unshare --pid --fork --kill-child=KILL --mount-proc".split()


class Slurm:
    """The folder of the daemons and of the jobs, and the commands of a user."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        host, ports = socket.gethostname().split(".")[0], free_ports(3)
        settings = SETTINGS.format(at=folder, host=host, ports=ports).split()
        settings += [NODE.format(name, host, port) for name, port in zip(NODES, ports[1:])]
        settings += ["PartitionName=all Nodes=ALL Default=YES"]
        (folder / "slurm.conf").write_text("\n".join(settings) + "\n")
        for name in ("state", *NODES):
            (folder / name).mkdir()
        with (folder / "daemons.out").open("w") as out:
            self.daemons = subprocess.Popen(
                [*TREE, "sh", "-c", "slurmctld -D & slurmd -D -N node1 & slurmd -D -N node2 & wait"],
                cwd=folder,
                env=self.environment,
                stdout=out,
                stderr=out,
            )

    def says(self, *words: str) -> str:
        return subprocess.run(
            words, cwd=self.folder, env=self.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ).stdout

    def submit(self, nodes: int, *flags: str, options: Sequence[str] = ()) -> str:
        return self.says(
            "sbatch",
            "--parsable",
            f"--nodes={nodes}",
            "--ntasks-per-node=1",
            *options,
            "train.sh",
            "--layers",
            "784,64,10",
            "--epochs",
            *flags,
        ).strip()

    def shows(self, job: str, pattern: str) -> re.Match[str] | None:
        return re.search(pattern, self.says("scontrol", "show", "job", job))

    def describe(self, job: str) -> str:
        logs = [
            self.folder / name for name in (f"train-{job}.log", "slurmctld.log", *(f"{node}.log" for node in NODES))
        ]
        tails = [f"{log.name}:\n" + "\n".join(log.read_text().splitlines()[-15:]) for log in logs if log.exists()]
        return "\n".join([self.says("scontrol", "show", "job", job), self.says("sinfo", "--list-reasons"), *tails])

    def wait(self, job: str, pattern: str) -> None:
        wait_for(f"job {job}: {pattern}", lambda: self.shows(job, pattern), lambda: self.describe(job))

    def wait_until_completed(self, job: str) -> None:
        def is_completed() -> bool:
            state = self.says("scontrol", "show", "job", job)
            assert not re.search("JobState=(FAILED|TIMEOUT|NODE_FAIL|CANCELLED)|[Hh]eld", state), self.describe(job)
            return "JobState=COMPLETED" in state

        wait_for(f"job {job} is completed", is_completed, lambda: self.describe(job))

    def wait_until_trains(self, job: str) -> None:
        metrics = self.folder / f"train-{job}.jsonl"
        wait_for(f"job {job} trains", lambda: metrics.exists() and '"step":100,' in metrics.read_text())


def script_of_the_page() -> str:
    page = (ROOT / "docs/running.md").read_text()
    return re.findall(r"<!--[^\n]*test_slurm.*?```\n(.*?)```", page, re.S)[0]


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    if os.getuid() != 0:
        pytest.skip("only root can start Slurm's daemons")
    if not shutil.which("slurmctld"):
        pytest.skip("Slurm is not installed (package slurm-wlm)")
    if subprocess.run([*TREE, "true"]).returncode != 0:
        pytest.skip("a process tree of its own is not allowed here")
    slurm = Slurm(tmp_path_factory.mktemp("slurm"))
    try:
        wait_for(
            "two idle nodes",
            lambda: slurm.says("sinfo", "--noheader", "--Node", "--format=%T").split() == ["idle", "idle"],
        )
        if not re.search(r"\bpmix\b", slurm.says("srun", "--mpi=list")):
            pytest.skip("this Slurm has no PMIx")
        (slurm.folder / "build").symlink_to(BUILD)
        (slurm.folder / "train.sh").write_text(script_of_the_page())
        yield slurm
    finally:
        slurm.daemons.kill()
        slurm.daemons.wait()


# The script without Slurm: what its two commands are called with, and how it ends.
PRETENDED = """srun() { echo "srun $*" >>calls; return $STATUS; }
scontrol() { echo "scontrol $*" >>calls; }
"""


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="shellcheck is not installed")
def test_shellcheck_accepts_the_script(tmp_path: pathlib.Path) -> None:
    (tmp_path / "train.sh").write_text(script_of_the_page())
    result = command("shellcheck train.sh", tmp_path)
    assert (result.status, result.out) == (0, "")


@pytest.mark.parametrize("status, calls", [(0, "srun"), (1, "srun"), (75, "srun scontrol")])
def test_a_job_is_requeued_if_it_was_stopped_and_goes_on_from_its_checkpoint(
    status: int, calls: str, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "train.sh").write_text(PRETENDED + script_of_the_page())
    for file, resumes in ((tmp_path / "calls", False), (tmp_path / "train-7.safetensors", True)):
        file.write_text("")
        result = command("bash train.sh --epochs 3", tmp_path, STATUS=str(status), SLURM_JOB_ID="7")
        assert result.status == status, result
        called = (tmp_path / "calls").read_text().splitlines()
        assert [line.split()[0] for line in called[-len(calls.split()) :]] == calls.split()
        words = called[-len(calls.split())]
        assert words.endswith("--epochs 3") and (" --resume" in words) == resumes
    assert ("scontrol requeue 7" in called) == (status == 75)


@pytest.mark.long
def test_srun_starts_one_run_of_two_ranks(slurm: Slurm) -> None:
    assert slurm.says("srun", "--nodes=1", "--ntasks=2", "--mpi=pmix", "build/bin/send_recv").startswith("2 ranks")


@pytest.mark.long
def test_srun_without_pmix_is_refused_but_a_job_may_run_one_rank(slurm: Slurm) -> None:
    said = slurm.says("srun", "--nodes=1", "--ntasks=2", "--mpi=none", "build/bin/send_recv")
    # srun's own lines may come first.
    assert re.search("^error: Slurm's srun started 2 processes", said, re.M) and "verified" not in said
    for alone in ("build/bin/send_recv", "mpirun -np 1 build/bin/send_recv"):
        slurm.says("sbatch", "--nodes=1", "--ntasks=2", "--wait", "--output=one.log", "--wrap", alone)
        assert "verified" in (slurm.folder / "one.log").read_text()


@pytest.mark.long
def test_a_wrong_flag_is_not_tried_again(slurm: Slurm) -> None:
    wrong = slurm.submit(1, "none")
    slurm.wait(wrong, "JobState=FAILED")
    assert slurm.shows(wrong, "Restarts=0 .*ExitCode=2:0")


@pytest.mark.long
def test_a_cancelled_job_ends_for_good_and_leaves_a_checkpoint(slurm: Slurm) -> None:
    cancelled = slurm.submit(1, "1000000")
    slurm.wait_until_trains(cancelled)
    slurm.says("scancel", cancelled)
    slurm.wait(cancelled, "JobState=CANCELLED")
    wait_for("a checkpoint", (slurm.folder / f"train-{cancelled}.safetensors").exists)


@pytest.mark.long
def test_a_job_that_is_stopped_is_requeued_and_continues_as_if_nothing_had_happened(slurm: Slurm) -> None:
    whole = slurm.submit(2, "100")
    slurm.wait_until_completed(whole)
    cut = slurm.submit(2, "100")
    slurm.wait_until_trains(cut)
    slurm.says("scancel", "--signal=TERM", cut)
    slurm.wait(cut, "Restarts=1")
    slurm.wait_until_completed(cut)
    assert slurm.shows(cut, "Restarts=1 .*ExitCode=0:0")
    log = (slurm.folder / f"train-{cut}.log").read_text()
    assert "Exited with exit code 75" in log
    assert f"\ncontinues train-{cut}" in log
    for kind in ("jsonl", "safetensors"):
        assert (slurm.folder / f"train-{whole}.{kind}").read_bytes() == (
            slurm.folder / f"train-{cut}.{kind}"
        ).read_bytes()


@pytest.mark.long
def test_a_job_is_stopped_before_its_time_limit_and_requeued(slurm: Slurm) -> None:
    limited = slurm.submit(1, "1000000", options=["--time=2"])
    slurm.wait(limited, "Restarts=[1-9]")
    log = (slurm.folder / f"train-{limited}.log").read_text()
    assert "\nstopped after step" in log
    assert "TIME LIMIT" not in log
