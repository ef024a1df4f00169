"""./learn doctor: shows what this machine has, what is missing, and the command that fixes it. It changes
nothing."""

from __future__ import annotations

import os
import pathlib
import pwd
import re
import shlex
import shutil
from collections.abc import Collection, Iterator

import tools_used
from build_folder import Build
from console import GREEN, PLAIN, RED, YELLOW, say
from doctor_gpus import LEARN, count_gpus, examine_gpu_memory, examine_gpus
from findings import Found, NotChecked, needed, note, ok, problem
from machine import first_line
from packages import as_root, install_line, missing, packages
from place import BUILD, MPI_ENVIRONMENT, ROOT, TESTS, mpi_environment, short, why_memory_is_private
from tools_used import output_of

# Where no process may read another one's memory: for Open MPI 4, and for 5.
UNREAD_MEMORY = "export OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_smsc=^cma"


def examine_packages() -> Iterator[Found]:
    names = missing(TESTS)
    if names:
        yield problem(f"missing packages: {' '.join(names)}", install_line(*names))
    else:
        yield ok(f"packages: all {len(packages(TESTS))} are installed")


def examine_tools() -> Iterator[Found]:
    for words in (tools_used.compiler(), ["cmake"], ["mpicxx"], ["mpirun"]):
        name = words[0]
        if not shutil.which(name) and name != os.environ.get("CXX"):
            if os.access(f"/usr/bin/{name}", os.X_OK):
                yield problem(f"{name} is not on the PATH", "export PATH=/usr/bin:$PATH")
            else:
                yield note(f"not checked: {name} is missing")
            continue
        version, reason = tools_used.why_unusable(words)
        yield problem(reason, tools_used.replacement(words)) if reason else ok(version)


def examine_build() -> Iterator[Found]:
    build = Build(BUILD)
    if foreign := build.why_foreign():
        yield problem(f"{BUILD} is not a build folder of this course: {foreign}", "export LEARN_BUILD_DIR=~/build")
    elif stale := build.why_stale():
        yield problem(f"{short(BUILD)} cannot be used: {stale}", f"{LEARN} 1   # configures it anew")
    else:
        yield ok(f"the build folder is {short(BUILD)}")


def readers_settings() -> list[str]:
    """The reader's own settings of mpirun, which may be left over from another job or machine."""
    return [
        name
        for prefix in ("OMPI_MCA_", "PRTE_MCA_", "PMIX_", "TMPDIR")
        for name in sorted(os.environ)
        if name.startswith(prefix) and os.environ[name] != MPI_ENVIRONMENT.get(name)
    ]


def exchange(program: list[str], without: Collection[str] = (), **more: str) -> str:
    """The output of two ranks that run without these variables of the reader's."""
    words = ["timeout", "60", "mpirun", "-np", "2", *program]
    return output_of(words, environment={**mpi_environment(without), **more})[1]


def verified(output: str) -> bool:
    return re.search("^verified", output, re.M) is not None


def examine_messages() -> Iterator[Found]:
    program = [str(BUILD / "bin/send_recv_perf"), "--act", "exchange"]  # large messages, too
    if not os.access(program[0], os.X_OK):
        program = [str(BUILD / "bin/send_recv")]
    if not os.access(program[0], os.X_OK):
        yield note("not checked: whether mpirun matches the programs, because lesson 1 is not built", f"{LEARN} 1")
        return
    output, settings = exchange(program), readers_settings()
    file = pathlib.Path.home() / ".openmpi/mca-params.conf"
    if re.search("alone in its MPI world|^1 rank,|needs two ranks", output, re.M):
        library = re.search(r"/\S*libmpi\S*", output_of(["ldd", program[0]])[1])
        yield problem(
            "two MPI implementations are mixed, so every process believes it is rank 0 of 1: "
            f"{os.path.realpath(shutil.which('mpirun') or 'mpirun')} starts the programs, but they use "
            f"{library[0] if library else 'another'}",
            f"rm -r {short(BUILD)} && {LEARN} 1   # with mpirun and mpicxx of the same MPI first on the PATH",
        )
    elif "Read -1" in output:
        yield problem(
            "this container forbids ptrace, so sending a large message prints 'Read -1, expected'",
            UNREAD_MEMORY,
        )
    elif verified(output):
        yield ok("mpirun matches the programs, and two ranks can exchange messages")
    elif settings and verified(exchange(program, settings)):
        yield problem(
            f"two ranks can exchange messages only without your {' '.join(settings)}: {first_line(output)}",
            f"unset {' '.join(settings)}",
        )
    elif file.exists() and verified(exchange(program, HOME="/")):  # where no settings are
        yield problem(
            f"two ranks can exchange messages only without your settings in {file}: {first_line(output)}",
            f"mv {file} {file}.old",
        )
    else:
        yield problem(
            f"two ranks could not exchange messages: {first_line(output)}", f"{LEARN} 1 -n 2   # shows all the output"
        )


