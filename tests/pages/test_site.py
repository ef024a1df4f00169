"""The course as a web site: what ./learn site builds, opened in a browser."""

import functools
import http.server
import json
import pathlib
import re
import threading
import urllib.parse
from collections.abc import Callable, Iterator

import pytest
from browser import Browser
from programs import BROWSER, ROOT, built, command, runs


@functools.cache
def ring(ranks: int) -> str:
    """The rows of a run, as text."""
    return runs(ranks, "all_reduce --algorithm ring --json").out


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("site")
    result = command(f"{ROOT}/learn site {folder}", limit=120)
    if "missing packages" in result.err:
        pytest.skip(result.err)
    assert result.status == 0, result.out + result.err
    return folder


def test_every_link_of_the_site_leads_to_a_file_of_it(site: pathlib.Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 100
    for page in pages:
        text = page.read_text("utf-8")
        assert not re.search(r'<(script|img|link|iframe)[^>]* (src|href)="(https?:)?//', text), page
        for link in re.findall(r' (?:href|src)="([^"#?:]+)["#?]', text):
            assert (page.parent / link).resolve().exists(), f"{page}: {link}"
    assert sum(file.stat().st_size for file in site.rglob("*") if file.is_file()) < 12_000_000


class Reader(Browser):
    site = ""


@pytest.fixture(scope="module")
def reader(site: pathlib.Path) -> Iterator[Reader]:
    """Opens pages of the site. Afterwards, no page may have logged an error or asked other hosts."""
    if BROWSER is None:
        pytest.skip("needs chromium")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=site)
    with http.server.ThreadingHTTPServer(("localhost", 0), handler) as server, (browser := Reader(limit=900)):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser.site = f"http://localhost:{server.server_port}/"
        yield browser
        logged = [entry["entry"] for entry in browser.of("Log.entryAdded")]
        logged = [entry for entry in logged if not entry.get("url", "").endswith("/favicon.ico")]
        assert logged + browser.of("Runtime.exceptionThrown") == []
        asked = {call["request"]["url"] for call in browser.of("Network.requestWillBeSent")}
        assert [url for url in asked if not url.startswith((browser.site, "data:"))] == []
        server.shutdown()


# What is wrong with a page for those who do not see it, or see it on a phone, as a list.
FAULTS = """(() => {
  const all = (selector) => [...document.querySelectorAll(selector)], faults = [];
  const name = (one) => [one.textContent, one.ariaLabel, one.title, one.placeholder, one.labels?.[0]?.textContent,
                         one.querySelector?.("img")?.alt].some((words) => words?.trim());
  const report = (what, ones) => ones.length && faults.push(`${what}: ${ones[0].outerHTML.slice(0, 200)}`);
  if (!document.documentElement.lang) faults.push("no language");
  report("no alternative text", all("img").filter((image) => !image.alt));
  report("no name", all("button, input, select, summary, a[href]").filter(
    (one) => !name(one) && one.checkVisibility({ visibilityProperty: true })));
  const levels = all("article :is(h1, h2, h3, h4, h5, h6)");
  const titles = levels.filter((one) => one.tagName === "H1").length;
  if (titles !== 1 && !location.pathname.endsWith("/search.html")) faults.push("not one h1");
  report("heading out of order", levels.filter((one, i) => one.tagName[1] > (levels[i - 1]?.tagName[1] ?? 0) * 1 + 1));
  const scrolls = (one) => one && one.tagName !== "ARTICLE" && (
    /auto|scroll|hidden/.test(getComputedStyle(one).overflowX) || scrolls(one.parentElement));
  report("wider than the screen", all("article *").filter(
    (one) => one.getBoundingClientRect().right > innerWidth + 1 && !scrolls(one.parentElement)));
  report("letters too small", all("article img").filter(
    (image) => image.naturalWidth && image.width < 0.6 * image.naturalWidth));
  return faults; })()"""


@pytest.fixture
def phone(reader: Reader) -> Iterator[Reader]:
    reader.call("Emulation.setDeviceMetricsOverride", width=400, height=800, deviceScaleFactor=1, mobile=True)
    yield reader
    reader.call("Emulation.clearDeviceMetricsOverride")


@pytest.mark.long
def test_every_page_opens_and_can_be_used_on_a_phone(site: pathlib.Path, phone: Reader) -> None:
    for page in site.rglob("*.html"):
        phone.open(phone.site + str(page.relative_to(site)))
        assert phone.run(FAULTS) == [], page


