"""./learn on machines that readers reported: limits, odd disks, left-over variables, an old Python."""

import errno
import os
import pathlib
import shutil
import sys
import threading
from typing import NoReturn

import pytest
from course import Course
from programs import ROOT, command

import build_folder
import machine
import place
import programs_run
from console import Failed

pytestmark = pytest.mark.quick


def test_an_old_python_is_refused_in_one_sentence() -> None:
    result = command(
        f"{sys.executable} -c 'import sys, runpy; sys.version_info = (3, 6, 8); "
        f'runpy.run_path("{ROOT}/tools/learn/__main__.py")\''
    )
    assert result.status == 2 and result.err.startswith("error: ./learn needs Python 3.9 or newer, but "), result
    assert result.err.count("\n") == 1


def test_an_old_python_that_reads_no_tables_is_named_and_the_map_does_without(course: Course) -> None:
    """./learn is started again once their package is installed, but once only."""
    for name in ("tomllib", "tomli"):
        course.write(f"tools/exercises/{name}.py", "raise ImportError\n")
    course.program("path/sudo", '[ "$1" != -n ] || shift; exec "$@"')
    course.program("path/apt-get", "exit 0")
    course.environment.pop("CONDA_PREFIX", None)
    course.learn("hint 1", 2, "^error: hint: this Python is older than 3.11 and does not find tomli ")
    course.learn("", 0, "^  1 .* exercises - ", r"^next: \./learn ")
    course.program("path/apt-get", 'case "$*" in *"install -y "*python3-tomli) rm tools/exercises/tom*.py ;; esac')
    course.learn("hint 1", 0, "^missing packages: python3-tomli$", "^exchange, hint 1 of ")


@pytest.mark.parametrize(
    "limit, said",
    [
        ("ulimit -f 100", "error: files may have only 100 KiB; raise this limit: ulimit -f unlimited\n"),
        ("ulimit -n 100", "error: only 100 files may be open at a time; raise this limit: ulimit -n 1024\n"),
    ],
)
def test_a_limit_that_is_too_low_is_named_before_anything_is_built(
    limit: str, said: str, tmp_path: pathlib.Path
) -> None:
    result = command(f"{limit}; {ROOT}/learn 1", LEARN_BUILD_DIR=str(tmp_path / "build"))
    assert (result.status, result.out, result.err) == (2, "", said)
    assert not [*tmp_path.iterdir()]


def test_the_limit_of_processes_counts_those_that_are_running(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.os, "getuid", lambda: 1000)
    monkeypatch.setattr(machine.resource, "getrlimit", lambda _: (1000, 1000))
    monkeypatch.setattr(machine, "threads_of_ours", lambda: 936)
    machine.require_limits()
    monkeypatch.setattr(machine, "threads_of_ours", lambda: 937)
    with pytest.raises(Failed, match="only 1000 processes and threads are allowed, and 937 are running; raise"):
        machine.require_limits()


def test_a_variable_of_the_readers_that_is_empty_does_not_replace_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = next(iter(place.MPI_ENVIRONMENT))
    for theirs, used in (("", place.MPI_ENVIRONMENT[ours]), ("0", "0")):
        monkeypatch.setenv(ours, theirs)
        assert place.mpi_environment()[ours] == used
    monkeypatch.setenv("ANOTHER", "")
    assert place.mpi_environment()["ANOTHER"] == ""  # it may mean something to another program


@pytest.mark.usefixtures("own_mounts")
def test_a_disk_from_which_nothing_may_be_started_is_named(tmp_path: pathlib.Path) -> None:
    result = command(
        f"unshare -m sh -c 'mount -t tmpfs -o noexec tmpfs {tmp_path} && {ROOT}/learn 1'",
        LEARN_BUILD_DIR=f"{tmp_path}/build",
    )
    assert result.status == 2 and f"error: the disk of {tmp_path}/build is mounted noexec, " in result.err, result


# What CMake prints if a program of the reader's environment is missing.
FAILED_TRY = """CMake Error at CMakeTestCXXCompiler.cmake:60 (message):
  The C++ compiler "/usr/bin/c++" is not able to compile a simple test program.
  It fails with the following output:
    Run Build Command(s):/usr/bin/ninja cmTC_12345
    FAILED: CMakeFiles/cmTC_12345.dir/testCXXCompiler.cxx.o
    {cause}
    ninja: build stopped: subcommand failed.
  CMake will not be able to correctly generate this project.
Call Stack (most recent call first):
"""


