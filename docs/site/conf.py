"""The course as a web site: ./learn site. Its pages are the repository's own Markdown."""

from __future__ import annotations

import html
import json
import pathlib
import posixpath
import re
import subprocess
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import TextLexer, find_lexer_class_for_filename
from sphinx.addnodes import download_reference
from sphinx.application import Sphinx
from sphinx.search.en import SearchEnglish

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The navigation: the lessons, each with its further pages below, and these groups.
GROUPS = {
    "At work": ["docs/pytorch.md", "docs/pytorch_choices.md", "docs/running.md", "docs/beyond.md"],
    "Reference": ["docs/cheat_sheet.md", "docs/release_notes.md", "CONTRIBUTING.md"],
}
MEASURED = "bench/results/"

# A page must have all words of a search. So that questions work, too, these do not count.
SearchEnglish.stopwords = {
    *SearchEnglish.stopwords,
    *"""another belong can different do does from
    happen happens how i its mine my need never one own start what when where which who why""".split(),
}

project = html_title = "From MPI_Send to DDP"
extensions, myst_heading_anchors = ["myst_parser"], 3
suppress_warnings = ["myst.header"]  # further pages begin below the title
root_doc, html_theme, highlight_language = "README", "furo", "none"
html_static_path, exclude_patterns = ["."], ["conf.py"]
html_css_files, html_js_files = ["site.css"], ["theme.js", "site.js"]
html_copy_source = html_show_sphinx = html_show_copyright = False
html_favicon = "favicon.svg"
html_show_search_summary = False  # a browser may not fetch excerpts for a page that it opened as a file
include_patterns = [
    name
    for name in subprocess.run(
        ["git", "ls-files", "*.md"], cwd=ROOT, check=True, text=True, capture_output=True
    ).stdout.split()
    if not re.match(r"tests/|\.github/|.*/exercise/", name)
]


LESSONS = sorted(name for name in include_patterns if re.fullmatch("0[1-5]_[^/]*/README.md", name))


def toctree(names: list[str], caption: str = "") -> str:
    options = [":hidden:", *([f":caption: {caption}"] if caption else [])]
    return "\n".join(["", "```{toctree}", *options, "", *names, "```", ""])


def navigation(page: str) -> str:
    """What is below a page: on the first page, everything."""
    if page == root_doc:
        measured = sorted(name for name in include_patterns if name.startswith(MEASURED))
        groups = {"Lessons": LESSONS, **GROUPS, "Measured": measured}
        below_lessons = [name for name in include_patterns if re.match("0[1-5]_", name)]
        placed = {f"{root_doc}.md", *below_lessons}.union(*groups.values())
        groups["Reference"] = [*GROUPS["Reference"], *sorted(set(include_patterns) - placed)]
        return "".join(toctree([f"/{name}" for name in names], caption) for caption, names in groups.items())
    if f"{page}.md" in LESSONS:
        folder = page.split("/")[0]
        below = sorted(
            (name for name in include_patterns if name.startswith(f"{folder}/") and name not in LESSONS),
            key=lambda name: ("further" not in name, name),
        )
        return toctree([f"/{name}" for name in below])
    return ""