@pytest.mark.long
def test_the_focus_can_be_seen(reader: Reader) -> None:
    reader.open(reader.site + "03_all_reduce/README.html")
    for _ in range(25):
        reader.press("Tab")
        assert reader.run("""(() => {
          const style = getComputedStyle(document.activeElement);
          return style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2; })()"""), reader.run(
            "document.activeElement.outerHTML"
        )


@pytest.mark.long
@pytest.mark.parametrize(
    "words, page",
    [
        ("reduce-scatter", "03_all_reduce/README"),
        ("what happens when one rank never calls a collective", "docs/pytorch"),
        ("which samples belong to a rank", "04_distributed_sampler/README"),
        ("start from a checkpoint on a different number of ranks", "05_ddp_training/advanced/checkpoints"),
    ],
)
def test_search_finds_the_page(reader: Reader, words: str, page: str) -> None:
    reader.open(f"{reader.site}search.html?q={urllib.parse.quote(words)}")
    assert reader.run(f"""(async () => {{
      const found = () => document.querySelector("#search-results a[href^='{page}.html']");
      for (let i = 0; i < 1200 && !found(); ++i) await new Promise((go) => setTimeout(go, 50));
      return found() !== null; }})()""")


def luminance(colour: str) -> float:
    """WCAG 2's, of "rgb(19, 20, 22)"."""
    parts = [float(part) / 255 for part in re.findall(r"[\d.]+", colour)[:3]]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear))


def contrast(reader: Reader, selector: str) -> float:
    """Of the first such element's text with what is behind it."""
    colours = reader.run(f"""(() => {{
      let behind, element = document.querySelector("{selector}");
      const colour = getComputedStyle(element).color;
      do behind = getComputedStyle(element).backgroundColor;
      while (/, 0\\)$/.test(behind) && (element = element.parentElement));
      return [colour, behind]; }})()""")
    low, high = sorted(map(luminance, colours))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.long
@pytest.mark.parametrize("prefers", ["dark", "light"])
def test_the_site_is_as_dark_as_the_system_and_can_be_read(reader: Reader, prefers: str) -> None:
    reader.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": prefers}])
    reader.open(reader.site + "03_all_reduce/README.html")
    assert reader.run("document.body.dataset.theme") == prefers
    behind = luminance(reader.run("getComputedStyle(document.body).backgroundColor"))
    assert behind < 0.1 if prefers == "dark" else behind > 0.9
    for selector in "h1", "article p", "article p a", "article pre", "article p code", "article td", ".sidebar-tree a":
        assert contrast(reader, selector) >= 4.5, selector
    # Furo's button goes from "auto" to the other one, and a stored choice counts.
    other = {"dark": "light", "light": "dark"}[prefers]
    reader.run("document.querySelector('.theme-toggle').click()")
    assert reader.run("document.body.dataset.theme") == other
    reader.open(reader.site + "README.html")
    assert reader.run("document.body.dataset.theme") == other
    reader.run("localStorage.setItem('theme', 'auto')")


@pytest.mark.long
def test_commands_are_told_from_what_they_print_and_can_be_copied(reader: Reader) -> None:
    reader.open(reader.site + "03_all_reduce/README.html")
    kinds = reader.run("""[...document.querySelectorAll('div.highlight-none, div.highlight-default')].map(
        (block) => [block.classList.contains('command'), block.querySelector('pre').textContent.split('\\n')[0]])""")
    assert [True, "mpirun -np 4 build/bin/all_reduce"] in kinds and [True, "./learn check 3 --watch"] in kinds
    assert [False, "naive: rank 0 receives all numbers and sends the sum to the others"] not in kinds
    assert [False, "full-tensor-ring: a ring with the right sum is a ring all-reduce?"] in kinds
    reader.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    reader.run("document.querySelector('.command button').focus()")
    reader.press(" ")
    assert reader.run("""(async () => {
      const button = document.querySelector('.command button');
      for (let i = 0; i < 100 && button.textContent !== 'Copied'; ++i) await new Promise((go) => setTimeout(go, 50));
      return [button.textContent, await navigator.clipboard.readText()]; })()""") == [
        "Copied",
        "mpirun -np 4 build/bin/broken/all_reduce full-tensor-ring",
    ]


@pytest.mark.long
@pytest.mark.parametrize(
    "page, following",
    [("01_send_recv/README", "02_broadcast/README.html"), ("05_ddp_training/README", "docs/pytorch.html")],
)
def test_after_a_lesson_comes_what_it_says(reader: Reader, page: str, following: str) -> None:
    reader.open(f"{reader.site}{page}.html")
    assert reader.run("document.querySelector('a.next-page').href") == reader.site + following