@pytest.mark.parametrize(
    "variable, cause, said",
    [
        ("CMAKE_CXX_COMPILER_LAUNCHER", "/bin/sh: 1: ccache: not found", "ccache: not found"),
        ("LDFLAGS", "collect2: fatal error: cannot find 'ld'", "collect2: fatal error: cannot find 'ld'"),
    ],
)
def test_why_nothing_compiles_and_which_variable_may_be_the_reason(
    variable: str, cause: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in build_folder.THEIRS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, "x")
    assert build_folder.reason_in(FAILED_TRY.format(cause=cause)) == (
        f"the compiler cannot compile an empty program: {said}; your environment sets {variable}"
    )


@pytest.mark.parametrize(
    "header, launcher, refused",
    [
        ("#define OPEN_MPI 1", "mpiexec (OpenRTE) 4.1.4", ""),
        ("#define OPEN_MPI 1", "mpirun (Open MPI) 5.0.7", ""),
        ('#define MPICH_VERSION "4.0.2"', "HYDRA build details:", ""),
        ('#define MPICH_VERSION "4.0.2"', "mpiexec (OpenRTE) 4.1.4", "mpicxx belongs to MPICH, but {} to Open MPI."),
        ("#define OPEN_MPI 1", "HYDRA build details:", "mpicxx belongs to Open MPI, but {} to MPICH."),
        ("// a vendor's", "something else", ""),
    ],
)
def test_cmake_refuses_a_launcher_of_another_mpi(
    header: str, launcher: str, refused: str, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "mpi.h").write_text(header + "\n")
    mpiexec = tmp_path / "mpiexec"
    mpiexec.write_text(f"#!/bin/sh\necho '{launcher}'\n")
    mpiexec.chmod(0o755)
    flags = f"-DMPI_CXX_INCLUDE_DIRS={tmp_path} -DMPIEXEC_EXECUTABLE={mpiexec} -DMPI_CXX_COMPILER=mpicxx"
    result = command(f"cmake {flags} -P {ROOT}/cmake/OneMpi.cmake")
    assert (result.status != 0) == bool(refused), result
    assert refused.format(mpiexec) in " ".join(result.err.split()).replace("- ", "-"), result.err