def examine_memory_of_others() -> Iterator[Found]:
    if why := why_memory_is_private():
        yield note(
            f"no process may read another one's memory ({why}), so a plain mpirun prints 'Read -1, expected' for "
            "large messages (./learn avoids that)",
            UNREAD_MEMORY,
        )


def examine_plain_mpirun() -> Iterator[Found]:
    said = needed("nproc")
    if not said.strip().isdecimal():
        raise NotChecked(first_line(said))
    cores, file = int(said), shlex.quote(str(ROOT / "tools/learn/mpi.env"))
    user = pwd.getpwuid(os.getuid()).pw_name if has_name() else str(os.getuid())
    more = os.environ.get("OMPI_MCA_rmaps_base_oversubscribe") or os.environ.get(
        "PRTE_MCA_rmaps_default_mapping_policy"
    )
    if cores < 4 and not more or os.getuid() == 0 and not os.environ.get("OMPI_ALLOW_RUN_AS_ROOT"):
        yield note(
            f"{cores} cores, user {user}: a plain mpirun refuses root, and more ranks than cores (./learn allows both)",
            f"export $(grep -v '^#' {file})",
        )
    else:
        yield ok(f"{cores} cores, and user {user} may run mpirun")


def has_name() -> bool:
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return True


def examine_shared_memory() -> Iterator[Found]:
    # Open MPI needs more than a container's 64 MiB. Without access from GPU to GPU, NCCL adds some
    # 10 MB for each of its channels (NVIDIA/nccl#525).
    needed_mib = 512 if count_gpus() >= 2 else 65
    if not os.access("/dev/shm", os.W_OK):
        yield problem(
            "/dev/shm is missing or not writable, so Open MPI's ranks on one host cannot exchange messages through it",
            as_root("mkdir -p /dev/shm && mount -t tmpfs tmpfs /dev/shm"),
        )
        return
    disk = os.statvfs("/dev/shm")
    free = disk.f_bavail * disk.f_frsize >> 20
    if free < needed_mib:
        yield problem(
            f"/dev/shm has {free} MiB free, less than {needed_mib}",
            f"{as_root('mount -o remount,size=1g /dev/shm')}   # in Docker: docker run --shm-size=1g",
        )
    else:
        yield ok(f"/dev/shm has {free} MiB free")


def examine_products() -> Iterator[Found]:
    program = BUILD / "bin/ddp_training"
    if not os.access(program, os.X_OK):
        yield note("not checked: which library multiplies matrices, because lesson 5 is not built", f"{LEARN} 5")
        return
    job = "--device cpu --dataset synthetic --samples 4 --batch-size 4 --layers 2,2 --classes 2 --max-steps 1 --json"
    words = ["timeout", "60", "mpirun", "-np", "1", str(program), *job.split()]
    said = output_of(words, environment=mpi_environment())[1]
    found = re.search(r'"matmul":"([^"]+)"', said)
    if not found:
        yield problem(f"lesson 5's trainer does not run: {first_line(said)}", f"{LEARN} 5   # shows all the output")
    elif found[1] == "plain loop":
        yield note(
            "matrix products are a plain loop, which is slow: there was neither oneDNN nor OpenBLAS when lesson 5 "
            "was built",
            install_line("libdnnl-dev", "libopenblas-dev") + f" && rm -r {short(BUILD)} && {LEARN} 5",
        )
    else:
        yield ok(f"matrix products on the CPU: {found[1]}")


EXAMINATIONS = {
    "packages": examine_packages,
    "tools": examine_tools,
    "build": examine_build,
    "messages": examine_messages,
    "memory of others": examine_memory_of_others,
    "plain mpirun": examine_plain_mpirun,
    "gpu memory": examine_gpu_memory,
    "shared memory": examine_shared_memory,
    "products": examine_products,
    "gpus": examine_gpus,
}
COLOURS = {"ok": GREEN, "note": YELLOW, "problem": RED}


def run_doctor() -> int:
    problems, rest = 0, ""
    for name, examine in EXAMINATIONS.items():
        try:
            found = list(examine())
        except (NotChecked, OSError) as error:
            found = [note(f"not checked: {name}: {error}")]
        for verdict, text, fix in found:
            say(f"{COLOURS[verdict]}{verdict}{PLAIN}{' ' * (9 - len(verdict))}{text}")
            if fix:
                say(f"         fix: {fix}")
            problems += verdict == "problem"
            if "not checked: " in text:
                rest = "; not everything was checked"
    say()
    say(f"problems to fix: {problems}{rest}" if problems else f"no problems found{rest}")
    return 1 if problems else 0