@pytest.mark.long
def test_the_sidebar_has_groups_with_further_pages_below_their_lessons(reader: Reader) -> None:
    reader.open(reader.site + "README.html")
    assert reader.run(
        "[...document.querySelectorAll('.sidebar-tree .caption-text')].map((one) => one.textContent)"
    ) == ["Lessons", "At work", "Reference", "Measured"]
    lessons = "document.querySelectorAll('.sidebar-tree > ul')[0].children"
    assert reader.run(f"{lessons}.length") == 5
    reader.open(reader.site + "05_ddp_training/advanced/memory.html")
    below = reader.run(f"[...{lessons}[4].querySelectorAll(':scope > ul a')].map((one) => one.textContent)")
    assert below[0] == "Lesson 5, further" and "Memory: does it fit?" in below


@pytest.mark.long
def test_a_page_is_described_and_its_links_have_titles(site: pathlib.Path, reader: Reader) -> None:
    reader.open(reader.site + "03_all_reduce/README.html")
    described = reader.run("document.querySelector('meta[name=description]').content")
    assert described.startswith("You will be able to write the ring all-reduce")
    assert "until every rank" in (site / "README.html").read_text("utf-8")  # the alt text of two lines
    assert reader.run("document.querySelector('link[rel*=icon]').href").endswith("favicon.svg")
    assert (
        reader.run("[...document.querySelectorAll('article a')].some((link) => /\\.md$/.test(link.textContent))")
        is False
    )
    assert reader.run("document.querySelector(\"article a[href='further.html']\").textContent") == "Lesson 3, further"


@pytest.mark.long
def test_search_works_in_a_page_that_was_opened_as_a_file(site: pathlib.Path) -> None:
    if BROWSER is None:
        pytest.skip("needs chromium")
    with Browser(limit=120) as browser:
        browser.open(f"file://{site}/search.html?q=reduce-scatter")
        assert (
            browser.run("""(async () => {
          const found = () => document.querySelectorAll("#search-results li").length;
          for (let i = 0; i < 600 && !found(); ++i) await new Promise((go) => setTimeout(go, 50));
          await new Promise((go) => setTimeout(go, 500));
          return found(); })()""")
            > 3
        )
        assert [event for event in browser.of("Log.entryAdded") if event["entry"]["level"] == "error"] == []
        assert browser.of("Runtime.exceptionThrown") == []


@pytest.mark.long
def test_a_quiz_answers_and_remembers(reader: Reader) -> None:
    page, says = reader.site + "01_send_recv/README.html", "document.querySelector('.quiz + div').textContent"
    choose = "document.querySelectorAll('.quiz button')[{}].click()"
    reader.open(page)
    reader.run(choose.format(0))
    assert re.match(r"Wrong\. .* returns? before", reader.run(says))
    reader.run(choose.format(1))
    right = reader.run(says)
    assert right.startswith("Right: b. Up to the eager limit")
    reader.open(page)
    assert reader.run(says) == right


@pytest.mark.long
def test_a_passage_leads_to_its_line(reader: Reader) -> None:
    reader.open(reader.site + "01_send_recv/README.html")
    link = reader.run("[...document.querySelectorAll('a')].find((a) => a.textContent === '[2]').href")
    reader.open(link)
    shown = f"document.getElementById('{link.partition('#')[2]}')"
    assert "[2]" in reader.run(f"{shown}.textContent")
    assert reader.run(f"getComputedStyle({shown}).backgroundColor") != "rgba(0, 0, 0, 0)"  # it is marked


BACK, FORWARD = (f"document.querySelectorAll('.player button')[{i}]" for i in (0, 1))


def numbers_and_shares(reader: Reader) -> list[list[tuple[str, str]]]:
    """[rank][chunk] = [sum, shares], as the player of lesson 3's page shows them."""
    words = reader.run("[...document.querySelectorAll('.player text')].map((text) => text.textContent)")
    shown = " ".join(words).split("rank ")[1:]
    return [re.findall(r"(-?\d+) ([a-h]+)\b", column.partition(" chunk")[0][3:]) for column in shown]


def says(reader: Reader) -> str:
    return reader.run("document.querySelector('.player output').textContent")


@pytest.mark.long
def test_the_tree_doubles_the_ranks_that_have_the_tensor(reader: Reader) -> None:
    reader.open(reader.site + "02_broadcast/README.html")
    full = "document.querySelectorAll('.player .whole').length"
    counts = [reader.run(full)]
    while not reader.run(FORWARD + ".disabled"):
        reader.run(FORWARD + ".click()")
        counts.append(reader.run(full))
    assert counts == [1, 2, 4, 8] and says(reader).startswith("Round 3 of 3: 4 messages")


