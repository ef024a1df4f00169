"""One rank dies or throws: all ranks end."""

import os
import pathlib
import re
import signal
import time

from programs import says

from disturbed import LONG, disturbed

METRICS = "--metrics cut.jsonl"


def alive(rank: int) -> bool:
    try:
        state = pathlib.Path(f"/proc/{rank}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return re.search(r"^State:\s*[RSDT] ", state, re.M) is not None


def test_killing_one_rank_ends_all(tmp_path: pathlib.Path) -> None:
    all_ranks: list[int] = []

    def kill_the_last(_: int, ranks: list[int]) -> None:
        all_ranks.extend(ranks)
        os.kill(ranks[-1], signal.SIGKILL)

    assert disturbed(tmp_path, 4, f"{LONG} {METRICS}", 10, kill_the_last).status == 137
    limit = time.monotonic() + 60
    while any(map(alive, all_ranks)):
        assert time.monotonic() < limit, "a rank is still alive"
        time.sleep(0.01)


def test_an_exception_on_one_rank_ends_all(tmp_path: pathlib.Path) -> None:
    """The folder is moved away after the first checkpoint, so only rank 0, which writes, throws."""
    folder = tmp_path / "gone"
    folder.mkdir()
    result = disturbed(
        tmp_path,
        3,
        f"{LONG} --checkpoint-every 1 --checkpoint gone/x",
        lambda *_: (folder / "x").exists(),
        lambda *_: folder.rename(tmp_path / "away"),
    )
    assert result.status == 1
    says(result, "[rank 0] fatal: gone/x")
