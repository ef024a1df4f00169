"""The lines of a hang report."""

import re

from programs import Result

SLOW = "before that, the others waited for rank "


def report_of(result: Result) -> list[str]:
    lines = [line[len("hang: ") :] for line in result.err.splitlines() if line.startswith("hang: ")]
    return [re.sub(r"for [0-9.]+ s,", "for some time,", line) for line in lines]
