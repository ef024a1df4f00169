"""./learn under the conditions that users bring with them: each command works, or ends with one
sentence that says what to do, and with status 2. The tests run in order, and the long ones build lesson 1
once, in a folder with an unusual name, as a user without a home."""

import functools
import os
import pathlib
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator

import pytest
from programs import ROOT, command

IS_ROOT = os.getuid() == 0
UNSET = "LEARN_PRESET LEARN_BUILD_DIR CXX CXXFLAGS CMAKE_CXX_COMPILER_LAUNCHER"
USER = (
    "env -u HOME LANG=de_DE.UTF-8 LC_NUMERIC=de_DE.UTF-8"
    + " setpriv --reuid=65534 --regid=65534 --clear-groups" * IS_ROOT
)  # another user
# A network and mounts of its own, if this is possible here.
ALONE = "unshare -m -n sh -c 'ip link set lo up; exec \"$@\"' sh"
NOBODYS = r"line [0-9]+: |CMake Error|Traceback|fork: "  # messages that help nobody


@functools.cache
def can_be_alone() -> bool:
    return IS_ROOT and command("unshare -m -n true").status == 0


@pytest.fixture
def alone() -> None:
    if not can_be_alone():
        pytest.skip("mounts are not allowed here")


@pytest.fixture(scope="module")
def places() -> Iterator[tuple[pathlib.Path, pathlib.Path]]:
    """The course in a folder with an unusual name, and a copy that cannot be written. Not below
    pytest's own folder, which each start of pytest closes to other users."""
    base = pathlib.Path(tempfile.mkdtemp())
    base.chmod(0o755)
    tree, read_only = base / "a b $HOME (é)", base / "read-only"
    for name in [
        "learn",
        "CMakeLists.txt",
        "CMakePresets.json",
        "cmake",
        "common",
        "tools",
        *(path.name for path in ROOT.glob("0[1-5]_*")),
    ]:
        for place in (tree, read_only):
            place.mkdir(exist_ok=True)
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, place / name)
            else:
                shutil.copy(ROOT / name, place / name)
    command("chown -R 65534:65534 ." if IS_ROOT else "true", tree)
    command("true" if IS_ROOT else "chmod a-w .", read_only)
    yield tree, read_only
    command(f"chmod u+w {read_only}; rm -rf {base}")


def expect(folder: pathlib.Path, status: int, pattern: str, words: str, user: str = USER) -> None:
    result = command(
        f"unset {UNSET}; exec {ALONE if can_be_alone() else ''} {user} timeout 400 bash -c {shlex.quote(words)} 2>&1",
        folder,
        limit=420,
    )
    assert result.status == status and re.search(pattern, result.out, re.M), result.out
    assert not re.search(NOBODYS, result.out), result.out
    if status == 2:
        said = re.sub(r"^(configuring|building .*|-- CUDA.*)\n", "", result.out, flags=re.M)
        assert said.count("\n") == 1, said


@pytest.mark.parametrize(
    "words, status, pattern",
    [
        ("./learn 1", 2, r"^error: .*\.learn cannot be written; copy"),
        ("./learn hint 1", 2, r"^error: .*\.learn cannot be written; copy"),
        ("./learn", 0, "^next: "),
    ],
)
def test_a_read_only_checkout(words: str, status: int, pattern: str, places: tuple[pathlib.Path, pathlib.Path]) -> None:
    expect(places[1], status, pattern, words)


@pytest.mark.parametrize(
    "words, pattern",
    [
        ("CXX=nonesuch ./learn 1", "^error: nonesuch: .*; type this: unset CXX"),
        ("CXXFLAGS=--nonesuch ./learn 1", r"^error: .*c\+\+: cannot compile .*--nonesuch.* unset CXX"),
        ("CXXFLAGS='-U__GNUC__ -D__GNUC__=10' ./learn 1", r" is GNU 10\..* needs GCC 11, .* CXX="),
        (
            "mkdir -p old; touch old/fmtConfig.cmake; echo 'set(PACKAGE_VERSION 7.1.3)' "
            ">old/fmtConfigVersion.cmake; CMAKE_PREFIX_PATH=$PWD/old ./learn 1",
            r"fmt 7\.1\.3 \(.*/old\) is older than 8\.1\. Type this: .* CMAKE_PREFIX_PATH=",
        ),
        ("ulimit -n 16; ./learn 1", "^error: only 16 files .* ulimit -n"),
        pytest.param(
            "ulimit -u 20; ./learn 1",
            "^error: only 20 processes .* ulimit -u",
            marks=pytest.mark.skipif(not IS_ROOT, reason="this user has other processes"),
        ),
    ],
)
def test_what_cannot_work_is_refused(words: str, pattern: str, places: tuple[pathlib.Path, pathlib.Path]) -> None:
    expect(places[0], 2, pattern, words)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    "folder, size, before",
    [(".learn", "64k", "dd if=/dev/zero of=.learn/x bs=4k 2>/dev/null"), ("build", "1500k", "true")],
)  # fills up during the build
def test_a_full_disk(folder: str, size: str, before: str, places: tuple[pathlib.Path, pathlib.Path]) -> None:
    expect(
        places[0],
        2,
        rf"^error: the disk of .*{folder} is full",
        f"mkdir -p {folder}; mount -t tmpfs -o size={size} tmpfs {folder}; {before}; ./learn 1",
        user="env",
    )
    command("rm -rf build .learn", places[0])


@pytest.mark.long
def test_an_interrupted_build_and_the_next_ones(places: tuple[pathlib.Path, pathlib.Path]) -> None:
    tree, _ = places
    expect(
        tree,
        137,
        "configuring",
        "setsid ./learn 1 & job=$!; until "
        "[ -d build/common/CMakeFiles/dist_common.dir ]; do sleep 0.2; done; "
        "kill -KILL -- -$job; { wait $job; } 2>/dev/null",
    )
    expect(tree, 0, "^verified: ", "./learn 1 -n 2")  # without network, home or locale
    expect(tree, 0, "^verified: ", "SECONDS=0; ./learn 1 -n 2; echo $SECONDS s; [ $SECONDS -le 4 ]")
    expect(tree, 0, "^verified: ", "CXX=nonesuch CXXFLAGS=--nonesuch ./learn 1 -n 2")


@pytest.mark.long
def test_a_copy_of_a_finished_build_is_configured_anew(places: tuple[pathlib.Path, pathlib.Path]) -> None:
    copy = places[0].parent / "copy"
    command(f"cp -a {shlex.quote(str(places[0]))} copy", places[0].parent)
    with (copy / "common/check.hpp").open("a") as header:
        header.write("#error this is the copy\n")
    expect(
        copy,
        0,
        "configured anew: it belongs to the checkout .*é",
        "./learn 1; grep -q '#error this is the copy' .learn/build.log",
    )
