"""The repository's own rules: who includes whom, one list of packages and one of variables, and the
files with which the course meets its users: container, conda, release, workflow, launcher.
"""

from __future__ import annotations

import collections
import fnmatch
import json
import pathlib
import re
import shlex
import shutil

import pytest
from programs import BUILD, MPI_ENVIRONMENT, ROOT, built, command
from repository import CODE, FILES, LESSONS, is_workshop, layer, output_of, project_includes, text

pytestmark = pytest.mark.quick


def objection(name: str, included: str) -> str | None:
    """Why `name` must not include `included`, or None. Paths start at the repository's root."""
    stairs = ["common", *LESSONS]
    room, other = name.split("/")[0], included.split("/")[0]
    on_the_side = "/advanced/" in name or is_workshop(name) or room == "tests"
    if "/advanced/" in included and not on_the_side:
        return "is in an advanced/"
    tools = {"break_it": "tools/break_it/", "exercise": "tools/exercises/"}.get(name.split("/")[1])
    if room not in stairs or tools and included.startswith(tools):
        return None
    if other not in stairs:
        return "is neither in common/ nor in a lesson"
    if stairs.index(other) > stairs.index(room):
        return "is in a later lesson"
    if not any((ROOT / name).is_file() for name in (included, f"{included}.in")):
        return "does not exist"
    if is_workshop(included) and not is_workshop(name):
        return "is what readers do"
    own, others = layer(name), layer(included)
    if own is not None and others is not None and others > own:
        return "is in a later layer"
    return None


def test_lessons_include_only_common_and_earlier_lessons_and_layers() -> None:
    pairs = [(name, included) for name in CODE for included in project_includes(name)]
    assert [
        f"{name} includes {included}, which {why}" for name, included in pairs if (why := objection(name, included))
    ] == []
    assert len(pairs) > 1000


def test_every_source_file_is_built() -> None:
    """CMake names it, or finds it by its ending; the programs of two folders are named without theirs."""
    recipes = [name for name in FILES if name.endswith(("CMakeLists.txt", ".cmake", "fuzz/run.sh"))]
    words = {word for name in recipes for word in re.findall(r"[\w.]+", text(name))}
    listed_by_stem = ("05_ddp_training/advanced/", "tests/watch/")
    assert [
        name
        for name in FILES
        if name.endswith((".cpp", ".cu"))
        and not name.endswith(("_test.cpp", "_checks.cpp", "_drawings.cpp"))
        and pathlib.Path(name).name not in words
        and not (name.startswith(listed_by_stem) and pathlib.Path(name).stem in words)
    ] == []


def test_common_has_only_what_several_lessons_use() -> None:
    users: dict[str, set[str]] = collections.defaultdict(set)
    for name in CODE:
        if not name.startswith(("common/", "tools/", *LESSONS)):
            continue
        for header in project_includes(name):
            is_own = pathlib.PurePath(header).stem == pathlib.PurePath(name).stem
            if header.startswith("common/") and not is_own:
                users[header].add(name.split("/")[0])
    assert len(users) > 10
    assert {header: rooms for header, rooms in users.items() if len(rooms) == 1 and rooms != {"common"}} == {}


def test_lesson_1_compiles_few_files() -> None:
    if not (BUILD / "build.ninja").exists():
        pytest.skip("the build does not use Ninja")
    inputs = output_of("ninja", "-C", str(BUILD), "-t", "inputs", "send_recv").split("\n")
    assert len({name for name in inputs if name.endswith((".cpp", ".c", ".cu"))}) <= 30


# These move no data and wait for nobody.
UNWATCHED = {
    "MPI_Buffer_attach",
    "MPI_Comm_rank",
    "MPI_Comm_set_errhandler",
    "MPI_Comm_size",
    "MPI_Error_class",
    "MPI_Error_string",
    "MPI_Finalized",
    "MPI_Get_count",
    "MPI_Initialized",
    "MPI_Query_thread",
    "MPI_Wtime",
}
# It does wait, unseen, for the receives of buffered sends. The course calls it in one place, after a
# receive on every rank (01, exchange_buffered).
UNWATCHED |= {"MPI_Buffer_detach"}
TYPES = {"MPI_Comm"}  # MPI_Comm(...) is not a call


