"""./learn doctor examines shared memory, and machines with odd tools and folders."""

import pathlib
import re
import shutil

import pytest
from course import LEARN, Course, with_cards
from programs import ROOT, command

import doctor_gpus


@pytest.mark.usefixtures("own_mounts")
@pytest.mark.parametrize(
    "size, cards, enough", [("64m", 0, False), ("66m", 0, True), ("66m", 1, True), ("66m", 2, False), ("513m", 2, True)]
)
def test_doctor_asks_for_the_shared_memory_that_is_needed(
    size: str, cards: int, enough: bool, tmp_path: pathlib.Path
) -> None:
    path = with_cards(tmp_path, *["9.0"] * cards)
    result = command(
        f"unshare -m sh -c 'mount -t tmpfs -o size={size} tmpfs /dev/shm && {ROOT}/learn doctor'", **LEARN, PATH=path
    )
    found = re.search(r"^(\w+) +/dev/shm has (\d+) MiB free", result.out, re.M)
    assert found and (found[1] == "ok") == enough, result.out


def test_doctor_in_a_folder_that_has_been_deleted(tmp_path: pathlib.Path) -> None:
    result = command(f"mkdir x; cd x; rmdir ../x; {ROOT}/learn doctor", tmp_path, **LEARN)
    assert result.status == 0 and result.out.endswith("\nno problems found\n"), result


def test_doctor_names_what_keeps_ranks_from_meeting(tmp_path: pathlib.Path) -> None:
    """Settings of another machine: in the environment, and in Open MPI's file."""
    (tmp_path / ".openmpi").mkdir()
    result = command(f"{ROOT}/learn doctor", **LEARN, HOME=str(tmp_path), OMPI_MCA_btl="self")
    assert result.status == 1 and re.search("^ +fix: unset OMPI_MCA_btl$", result.out, re.M), result
    file = tmp_path / ".openmpi/mca-params.conf"
    file.write_text("btl = self\npml = ob1\n")
    result = command(f"{ROOT}/learn doctor", **LEARN, HOME=str(tmp_path))
    assert result.status == 1 and f"fix: mv {file} {file}.old" in result.out, result


@pytest.mark.parametrize(
    "tool, script, row",
    [
        ("cmake", "exit 1", r"problem  .*/path/cmake: it says nothing\n +fix: export PATH=/.*:\$PATH"),
        ("c++", "echo no libc >&2; exit 1", r"problem  .*/c\+\+: no libc"),
        ("mpirun", "echo HYDRA build details:", "problem  .*/mpirun: is not Open MPI's, but MPICH's"),
        (
            "mpicxx",
            'case "$*" in *-dM*) echo "#define MPICH_VERSION 4";; *) echo g++ 12;; esac',
            r"problem  .*/mpicxx: is not Open MPI's, but MPICH's\n +fix: export PATH=/.*:\$PATH",
        ),
        (
            "mpicxx",
            '[ "$1" = --version ] && exec echo g++; echo no mpi.h >&2; exit 1',
            "problem  .*/mpicxx: is .*, it says: no mpi.h",
        ),
        (
            "mpirun",
            """[ "$1" != --version ] || exec echo Open MPI; [ "$OMPI_MCA_x" ] || exec echo verified
     echo ----; echo; echo It cannot; exit 1""",
            r"problem  two ranks .* OMPI_MCA_x.*: It cannot\n +fix: unset .*OMPI_MCA_x.*",
        ),
        (
            "mpirun",
            '[ "$1" != --version ] || exec echo Open MPI; echo It cannot; exit 1',
            r"problem  two ranks could not exchange messages: It cannot\n +fix: \./learn 1 -n 2 .*",
        ),
        (
            "mpirun",
            "echo Open MPI: rank 0 is alone in its MPI world",
            r"problem  two MPI implementations are mixed.*\n +fix: rm -r build && \./learn 1 .*",
        ),
        (
            "mpirun",
            "echo Open MPI: Read -1, expected 4096",
            r"problem  this container forbids ptrace.*\n +fix: export OMPI_MCA_btl_vader_\w+=none .*\^cma",
        ),
        ("nproc", "echo odd", "note     not checked: plain mpirun: odd"),
        ("ompi_info", "echo odd >&2; exit 1", "note     not checked: gpu memory: odd"),
    ],
)
def test_doctor_examines_a_machine_with_an_odd_tool(tool: str, script: str, row: str, course: Course) -> None:
    course.program(f"path/{tool}", script)
    course.program("build/bin/send_recv", "echo verified")
    course.environment["OMPI_MCA_x"] = "y"
    summary = "no problems found" if row.startswith("note") else r"problems to fix: \d"
    course.learn("doctor", int(row.startswith("problem")), f"^{row}$", rf"^{summary}(; not .*)?$")


def test_doctor_before_anything_is_built(course: Course) -> None:
    shutil.rmtree(course.folder / "build")
    said = r"^note     not checked: whether mpirun .* lesson 1 is not built\n +fix: \./learn 1$"
    course.learn("doctor", 0, said, "^no problems found; not everything was checked$")


def test_doctor_names_missing_packages_and_the_line_that_installs_them(course: Course) -> None:
    course.write("tools/learn/packages.txt", "6 libnonesuch-dev nonesuch.h\n")
    course.learn("doctor", 1, r"^problem  missing packages: libnonesuch-dev\n +fix: .+")


@pytest.mark.parametrize(
    "gpus, nccl, rows",
    [
        (0, "", ["note no GPU: ", "note no NCCL: it is not needed"]),
        (1, "2.17.1", [r"note 1 GPU\(s\): .* \./learn 5 -n 1 ", "problem NCCL 2.17.1 is older .*libnccl-dev"]),
        (4, "", ["ok 4 GPUs", "problem NCCL is not installed .*libnccl-dev"]),
        (8, "2.28.9", ["ok 8 GPUs", "ok NCCL 2.28.9"]),
    ],
)
def test_doctor_counts_gpus_and_asks_for_nccl_where_there_are_some(
    gpus: int, nccl: str, rows: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_gpus, "LEARN", "./learn")
    monkeypatch.setattr(doctor_gpus, "count_gpus", lambda: gpus)
    monkeypatch.setattr(doctor_gpus, "cuda_status", lambda: "not found")
    monkeypatch.setattr(doctor_gpus, "nccl_version", lambda: nccl)
    said = "\n".join(" ".join(each) for each in doctor_gpus.examine_gpus())
    for row in [*rows, "note no CUDA Toolkit"]:
        assert re.search(f"^{row}", said, re.M), said