def name_pages(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """A link whose text is a page's file gets the page's title."""
    folder = posixpath.dirname(page)
    for link in doctree.findall(nodes.reference):
        target, _, _ = link.get("refuri", "").partition("#")
        title = app.env.titles.get(posixpath.normpath(posixpath.join(folder, target)).removesuffix(".html"))
        if title is not None and link.astext() == posixpath.basename(target).replace(".html", ".md"):
            link.children = []
            link += nodes.Text(title.astext())


def describe(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """What a search engine shows: the first sentence that is no navigation."""
    texts = [] if doctree is None else [part.astext() for part in doctree.findall(nodes.paragraph)]
    if texts:
        text = html.escape(" ".join(texts[0].split())[:200])
        context["metatags"] = context.get("metatags", "") + f'<meta name="description" content="{text}">'


def next_page(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """After a lesson comes the next one, as the lesson says, and not its further pages."""
    names = [*LESSONS, GROUPS["At work"][0]]
    if f"{page}.md" in LESSONS:
        following = names[names.index(f"{page}.md") + 1].removesuffix(".md")
        context["next"] = {
            "link": app.builder.get_relative_uri(page, following),
            "title": app.env.titles[following].astext(),
        }


def prepare(app: Sphinx, page: str, source: list[str]) -> None:
    """GitHub's boxes become Sphinx's, and folders, which have no page, become plain text. The
    pages get the navigation."""

    def box(found: re.Match[str]) -> str:
        return f"```{{{found[1].lower()}}}\n" + re.sub(r"^> ?", "", found[2], flags=re.M) + "```\n"

    folder = (ROOT / page).parent
    text = re.sub(r"!\[[^\]]*\]", lambda words: words[0].replace("\n", " "), source[0])
    text = re.sub(r"^> \[!(NOTE|IMPORTANT)\]\n((?:>.*\n)+)", box, text, flags=re.M)
    text = re.sub(r"\[([^\]]*)\]\(([^)#:]+)\)", lambda link: link[1] if (folder / link[2]).is_dir() else link[0], text)
    text += navigation(page)
    source[0] = text.replace("# this page's address", "# the repository's address")


def line_of(name: str, passage: str) -> int | None:
    """The line of the comment that begins with "[2]", for example."""
    lines = (ROOT / name).read_text("utf-8").splitlines()
    return next(
        (number for number, line in enumerate(lines, 1) if re.search(r"(//|#) " + re.escape(passage), line)), None
    )


def link_files(app: Sphinx, doctree: nodes.document) -> None:
    """A link to one of our files leads to a page that shows it, and "[2]" beside it to that line."""
    folder = pathlib.PurePosixPath(app.env.docname).parent
    for link in list(doctree.findall(download_reference)):
        name = (ROOT / folder / link["reftarget"]).resolve().relative_to(ROOT).as_posix()
        app.shown_files.add(name)
        uri = "../" * len(folder.parts) + name + ".html"
        paragraph = link.parent
        link.replace_self(nodes.reference("", "", *link.children, refuri=uri))
        for passage in list(paragraph.findall(nodes.literal)):
            line = line_of(name, passage.astext()) if re.fullmatch(r"\[\d+\]", passage.astext()) else 0
            if line and not isinstance(passage.parent, nodes.reference):
                passage.replace_self(nodes.reference("", "", passage.deepcopy(), refuri=f"{uri}#line-{line}"))


COMMAND = re.compile(r"(\./learn|build/|tests/|(mpirun|srun|cmake|ctest|export|python3|for|cat|git|rm) |\w+=|#!)")


def mark_commands(app: Sphinx, doctree: nodes.document) -> None:
    """Blocks to be typed look different from what they print, and can be copied (site.js)."""
    for block in doctree.findall(nodes.literal_block):
        if block.get("language", "none") in ("none", "default", "", "sh") and COMMAND.match(block.astext()):
            block["classes"].append("command")


def frame_pictures(app: Sphinx, doctree: nodes.document) -> None:
    """On a narrow screen, a picture is moved sideways (site.css), not shrunk until nobody can read it."""
    for picture in doctree.findall(nodes.image):
        picture.parent["classes"].append("picture")


def file_pages(app: Sphinx) -> Iterator[tuple[str, dict[str, str], str]]:
    for name in sorted(app.shown_files):
        lexer = (find_lexer_class_for_filename(name) or TextLexer)()
        shown = highlight(
            (ROOT / name).read_text("utf-8"),
            lexer,
            HtmlFormatter(linenos="inline", linespans="line", lineanchors="number", anchorlinenos=True),
        )
        heading = name.replace("/", "/<wbr>").replace("_", "_<wbr>")  # where a narrow screen breaks it
        body = f'<h1 class="file">{heading}</h1><div class="file">{shown}</div>'
        yield name, {"title": name, "body": body}, "page.html"


def add_player(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """These pages step through the runs that their pictures are drawn from."""
    picture = {"02_broadcast/README": "tree", "03_all_reduce/README": "ring", "05_ddp_training/README": "overlap"}.get(
        page
    )
    if picture:
        run = json.loads((ROOT / "docs/pictures/runs.json").read_text("utf-8"))[picture]
        del run["command"]
        app.add_js_file(None, body=f"const RUN = {json.dumps(run)};")
        app.add_js_file("player.js")
        app.add_js_file(f"{picture}.js")


def bundle_theme(app: Sphinx, error: Exception | None) -> None:
    """Debian's Furo is not bundled: its script imports another, its style a path of a server."""
    static = pathlib.Path(app.outdir) / "_static"
    script, style = static / "scripts/furo.js", static / "styles/furo.css"
    if not error and script.read_text("utf-8").startswith("import Gumshoe"):
        own = script.read_text("utf-8").partition("\n")[2]
        script.write_text((script.parent / "gumshoe-patched.js").read_text("utf-8") + own, "utf-8")
        style.write_text(re.sub(r'@import *(url\()?"?/javascript[^;]*;', "", style.read_text("utf-8")), "utf-8")


def setup(app: Sphinx) -> None:
    app.shown_files = set()
    app.connect("source-read", prepare)
    app.connect("doctree-read", link_files, priority=100)  # before Sphinx copies downloads
    app.connect("doctree-read", mark_commands)
    app.connect("doctree-read", frame_pictures)
    app.connect("html-collect-pages", file_pages)
    app.connect("html-page-context", add_player)
    app.connect("html-page-context", next_page)
    app.connect("html-page-context", describe)
    app.connect("doctree-resolved", name_pages)
    app.connect("build-finished", bundle_theme)