def test_a_file_system_without_locks_builds_without_one(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(*_: object) -> NoReturn:
        raise OSError(errno.ENOSYS, "not there")

    monkeypatch.setattr(build_folder, "STATE", tmp_path)
    monkeypatch.setattr(build_folder.fcntl, "flock", flock)
    with build_folder.locked("send_recv"):
        assert (tmp_path / "lock").read_text() == "send_recv\n"


@pytest.mark.parametrize("why", ["", "it is forbidden here"])
def test_what_open_mpi_needs_where_no_process_may_read_another_ones_memory(
    why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, "why_memory_is_private", lambda: why)
    monkeypatch.delenv("OMPI_MCA_smsc", raising=False)
    environment = place.mpi_environment()
    assert (environment.get("OMPI_MCA_btl_vader_single_copy_mechanism") == "none") == bool(why)
    assert (environment.get("OMPI_MCA_smsc") == "^cma") == bool(why)


def test_a_process_may_read_its_childs_memory_unless_a_filter_forbids_it(tmp_path: pathlib.Path) -> None:
    """The filter is that of a container without ptrace: seccomp answers the call with EPERM or ENOSYS."""
    asks = (
        f"import sys; sys.path[0] = '{ROOT}/tools/learn'; import place; print(place.why_memory_is_private() or 'free')"
    )
    assert command(f'{sys.executable} -c "{asks}"').out == "free\n"
    (tmp_path / "forbid.c").write_text(FORBID)
    built = command("cc -o forbid forbid.c", tmp_path)
    assert built.status == 0, built.err
    for error, said in (errno.EPERM, "it is forbidden here"), (errno.ENOSYS, "this kernel or processor cannot do it"):
        assert command(f'./forbid {error} {sys.executable} -c "{asks}"', tmp_path).out == said + "\n"


FORBID = """
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char** argv) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | atoi(argv[1])),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  struct sock_fprog program = {4, code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 1;
  return argc > 2 ? execvp(argv[2], argv + 2) : 1;
}
"""


DASHES = "-" * 74 + "\n"


@pytest.mark.parametrize(
    "begin, more, shown",
    [
        ("error: --lr: no\n", f"{DASHES}Primary job terminated\n{DASHES}", False),
        ("something else\n", f"{DASHES}Primary job terminated\n{DASHES}", True),
        ("error: --lr: no\n", f"{DASHES}a table of the reader's\n{DASHES}", True),
        ("error: --lr: no\n", f"{DASHES}without an end\n", True),
    ],
)
def test_what_mpirun_says_after_a_sentence_of_ours_is_left_out(
    begin: str, more: str, shown: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    read, write = os.pipe()
    os.write(write, (begin + more + "progress").encode())
    os.close(write)
    with os.fdopen(read, "rb") as source:
        programs_run.pass_errors_on(source, threading.Event())
    assert capfd.readouterr().err == begin + more * shown + "progress"


@pytest.mark.parametrize("step, said, notes", [("0", "", 1), ("0", "echo word;", 0), ("", "", 0)])
def test_an_mpirun_that_says_nothing_in_a_step_of_slurm_gets_a_note(step: str, said: str, notes: int) -> None:
    """It waits for a step of its own if Slurm knows the host by another name."""
    script = (
        f"import os, sys; sys.path[:0] = ['{ROOT}/tools/learn', '{ROOT}/tools']; import programs_run; "
        "programs_run.SILENCE = 0.2; "
        f"sys.exit(programs_run.started(['sh', '-c', '{said} sleep 1; exit 3'], os.environ))"
    )
    result = command(f'{"SLURM_STEP_ID=" + step if step else ""} {sys.executable} -c "{script}"')
    assert result.status == 3 and result.err.count("note: mpirun has said nothing for 0.2 s. ") == notes, result
    assert result.out == ("word\n" if said else "")


def test_an_experiment_that_hangs_on_purpose_says_so(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(programs_run, "run", lambda *_: programs_run.HUNG)
    assert programs_run.run_break(["1", "head-to-head"]) == programs_run.HUNG
    assert capfd.readouterr().out.startswith("head-to-head hangs on purpose: ")
    with pytest.raises(Failed, match="break: needs a lesson from 1 to 5"):
        programs_run.run_break(["6"])


@pytest.mark.parametrize(
    "user, tools, flags, ran, line",
    [
        (0, ["apt-get"], "", "apt-get", "apt-get update && apt-get install -y python3"),
        (1000, ["apt-get"], "", "", "su - -c 'apt-get update && apt-get install -y python3'"),
        (1000, ["apt-get", "sudo"], "", "", "sudo sh -c 'apt-get update && apt-get install -y python3'"),
        (1000, ["apt-get", "sudo"], "--yes", "sudo", "sudo sh -c 'apt-get update && apt-get install -y python3'"),
        (0, [], "", "", "conda install python"),
    ],
)
@pytest.mark.parametrize("network", [True, False])
def test_without_python3_it_is_installed_or_the_line_is_printed(
    user: int, tools: list[str], flags: str, ran: str, line: str, network: bool, tmp_path: pathlib.Path
) -> None:
    """apt-get installs nothing here. sudo wants a password unless it is asked to ask for it."""
    for tool in ("sh", "env", "dirname", "readlink", "head"):
        path = shutil.which(tool)
        assert path, tool
        (tmp_path / tool).symlink_to(path)
    scripts = {
        "id": f"echo {user}",
        "apt-get": f"echo apt-get >>$LOG; {str(network).lower()}",
        "sudo": '[ "$1" != -n ] || exit 1; echo sudo >>$LOG; "$@"',
    }
    for name in ("id", *tools):
        (tmp_path / name).write_text(f"#!{shutil.which('sh')}\n{scripts[name]}\n")
        (tmp_path / name).chmod(0o755)
    result = command(f"LOG=log PATH={tmp_path} {ROOT}/learn {flags}", tmp_path)
    assert result.status == 2 and not result.out, result
    failed = ", and apt-get could not install it (see above)" if ran and not network else ""
    assert result.err.endswith(f"error: ./learn needs python3{failed}; type this:  {line}\n"), result
    log = (tmp_path / "log").read_text().split() if (tmp_path / "log").exists() else []
    assert (log[0] if log else "") == ran
