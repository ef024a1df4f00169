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
    ("2 -n 2 -- --algorithm tree --json", 0, '"act":"tree"'),
    ("2 -n 2 -- --root 9", 2, "^error: --root: 9 is not between 0 and 1"),
    ("1 --json", 2, "^error: --json: unknown"),
    ("1 -n 0", 2, "^error: -n: must be a positive number of ranks, not '0'"),
    ("1 -n", 2, "^error: -n: needs"),
    ("break 1", 0, "^shared-variable +ranks share memory"),
    ("break 1 shared-variable -n 2", 0, "^verified: the symptom appeared"),
    ("break 1 shared-variable -- --threads 0", 2, "^error: --threads: "),
    ("break 1 x", 2, "^error: NAME: 'x' is not one of"),
    ("doctor", 0, "^(ok|note) +.*Open MPI"),
    ("doctor", 0, "packages: all|apt-get install"),
    ("6", 2, "^error: 6: no such command")])
def test_the_answer_to(words, status, pattern):
    result = command(f"{ROOT}/learn {words}", "/", **LEARN)  # any folder will do
    assert result.status == status, result.out + result.err
    assert re.search(pattern, result.out + result.err, re.M), result.out + result.err


# What stands for nvcc, and what is said about it.
OLD = "echo release 11.8"
TOOLKITS = [
    (OLD, r"CUDA 11\.8 \(/.*/bin/nvcc\) is older than 12\.0: for GPUs, set CUDACXX "),
    ("[ $1 = --version ] || { echo warning; echo 'h:9: error: #error -- unsupported GNU version! x;"
     " y'; exit 1; }", r"bin/nvcc cannot .* \(unsupported GNU version! x\): .* or CUDAHOSTCXX "),
    ("echo 'nvcc fatal   : Could not open it'; exit 1", r"\(Could not open it\): "),
    ("exec /missing/nvcc", r"\(.*/missing/nvcc: not found\): "),
    ("exit 3", r"\(exit status 3\): "),
    ("touch kernel.o", r"\((cublasLt.h: No such file|.*undefined reference).*\): ")]


@pytest.fixture
def nvcc(tmp_path):
    """Writes a script in place of the nvcc of a toolkit."""
    def write(script, folder="path"):
        (tmp_path / folder / "bin").mkdir(parents=True)
        (tmp_path / folder / "bin/nvcc").write_text("#!/bin/sh\n" + script)
        (tmp_path / folder / "bin/nvcc").chmod(0o755)
    return write


def with_cuda(words, folder, **environment):
    """The output, in one line, of a command in a folder that has only these CUDA Toolkits."""
    result = command(words, folder, **{
        "PATH": f"{folder}/path/bin:{os.environ['PATH']}", "CUDACXX": "", "CUDAHOSTCXX": "",
        "LEARN_BUILD_DIR": f"{folder}/build", **environment})
    return result.status, " ".join((result.out + result.err).split())


@pytest.mark.parametrize("script, fault", TOOLKITS)
def test_a_cuda_toolkit_that_does_not_work(script, fault, nvcc, tmp_path):
    nvcc(script)
    assert re.search(f"CUDA: off .*{fault}.* and remove the build folder$", with_cuda(
        f"cmake -DCMAKE_CXX_COMPILER=c++ -P {ROOT}/cmake/TryCuda.cmake", tmp_path)[1])


def test_the_build_for_the_cpu_without_a_cuda_toolkit_that_works(nvcc, tmp_path):
    nvcc(OLD)
    configure = f"cmake -S {ROOT} -B build -G Ninja -DDIST_LESSON=1 -DDIST_TESTS=OFF -DDIST_CUDA="
    status, said = with_cuda(configure + "ON", tmp_path)
    assert status == 1 and re.search("CMake Error .* DIST_CUDA=ON, but " + TOOLKITS[0][1], said)
    status, said = with_cuda(configure + "AUTO", tmp_path)
    assert status == 0 and re.search("-- CUDA: off .*" + TOOLKITS[0][1] + ".*; NCCL: off ", said)
    assert "-DDIST_WITH_CUDA=0" in (tmp_path / "build/build.ninja").read_text()
    nvcc(OLD, "other")
    said = with_cuda(f"{ROOT}/learn doctor", tmp_path, CUDACXX=f"{tmp_path}/other/bin/nvcc")[1]
    assert re.search("note CUDA: off .*" + TOOLKITS[0][1], said) and "/other/" not in said


@pytest.mark.parametrize("chosen, unset", [
    ("CUDACXX", ""), ("path", "CUDACXX"), ("CUDA_PATH", "CUDACXX PATH"),
    ("CUDA_HOME", "CUDACXX PATH CUDA_PATH")])
def test_which_cuda_toolkit_is_chosen(chosen, unset, nvcc, tmp_path):
    for folder in ["CUDACXX", "path", "CUDA_PATH", "CUDA_HOME"]:
        nvcc(OLD, folder)
    said = with_cuda(f"unset {unset}; {shutil.which('cmake')} -P {ROOT}/cmake/TryCuda.cmake",
                     tmp_path, CUDACXX=f"{tmp_path}/CUDACXX/bin/nvcc",
                     CUDA_PATH=f"{tmp_path}/CUDA_PATH", CUDA_HOME=f"{tmp_path}/CUDA_HOME")[1]
    assert f"CUDA 11.8 ({tmp_path / chosen}/bin/nvcc)" in said


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
