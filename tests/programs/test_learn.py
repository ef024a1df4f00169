"""./learn does what its help says, given an existing build."""
import os
import re
import shutil
import signal
import subprocess

import pytest

from programs import BUILD, ROOT, command

LEARN = {"LEARN_BUILD_DIR": str(BUILD)}


@pytest.mark.parametrize("words, status, pattern", [
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
    ("break 1 x", 2, "^error: NAME: 'x' is not one of"),
    ("doctor", 0, "^(ok|note) +.*Open MPI"),
    ("doctor", 0, "packages: all|apt-get install"),
    ("6", 2, "^error: 6: no such command"),
    ("help >/dev/full", 2, r"\Aerror: standard output cannot be written.*\n\Z"),
    ("doctor >/dev/full", 2, r"\Aerror: standard output cannot be written.*\n\Z")])
def test_the_answer_to(words, status, pattern):
    result = command(f"{ROOT}/learn {words}", "/", **LEARN)  # any folder will do
    assert result.status == status, result.out + result.err
    assert re.search(pattern, result.out + result.err, re.M), result.out + result.err


def with_cuda(words, folder, script):
    """The output, in one line, of a command that finds this script in place of four nvccs."""
    folders = {name: f"{folder}/{name}" for name in ["CUDACXX", "PATH", "CUDA_PATH", "CUDA_HOME"]}
    for nvcc in (folder / name / "bin/nvcc" for name in folders):
        nvcc.parent.mkdir(parents=True, exist_ok=True)
        nvcc.write_text("#!/bin/sh\n" + script)
        nvcc.chmod(0o755)
    result = command(words, folder, **{
        **folders, "CUDACXX": f"{folder}/CUDACXX/bin/nvcc", "CUDAHOSTCXX": "",
        "PATH": f"{folder}/PATH/bin:{os.environ['PATH']}", "LEARN_BUILD_DIR": f"{folder}/build"})
    return " ".join((result.out + result.err).split())


OLD = "echo release 11.8"
IS_OLD = r"CUDA 11\.8 \(.*/PATH/bin/nvcc\) is older than 12\.0: for GPUs, set CUDACXX "


@pytest.mark.parametrize("unset, script, fault", [
    ("NOTHING", "touch try.o", r"/CUDACXX/bin/nvcc cannot .*\(.*undefined reference.*\): "),
    ("CUDACXX", OLD, IS_OLD),
    ("CUDACXX PATH", "exec /missing/nvcc", r"/CUDA_PATH/bin/nvcc .*\(.*/missing/nvcc: not found\): "),
    ("CUDACXX PATH CUDA_PATH", "exit 3", r"/CUDA_HOME/bin/nvcc .*\(exit status 3\): .* CUDAHOSTCXX "),
    ("CUDACXX", "echo note; echo 'h:9: error: #error -- no GNU x; y'; exit 1", r"\(no GNU x\): "),
    ("CUDACXX", "echo 'nvcc fatal   : Could not open it'; exit 1", r"\(Could not open it\): ")])
def test_a_cuda_toolkit_that_does_not_work(unset, script, fault, tmp_path):
    said = with_cuda(f"unset {unset}; {shutil.which('cmake')} -DCMAKE_CXX_COMPILER=c++ "
                     f"-P {ROOT}/cmake/TryCuda.cmake", tmp_path, script)
    assert re.search(f"^CUDA: off .*{fault}.* and remove the build folder$", said), said


def test_the_build_without_a_cuda_toolkit_that_works(tmp_path):
    configure = f"unset CUDACXX; cmake -S {ROOT} -B build -DDIST_LESSON=1 -DDIST_CUDA="
    said = with_cuda(configure + "ON", tmp_path, OLD)
    assert re.search("CMake Error .* DIST_CUDA=ON, but " + IS_OLD, said), said
    said = with_cuda(configure + "AUTO && grep -r DIST_WITH_CUDA=0 build", tmp_path, OLD)
    assert re.search(f"-- CUDA: off .*{IS_OLD}.*; NCCL: off .*DIST_WITH_CUDA=0", said), said
    assert re.search("note CUDA: off .*" + IS_OLD, with_cuda(f"{ROOT}/learn doctor", tmp_path, OLD))


