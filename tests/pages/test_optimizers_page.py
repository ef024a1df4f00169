"""The optimizers' page says what kOptimizers and --help-all say: the bytes and the defaults of each optimizer."""

import re

from programs import built, command, need
from repository import text

PAGE = text("05_ddp_training/advanced/optimizers.md")
TABLE = text("05_ddp_training/optimizer/optimizer_options.hpp").split(" kOptimizers{")[1].split("\n\n")[0]
# The rows of the table by name, and the members of each: 1e-2, or {"--betas", "--eps"}.
ROWS = {
    re.findall(r'\.name = "(\w+)"', row)[0]: dict(re.findall(r"\.(\w+) = (\{.*?\}|[^{,]+)", row, re.S))
    for row in TABLE.split("{.kind")[1:]
}

Defaults = dict[str, tuple[float, ...]]


def numbers(value: str) -> tuple[float, ...]:
    return tuple(map(float, value.split(","))) if value else ()


def quoted(listed: str) -> list[str]:
    return re.findall('"([^"]+)"', listed)


def test_the_page_says_how_many_bytes_each_optimizer_keeps_and_moves() -> None:
    """The gradient is read; the parameter and each tensor of the state are read and written."""
    wanted = {}
    for name, row in ROWS.items():
        kept = 4 * len(quoted(row["states"]))
        wanted[name] = (f"{kept} bytes", f"{12 + 2 * kept} bytes")
        if "--momentum" in row["flags"]:  # without momentum, there is no state
            wanted[name] = (f"0 bytes; {kept} with momentum", f"12 bytes; {12 + 2 * kept} with momentum")
    cells = re.findall(r"^\| (`\w+`[^|]*) \| (.*?) \| (.*?) \|$", PAGE, re.M)
    listed = {name: (kept, moved) for names, kept, moved in cells for name in re.findall(r"`(\w+)`", names)}
    assert {name: listed.get(name) for name in ROWS} == wanted


def listed_defaults(name: str) -> Defaults:
    """Of an item of the page's list: the flags with their values, and those without."""
    item = re.findall(rf"^- `{name}`: (.*?)(?=\n- |\n\n)", PAGE, re.M | re.S)[0]
    others = re.match(r"as `(\w+)`, but", item)
    code = " ".join(re.findall("`([^`]*)`", item))
    own = {flag: numbers(value) for flag, value in re.findall(r"(--[a-z-]+)(?: ([\d.,e-]+))?", code)}
    return {**(listed_defaults(others[1]) if others else {}), **own}


@built
def test_the_page_lists_the_flags_and_defaults_of_each_optimizer() -> None:
    need("ddp_training")
    shown = dict(re.findall(r"^ +(--[a-z-]+)(?: [^ =]+=(\S+))?", command("$BIN/ddp_training --help-all").out, re.M))
    assert len(ROWS) >= 3
    for name, row in ROWS.items():
        wanted = {flag: numbers(shown[flag]) for flag in quoted(row["flags"])}
        wanted |= {"--lr": numbers(row["lr"]), "--weight-decay": numbers(row["weight_decay"])}
        assert listed_defaults(name) == wanted, name