@pytest.mark.long
def test_a_step_shows_what_overlap_saves(reader: Reader) -> None:
    reader.open(reader.site + "05_ddp_training/README.html")
    picture = (ROOT / "docs/pictures/overlap.svg").read_text("utf-8")
    for way, waited in zip(("without", "with"), re.findall(r"(\d+) ms of them waiting", picture)):
        reader.run(f"""{{ const choice = document.querySelector(".player select");
                       choice.value = "{way}"; choice.dispatchEvent(new Event("change")); }}""")
        said = [says(reader)]
        while not reader.run(FORWARD + ".disabled"):
            reader.run(FORWARD + ".click()")
            said.append(says(reader))
        assert f"all buckets are there, and the optimizer begins. So far, {waited} ms" in said[-2]
        assert any("backward goes on" in text for text in said) == (way == "with")
    assert reader.run("document.querySelectorAll('.player rect').length") == 6


def drop(reader: Reader, text: str) -> None:
    reader.run(f"""(async () => {{
      const files = new DataTransfer();
      files.items.add(new File([{json.dumps(text)}], "mine.jsonl"));
      const says = document.querySelector(".player output"), before = says.textContent;
      document.querySelector(".player").dispatchEvent(new DragEvent("drop", {{dataTransfer: files}}));
      while (says.textContent === before && document.querySelector(".player select").value) {{
        await new Promise((go) => setTimeout(go, 10));
      }} }})()""")


@pytest.mark.long
@built
@pytest.mark.parametrize("ranks", [2, 4, 7])
def test_the_ring_ends_with_the_sums_that_the_program_prints(reader: Reader, ranks: int) -> None:
    rows = [row for row in map(json.loads, ring(ranks).splitlines()) if "message" in row]
    sums = {row["chunk"]: str(int(row["values"][0])) for row in rows if len(row["shares"]) == ranks}
    reader.open(reader.site + "03_all_reduce/README.html")
    assert len(numbers_and_shares(reader)) == 4
    drop(reader, ring(ranks))  # test_pictures compares the site's runs with new ones
    first, steps = numbers_and_shares(reader), 0
    while not reader.run(FORWARD + ".disabled"):
        reader.run(FORWARD + ".click()")
        steps += 1
    everyone = "abcdefgh"[:ranks]
    assert numbers_and_shares(reader) == [[(sums[chunk], everyone) for chunk in range(ranks)]] * ranks
    assert steps == 2 * (ranks - 1) and f"{steps / ranks:.2f} S." in says(reader)
    while not reader.run(BACK + ".disabled"):
        reader.run(BACK + ".click()")
    assert numbers_and_shares(reader) == first


def message_in(text: str) -> str:
    return re.findall('.*"message".*\n', text)[0]


@pytest.mark.long
@pytest.mark.parametrize(
    "damage, sentence",
    [
        (lambda text: text[:-20], "one of its lines is not JSON"),
        (lambda text: "", "it has no messages of 2 to 8 ranks"),
        (
            lambda text: text.replace('"step":3,"from":1', '"step":9,"from":1'),
            "the message of rank 1 in step 3 is missing",
        ),
        (lambda text: text.replace('"shares":"abc"', '"shares":"<b>"'), "the message of rank 2 in step 3 is damaged"),
        (
            lambda text: text.replace("[6004.0]", "[6005.0]", 1),
            "the message of rank 2 in step 5 is not what the rank has",
        ),
        (lambda text: text + message_in(text), "it has 25 messages instead of 24"),
        (lambda text: text + re.sub('"to":[0-9]', '"to":"x"', message_in(text)), "it has 25 messages instead of 24"),
        (lambda text: re.sub('"chunk":1', '"chunk":1.5', text, count=1), "the message of rank 2 in step 1 is damaged"),
    ],
)
def test_a_damaged_run_gets_one_sentence(reader: Reader, damage: Callable[[str], str], sentence: str) -> None:
    reader.open(reader.site + "03_all_reduce/README.html")
    before = numbers_and_shares(reader)
    drop(reader, damage(ring(4)))
    assert says(reader) == f"mine.jsonl cannot be shown: {sentence}."
    assert numbers_and_shares(reader) == before


@pytest.mark.long
def test_the_keyboard_suffices(reader: Reader) -> None:
    reader.open(reader.site + "03_all_reduce/README.html")
    reader.run("document.querySelector('.player select').focus()")
    reader.press("ArrowDown")
    assert len(numbers_and_shares(reader)) == 5
    reader.press("Tab")  # Back cannot be used yet, so this reaches the slider
    reader.press("ArrowRight")
    assert says(reader).startswith("Step 1 of 8")
    reader.press("Tab")
    reader.press(" ")
    assert says(reader).startswith("Step 2 of 8")