def with_cards(folder, *cards):
    """A PATH on which nvidia-smi lists GPUs with these compute capabilities."""
    tool = folder / "bin/nvidia-smi"
    tool.parent.mkdir()
    lines = [f"echo {card}" if card else "true" for card in cards]
    names = [f"echo 'GPU {i}: a card'" for i in range(len(cards))]
    tool.write_text("\n".join(["#!/bin/sh", 'if [ "$1" = -L ]; then', *names, "else", *lines, "fi"]))
    tool.chmod(0o755)
    return f"{tool.parent}:{os.environ['PATH']}"


# CUDAARCHS, the cards that are found, and the architectures for which nvcc compiles: sm_N is for
# cards N, and compute_N can be compiled on newer ones.
@pytest.mark.parametrize("asked, cards, compiled", [
    ("", [], ["sm_75", "sm_80", "sm_90", "compute_90"]),
    ("", ["9.0", "8.0"], ["sm_90", "sm_80", "compute_75"]), ("86-real", ["9.0"], ["sm_86"])])
def test_device_code_is_for_the_cards_and_can_be_compiled_for_others(asked, cards, compiled, tmp_path):
    configure = f"cmake --preset default -B {tmp_path}/build -DDIST_TESTS=OFF -DCMAKE_EXPORT_COMPILE_COMMANDS=ON"
    result = command(configure, ROOT, CUDAARCHS=asked, PATH=with_cards(tmp_path, *cards))
    assert result.status == 0, result.err
    if off := re.search("^-- CUDA: (off|not found).*", result.out, re.M):
        pytest.skip(off[0])
    commands = (tmp_path / "build/compile_commands.json").read_text()
    codes = {code for each in re.findall(r",code=\[?([\w,]+)", commands) for code in each.split(",")}
    assert {*compiled} <= codes and not any(code.startswith("sm_") for code in codes - {*compiled}), codes


@pytest.mark.skipif(command("unshare -m true").status != 0, reason="mounts are not allowed here")
@pytest.mark.parametrize("size, cards, enough", [
    ("64m", 0, False), ("66m", 0, True), ("66m", 1, True), ("66m", 2, False), ("513m", 2, True)])
def test_doctor_asks_for_the_shared_memory_that_is_needed(size, cards, enough, tmp_path):
    path = with_cards(tmp_path, *["9.0"] * cards)
    result = command(f"unshare -m sh -c 'mount -t tmpfs -o size={size} tmpfs /dev/shm && "
                     f"{ROOT}/learn doctor'", **LEARN, PATH=path)
    found = re.search(r"^(\w+) +/dev/shm has (\d+) MiB free", result.out, re.M)
    assert (found[1] == "ok") == enough, result.out


@pytest.mark.skipif(command("unshare -m true").status != 0, reason="mounts are not allowed here")
@pytest.mark.parametrize("size, status", [("1m", 0), ("4k", 1)])
def test_lines_are_not_lost_silently(size, status, tmp_path):
    result = command(f"unshare -m sh -c 'mount -t tmpfs -o size={size} tmpfs {tmp_path} && "
                     f"{ROOT}/learn 4 -- --size 3000 --json >{tmp_path}/out'", **LEARN)
    assert result.status == status and ("No space left" in result.err) == (status == 1), result


def test_doctor_in_a_folder_that_has_been_deleted(tmp_path):
    result = command(f"mkdir x; cd x; rmdir ../x; {ROOT}/learn doctor", tmp_path, **LEARN)
    assert result.status == 0 and result.out.endswith("\nno problems found\n"), result


def test_ctrl_c_leaves_nothing_running():
    # A terminal sends SIGINT to all processes that ./learn has started: its process group. A test
    # that runs in the background may have inherited that SIGINT is ignored.
    words = ["5", "-n", "2", "--", "--epochs", "1000", "--seed", "424242"]
    with subprocess.Popen([ROOT / "learn", *words], text=True, start_new_session=True,
                          preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, env={**os.environ, **LEARN}) as job:
        assert any("epoch 1 " in line for line in job.stdout)
        os.killpg(job.pid, signal.SIGINT)
        job.stdout.read()
    assert job.returncode != 0
    assert command("pgrep -f 'ddp_training .*--seed 42424[2]'").out == ""
