"""A page on which a reader steps through the messages of a small run (drawing.hpp), beside ours."""

from __future__ import annotations

import html
import json
import pathlib

from message_table import Run, heading

_SITE = pathlib.Path(__file__).resolve().parents[2] / "docs/site"
_STYLE = """
h1 { font-size: 1.3rem; }
h3 { margin: 0; font-size: 1rem; }
body { font: 16px/1.5 sans-serif; max-width: 75rem; margin: 1rem auto; padding: 0 1rem; color-scheme: light dark;
       --color-foreground-primary: CanvasText; }
.player .unlike { fill: #d55e00; color: #d55e00; font-weight: bold; }
.player .arrow { stroke: #0072b2; }
.player .arrow.unlike { fill: none; stroke: #d55e00; }
"""


def write_page(path: pathlib.Path, exercise: str, run: Run) -> None:
    title = html.escape(f"{exercise}: your messages and ours {heading(run)}")
    scripts = [
        f"const RUN = {json.dumps(run)};",
        *((_SITE / name).read_text() for name in ("player.js", "messages.js")),
    ]
    path.write_text(f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{html.escape(exercise)}</title>
<style>{(_SITE / "site.css").read_text()}{_STYLE}</style>
</head><body><h1>{title}</h1>
{"".join(f"<script>{script}</script>{chr(10)}" for script in scripts)}</body></html>
""")
