"""The course as a web site: what ./learn site builds, opened in a browser."""
import functools
import http.server
import json
import re
import threading

import pytest

from programs import BROWSER, ROOT, command

# Opens pages in a frame, acts like a reader, and leaves what it saw in the page.
DRIVER = """<iframe id=frame width=1300 height=900></iframe><script>
const frame = document.getElementById("frame"), seen = {pages: 0};
const open = (page) => new Promise((done) => {
  frame.onload = () => done(frame.contentDocument);
  frame.src = page;
});
(async () => {
  for (const name of PAGES) { await open(name); seen.pages += 1; }
  let page = await open("search.html?q=reduce-scatter");
  while (!page.querySelector("#search-results a[href^='03_all_reduce/README.html']")) {
    await new Promise((go) => setTimeout(go, 50));
  }
  page = await open("01_send_recv/README.html");
  const says = page.querySelector(".quiz + div"), [a, b] = page.querySelectorAll(".quiz button");
  a.click();
  seen.wrong = says.textContent;
  b.click();
  seen.right = says.textContent;
  await open("README.html");
  page = await open("01_send_recv/README.html");
  seen.kept = page.querySelector(".quiz + div").textContent;
  const passage = [...page.querySelectorAll("a")].find((link) => link.textContent === "[2]");
  page = await open(passage.href);
  const line = page.getElementById(passage.hash.slice(1)).nextElementSibling;
  seen.passage = line.textContent + line.nextElementSibling.textContent;
  document.body.textContent = JSON.stringify(seen);
})();
</script>"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    result = command(f"{ROOT}/learn site {folder}", limit=120)
    if "missing packages" in result.err:
        pytest.skip(result.err)
    assert result.status == 0, result.out + result.err
    return folder


def test_every_link_of_the_site_leads_to_a_file_of_it(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 100
    for page in pages:
        text = page.read_text("utf-8")
        assert not re.search(r'<(script|img|link|iframe)[^>]* (src|href)="(https?:)?//', text), page
        for link in re.findall(r' (?:href|src)="([^"#?:]+)["#?]', text):
            assert (page.parent / link).resolve().exists(), f"{page}: {link}"
    assert sum(file.stat().st_size for file in site.rglob("*") if file.is_file()) < 8_000_000


@pytest.mark.skipif(BROWSER is None, reason="needs chromium")
def test_a_reader_searches_answers_and_follows_a_passage(site):
    pages = [str(page.relative_to(site)) for page in site.rglob("*.html")]
    (site / "driver.html").write_text(DRIVER.replace("PAGES", json.dumps(pages)))
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=site)
    with http.server.ThreadingHTTPServer(("localhost", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        result = command(f"{BROWSER} --headless --no-sandbox --disable-gpu --enable-logging=stderr "
                         "--virtual-time-budget=100000 --dump-dom "
                         f"http://localhost:{server.server_port}/driver.html", limit=120)
        server.shutdown()
    assert "CONSOLE" not in result.err, result.err  # missing files are reported there, too
    seen = json.loads(re.search(r"\{.*\}", result.out)[0])
    assert seen["pages"] == len(pages) and seen["kept"] == seen["right"]
    assert re.match(r"Wrong\. .* returns? before", seen["wrong"])
    assert seen["right"].startswith("Right: b. Up to the eager limit")
    assert "[2]" in seen["passage"]
