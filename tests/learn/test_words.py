"""What ./learn answers to its words, given an existing build."""

import os
import pathlib
import re
import signal
import subprocess

import pytest
from course import LEARN, Course
from programs import ROOT, built, command

pytestmark = built


@pytest.mark.parametrize(
    "words, status, pattern",
    [
        ("", 0, "^  5  N processes train one model .*05_ddp_training/README.md"),
        ("", 0, r"^next: \./learn "),
        ("help", 0, r"^\./learn test "),
        ("1", 0, r"^  rank 3 .*6000 +6004 +6008 +6012$"),
        ("1 -n 3", 0, r"^  rank 2 .*3000 +3003 +3006 +3009$"),
        ("1 -n 3", 0, "^mpirun -np 3 .*bin/send_recv$"),
        ("perf 1 -n 2 -- --max-bytes 1024 --json", 0, '"act":"fit"'),
        ("2 -n 2 -- --algorithm tree --json 2>/dev/null", 0, r'\A\{.*"act":"tree"'),
        ("2 -n 2 -- --root 9", 2, "^error: --root: 9 is not between 0 and 1"),
        ("1 --json", 2, "^error: --json: unknown"),
        ("1 -n", 2, "^error: -n: needs"),
        ("break 1", 0, "^shared-variable +ranks share memory"),
        ("break 1 shared-variable -n 2", 0, "^verified: the symptom appeared"),
        ("break 1 shared-variable -- --threads 0", 2, "^error: --threads: "),
        ("more", 0, "^sending_less +bf16"),
        ("more tensor_parallel -n 2 -- --steps 2", 0, "^verified"),
        ("more x", 2, "^error: more: 'x' is not one of: tensor_parallel pipeline_parallel sending_less gpt"),
        ("break 1 x", 2, "^error: break: lesson 1 has no experiment 'x'; ./learn break 1 lists them$"),
        ("doctor", 0, "^(ok|note) +.*Open MPI"),
        ("doctor", 0, "packages: all|apt-get install"),
        ("6", 2, "^error: 6: there is no such lesson; they are 1 to 5$"),
        ("help >/dev/full", 2, r"\Aerror: standard output cannot be written.*\n\Z"),
        ("doctor >/dev/full", 2, r"\Aerror: standard output cannot be written.*\n\Z"),
        ("help >&-", 2, r"\Aerror: standard output cannot be written.*\n\Z"),
        ("1 -- --json >&-", 2, r"\Aerror: standard output cannot be written.*\n\Z"),  # before it builds
    ],
)
def test_the_answer_to(words: str, status: int, pattern: str) -> None:
    result = command(f"{ROOT}/learn {words}", "/", **LEARN)  # any folder will do
    assert result.status == status, result.out + result.err
    assert re.search(pattern, result.out + result.err, re.M), result.out + result.err


@pytest.mark.usefixtures("own_mounts")
@pytest.mark.parametrize("size, status", [("1m", 0), ("4k", 1)])
def test_lines_are_not_lost_silently(size: str, status: int, tmp_path: pathlib.Path) -> None:
    result = command(
        f"unshare -m sh -c 'mount -t tmpfs -o size={size} tmpfs {tmp_path} && "
        f"{ROOT}/learn 4 -- --size 3000 --json >{tmp_path}/out'",
        **LEARN,
    )
    assert result.status == status and ("No space left" in result.err) == (status == 1), result


def test_ctrl_c_leaves_nothing_running() -> None:
    # A terminal sends SIGINT to all processes that ./learn has started: its process group. A test
    # that runs in the background may have inherited that SIGINT is ignored.
    words = ["5", "-n", "2", "--", "--epochs", "1000", "--seed", "424242"]
    with subprocess.Popen(
        [ROOT / "learn", *words],
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **LEARN},
    ) as job:
        assert job.stdout and any("epoch 1 " in line for line in job.stdout)
        os.killpg(job.pid, signal.SIGINT)
        job.stdout.read()
    assert job.returncode != 0
    assert command("pgrep -f 'ddp_training .*--seed 42424[2]'").out == ""


def test_a_request_to_stop_is_passed_on_and_the_status_is_the_programs(course: Course) -> None:
    course.program("path/mpirun", "trap 'echo it stops; exit 75' TERM; echo it runs; while :; do sleep 0.1; done")
    job = course.start("1")
    assert job.stdout and any(line == "it runs\n" for line in job.stdout)
    job.terminate()
    assert job.communicate(timeout=120)[0] == "it stops\n" and job.returncode == 75