@built
def test_the_watch_sees_every_call_of_the_course() -> None:
    """Without its wrapper, a call that hangs would be reported as a rank that makes no calls."""
    library = output_of("nm", "-D", "--defined-only", str(BUILD / "lib/libdist_watch.so"))
    seen = {*re.findall(r" T (MPI_\w+)", library)}
    calls = [
        (name, call)
        for name in CODE
        if name.startswith(("common/", *LESSONS))
        for call in re.findall(r"\b(MPI_[A-Z][a-z]\w*)\(", text(name))
    ]
    assert [f"{name} calls {call}" for name, call in calls if call not in seen | UNWATCHED | TYPES] == []
    # Each name is needed, so none hides a call that comes later.
    assert (UNWATCHED | TYPES) - {call for _, call in calls} == set()
    assert len(calls) > 50 and not UNWATCHED & seen


def names_that_others_use() -> dict[str, list[str]]:
    """CONTRIBUTING.md's list: what, and the names."""
    listed = text("CONTRIBUTING.md").split("## Names that others use")[1]
    return {what: re.findall("`([^`]+)`", names) for what, names in re.findall(r"^- (.*?): (`.*)$", listed, re.M)}


@built
def test_names_that_others_use_are_still_there() -> None:
    names = names_that_others_use()
    assert len(names) == 10 and all(names.values())
    ninja = (BUILD / "build.ninja").read_text()
    labels = command("ctest --print-labels", BUILD).out.split()
    tests = [name for name in FILES if name.startswith(("tests/", "tools/learn/"))]
    tests_cpp = {name: text(name) for name in tests if name.endswith(".cpp")}
    script = next(text(name) for name in FILES if name.endswith("/on_gpus.py"))

    def titles(folder: str) -> list[str]:
        files = [body for name, body in tests_cpp.items() if folder in name]
        return [title for body in files for title in re.findall(r'TEST_CASE\("([^"]*)', body)]

    def is_read(variable: str, files: list[str]) -> bool:
        reads = rf"""(getenv\(|environment_number\(|get\(|environ\[|in os|\$\{{?)["']?{variable}\b"""
        return any(re.search(reads, text(name)) for name in files)

    kinds = {
        "in `build/tests/`": lambda name: f"build tests/{name}:" in ninja,
        "cases of lesson05_test": lambda name: any(
            fnmatch.fnmatch(title, name) for title in titles("05_ddp_training/")
        ),
        "cases of nccl_test": lambda name: any(fnmatch.fnmatch(title, name) for title in titles("nccl_test")),
        "CTest's labels": lambda name: name in labels,
        "variables of tests": lambda name: is_read(name, tests),
        "variables of programs and `./learn`": lambda name: is_read(
            name, [name for name in FILES if not name.startswith("tests/")]
        ),
        "files, by name only": lambda name: sum(file.endswith(f"/{name}") for file in FILES) == 1,
        "files": lambda name: name in FILES,
        "targets": lambda name: f"build {name}: phony" in ninja,
        "what `./learn test --gpu` writes into the build folder": lambda name: f'"{name}"' in script,
    }
    assert names.keys() == kinds.keys()
    assert [f"{what}: {name}" for what, each in names.items() for name in each if not kinds[what](name)] == []


PACKAGES = [line.split() for line in text("tools/learn/packages.txt").splitlines() if line[0] in "123456"]
DEBIAN = {debian for _, debian, _, _ in PACKAGES}
CONDA = {conda for _, _, _, conda in PACKAGES}
DOCKERFILE = text("docker/Dockerfile")


def test_the_docs_list_our_packages() -> None:
    running = text("docs/running.md")
    assert set(re.findall("`(cmake ninja-build [^`]*)`", running)[0].split()) == DEBIAN
    created = re.findall(r"conda create [^\n]*\n(.*)", running)[0].split()
    modules = {"cmake", "cxx-compiler", "openmpi"}
    assert {*created, *modules} == CONDA
    listed = re.findall(r"^  - ([\w-]+)", text("environment.yml"), re.M)
    assert {*listed} == {*CONDA, "conda-forge", "python"}


def test_the_docs_export_our_variables() -> None:
    export = re.findall(r"^export .*mpi\.env\)$", text("docs/running.md"), re.M)[0]
    printed = command(f"env -i PATH=$PATH bash -c {shlex.quote(export + '; env')}", ROOT).out
    assert {"=".join(each) for each in MPI_ENVIRONMENT.items()} <= {*printed.splitlines()}


