"""Pages and files have limits, with room: how much a reader takes in at one sitting. How much there
is in all has none. `pytest -s tests/pages/test_budgets.py` prints the table.
"""
import difflib
import pathlib
import re

import pytest

from programs import BUILD
from repository import CODE, FILES, LESSONS, output_of, project_includes, text

# Words of prose outside folded sections, without code and tables.
WORDS = {"README.md": 700, "05_ddp_training/README.md": 1450,
         **{f"{lesson}/README.md": 1000 for lesson in LESSONS[:4]},
         **{f"{lesson}/further.md": 750 for lesson in LESSONS[:4]},
         "05_ddp_training/advanced/further.md": 850}

# Headers of ours that a main needs, directly or not.
HEADERS = {"01_send_recv": 14, "03_all_reduce": 23, "05_ddp_training": 46}


def lines(name):
    return len(text(name).splitlines())


def without_code(name):
    markdown = re.sub(r"<!--.*?-->", "", text(name), flags=re.S)
    return re.sub(r"^[ \t>]*(```|~~~).*?^[ \t>]*\1[ \t]*$", "", markdown, flags=re.S | re.M)


def words(markdown):
    shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", markdown)
    return len(re.sub(r"<[^>]+>|[|]|-{3,}", " ", shown).split())


def words_of_prose(name):
    """The number of words outside folded parts, code and tables."""
    prose = re.sub(r"<details>.*?</details>", "", without_code(name), flags=re.S)
    return words(re.sub(r"^\s*\|.*$", "", prose, flags=re.M))


def too_wide(name):
    """Lines that GitHub's pages show badly: (prose over 120 columns, cells over 60 characters,
    code over 96 columns)."""
    prose, cells, code, inside = 0, 0, 0, False
    for line in text(name).splitlines():
        if re.match(r"[ \t>]*(```|~~~)", line):
            inside = not inside
        elif inside:
            code += len(line.rstrip()) > 96
        elif line.lstrip().startswith("|"):
            shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line.strip().strip("|"))
            cells += any(len(cell.strip()) > 60 for cell in re.split(r"(?<!\\)\|", shown))
        elif not line.lstrip().startswith("<!--"):
            prose += len(line) > 120
    return prose, cells, code


def names_at_the_top(folder):
    """ring.hpp and ring.cpp count as one name, and so does a folder."""
    below = [name[len(folder) + 1:] for name in FILES if name.startswith(folder + "/")]
    return len({name.split("/")[0] if "/" in name else pathlib.Path(name).stem for name in below})


def changed_lines(one, other):
    """Removed and added lines of code, without comments, includes and blank lines."""
    bare = [[code for line in text(name).splitlines() if (code := line.split("//")[0].rstrip())
             and not code.startswith("#include")] for name in (one, other)]
    return sum(line[0] in "+-" for line in list(difflib.unified_diff(*bare, n=0))[2:])


def headers_needed(start):
    seen, todo = set(), [start]
    while todo:
        new = {name for name in project_includes(todo.pop()) if name in FILES} - seen
        seen |= new
        todo += new
    return len(seen)


def headers_of_one_lesson():
    users = {}
    for name in CODE:
        if name.startswith(("common/", "tools/", *LESSONS)):
            for header in project_includes(name):
                if (header.startswith("common/")
                        and pathlib.Path(header).stem != pathlib.Path(name).stem):
                    users.setdefault(header, set()).add(name.split("/")[0])
    return sum(len(rooms) == 1 and rooms != {"common"} for rooms in users.values())


def rows():
    """(what, the number now, its budget)"""
    one, hand = "05_ddp_training/single_process.cpp", "05_ddp_training/ddp_by_hand.cpp"
    wide = [too_wide(name) for name in FILES if name.endswith(".md")]
    raw = [name for name in FILES if name.endswith(".json") and name != "CMakePresets.json"
           and not name.startswith(("tests/golden/", ".devcontainer/"))]
    return [
        ("headers in common/ that only one lesson uses", headers_of_one_lesson(), 0),
        *((f"lines of {folder}/main.cpp", lines(f"{folder}/main.cpp"),
           100 if folder == LESSONS[4] else 70) for folder in LESSONS),
        (f"lines of {one}", lines(one), 70),
        (f"lines of {hand}", lines(hand), 85),
        ("lines of code changed between these two", changed_lines(one, hand), 30),
        *((f"names at the top level of {folder}/", names_at_the_top(folder),
           20 if folder == LESSONS[4] else 18) for folder in LESSONS),
        *((f"words of {name}", words_of_prose(name), most) for name, most in WORDS.items()),
        ("lines of prose over 120 columns", sum(row[0] for row in wide), 0),
        ("table rows with a cell over 60 characters", sum(row[1] for row in wide), 0),
        ("lines of code blocks over 96 columns", sum(row[2] for row in wide), 0),
        *((f"project headers that {name}/main.cpp needs", headers_needed(f"{name}/main.cpp"), most)
          for name, most in HEADERS.items()),
        ("source files of more than 320 lines", sum(lines(name) > 320 for name in CODE), 0),
        ("lines of raw JSON", sum(map(lines, raw)), 500)]


@pytest.mark.quick
def test_nothing_is_over_its_budget():
    table = [(now > most, f"{now:6} of {most:6}  {what}") for what, now, most in rows()]
    print("", *(row for _, row in table), sep="\n")
    assert [row for over, row in table if over] == []


@pytest.mark.quick
def test_lesson_1_compiles_few_files():
    if not (BUILD / "build.ninja").exists():
        pytest.skip("the build does not use Ninja")
    inputs = output_of("ninja", "-C", str(BUILD), "-t", "inputs", "send_recv").split("\n")
    assert len({name for name in inputs if name.endswith((".cpp", ".c", ".cu"))}) <= 30