def test_the_dockerfile_reads_our_packages_and_variables() -> None:
    packages = re.findall(r"\$\((awk .*?) \S+/packages\.txt\)", DOCKERFILE)[0]
    assert {*command(f"{packages} {ROOT}/tools/learn/packages.txt").out.split()} == DEBIAN
    shell = re.findall(r"echo '(.*)' >>~/\.bashrc", DOCKERFILE)[0]
    entry = json.loads(re.findall(r"^ENTRYPOINT (.*)", DOCKERFILE, re.M)[0])
    for words in (["bash", "-c", shell + "; env"], [*entry, "env"]):
        here = shlex.join(words).replace("~/course", str(ROOT))
        printed = command(f"env -i PATH=$PATH {here}").out.splitlines()
        assert {"=".join(each) for each in MPI_ENVIRONMENT.items()} <= {*printed}


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="this copy of the course has no git")
def test_a_clone_on_windows_has_no_carriage_returns(tmp_path: pathlib.Path) -> None:
    result = command(
        f"git -c safe.directory='*' -c core.autocrlf=true clone -q {ROOT} clone && "
        "! grep -rlI $'\r' clone --exclude-dir .git",
        tmp_path,
    )
    assert (result.status, result.out) == (0, ""), result


def test_carriage_returns_of_an_old_clone_are_named_and_removed(tmp_path: pathlib.Path) -> None:
    for name in FILES:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = (ROOT / name).read_bytes()
        path.write_bytes(data.replace(b"\n", b"\r\n"))
        path.chmod((ROOT / name).stat().st_mode)
    assert r"sh\r" in command("./learn 1", tmp_path).err
    said = command("sh learn 1", tmp_path).err
    assert re.match("error: .* docs/running.md, In a container, ", said)
    packages = re.findall(r"\$\((awk .*?) \S+/packages\.txt\)", DOCKERFILE)[0]
    assert {*command(f"{packages} {tmp_path}/tools/learn/packages.txt").out.split()} == DEBIAN
    image = re.findall(r"^RUN (grep .*)", DOCKERFILE, re.M)[0]
    page = re.findall(r"^git ls-files -z \| (.*)", text("docs/running.md"), re.M)[0]
    on_creation = json.loads(text(".devcontainer/devcontainer.json"))["postCreateCommand"]
    assert on_creation == f"git ls-files -z | {page.replace('-0', '-0r')}; ./learn 1"
    for convert in (image, f"printf '%s\\0' {shlex.join(FILES)} | {page}"):
        folder = tmp_path / "converted"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(tmp_path, folder, ignore=shutil.ignore_patterns("converted"))
        assert command(convert, folder).status == 0
        assert [name for name in FILES if (folder / name).read_bytes() != (ROOT / name).read_bytes()] == []


def test_the_container_is_for_a_user_who_is_not_root() -> None:
    assert re.findall(r"^USER (.*)", DOCKERFILE, re.M)[-1] == "reader"
    build = json.loads(text(".devcontainer/devcontainer.json"))["build"]
    assert build == {"dockerfile": "../docker/Dockerfile", "context": ".."}


def test_the_release_notes_are_of_this_version() -> None:
    version = re.findall(r"^project\(mpi_to_ddp VERSION ([\d.]*)", text("CMakeLists.txt"), re.M)[0]
    assert text("docs/release_notes.md").startswith(f"# Release {version}\n")


def test_yaml_can_be_read_and_the_workflow_runs_our_checks() -> None:
    yaml = pytest.importorskip("yaml")
    for name in ("environment.yml", "CITATION.cff", ".github/ISSUE_TEMPLATE/gpu_numbers.yml"):
        assert yaml.safe_load(text(name)), name
    jobs = yaml.safe_load(text(".github/workflows/ci.yml"))["jobs"]
    ours = [step["run"] for job in jobs.values() for step in job["steps"] if step.get("run", "").startswith(".ci/run ")]
    assert len(ours) == 1 and "--nightly" in ours[0]


def test_shellcheck_accepts_the_scripts() -> None:
    if not shutil.which("shellcheck"):
        pytest.skip("shellcheck is not installed")
    scripts = [name for name in FILES if name.startswith("tests/") and name.endswith(".sh")]
    result = command(f"shellcheck -S warning -x learn .ci/run .ci/parts {' '.join(scripts)}", ROOT)
    assert result.status == 0, result.out
