"""The built site, as a person finds it: ``make docs`` first, or these tests are skipped."""

import html.parser
import importlib
import inspect
import shutil
import threading
import zlib
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import pytest

from tests.test_docstrings import MODULES
from tests.test_dvrptw_pictures import BROWSERS

SITE = Path(__file__).parents[1] / "build" / "docs"
pytestmark = pytest.mark.skipif(not (SITE / "index.html").exists(), reason="the site is not built: make docs")


class Page(html.parser.HTMLParser):
    """Links and anchors of a page, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.anchors |= {given[key] for key in ("id", "name") if given.get(key)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if tag in ("img", "script", "iframe", "source") and given.get("src"):
            self.loads.append(given["src"])
        if tag == "link" and given.get("rel") in ("stylesheet", "icon", "shortcut icon") and given.get("href"):
            self.loads.append(given["href"])


@cache
def pages() -> dict[Path, Page]:
    return {path: Page(path) for path in sorted(SITE.rglob("*.html")) if "_static" not in path.parts}


def test_no_link_is_broken():
    broken = []
    for path, page in pages().items():
        for link in page.links:
            target, anchor = urldefrag(link)
            if urlsplit(link).scheme:
                continue
            place = (path.parent / unquote(target.partition("?")[0])).resolve() if target else path
            place = place / "index.html" if place.is_dir() else place
            known = pages().get(place)
            if not place.exists() or (anchor and known and unquote(anchor) not in known.anchors):
                broken.append(f"{path.relative_to(SITE)}: {link}")
    assert broken == []


def test_nothing_is_loaded_from_elsewhere():
    """The site works offline."""
    for path, page in pages().items():
        for load in page.loads:
            assert not urlsplit(load).scheme or load.startswith("data:"), f"{path.relative_to(SITE)}: {load}"
            if not load.startswith("data:"):
                assert (path.parent / unquote(load.partition("?")[0])).exists(), f"{path.relative_to(SITE)}: {load}"


def test_every_public_name_is_in_the_reference():
    inventory = (SITE / "objects.inv").read_bytes().split(b"\n", 4)[4]
    listed = {line.split(" ")[0] for line in zlib.decompress(inventory).decode().splitlines() if " py:" in line}
    for name, needs in MODULES.items():
        if importlib.util.find_spec(needs) is None:
            continue
        module = importlib.import_module(name)
        for public in module.__all__:
            value = getattr(module, public)
            if inspect.isclass(value) or inspect.isfunction(value):
                names = {f"{name}.{public}", f"movegrad.{public}", f"movegrad.problem.{public}", f"movegrad.check.{public}"}
                assert (names | {f"movegrad.problems.routing.{public}"}) & listed, f"{name}.{public}"


def test_notebooks_ran_without_errors():
    for path, _ in pages().items():
        text = path.read_text(encoding="utf-8")
        assert "Traceback (most recent call last)" not in text, path.relative_to(SITE)


# --- in a browser ----------------------------------------------------------------------------------------------------------------


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def address():
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SITE)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip(f"no browser among {', '.join(BROWSERS)}")
    with playwright.sync_playwright() as p:
        one = p.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-background-networking"])
        yield one
        one.close()


@pytest.fixture
def tab(browser):
    context = browser.new_context()
    page = context.new_page()
    page.said = []
    page.on("pageerror", lambda error: page.said.append(str(error)))
    page.on("console", lambda message: page.said.append(message.text) if message.type == "error" else None)
    page.asked = []
    page.on("request", lambda request: page.asked.append(request.url))
    yield page
    context.close()


pytestmark_browser = pytest.mark.filterwarnings("ignore")


@pytestmark_browser
@pytest.mark.parametrize(
    ("words", "found"), [("temperature", "choose"), ("FenchelYoungLoss", "reference/torch"), ("R-hat", "info")]
)
def test_search_finds_pages(tab, address, words, found):
    tab.goto(f"{address}/search.html?q={words}")
    tab.wait_for_function("document.querySelector('.search-summary')?.textContent.includes('found')", timeout=20_000)
    links = tab.eval_on_selector_all("#search-results ul.search li a", "all => all.map(a => a.getAttribute('href'))")
    assert any(found in link for link in links), links
    assert tab.said == []


@pytestmark_browser
def test_the_day_steps_with_the_keyboard_inside_its_page(tab, address):
    tab.goto(f"{address}/gallery/dispatch.html")
    frame = tab.frame_locator("iframe.page")
    where = frame.locator("#where")
    frame.locator("#slider").focus()
    assert where.text_content().startswith("wave 1 of")
    tab.keyboard.press("ArrowRight")
    tab.wait_for_timeout(100)
    assert where.text_content().startswith("wave 2 of")
    tab.keyboard.press("ArrowLeft")
    tab.wait_for_timeout(100)
    assert where.text_content().startswith("wave 1 of")
    assert tab.said == []


# Text that is hard to read: contrast below the limit against the first background behind it (WCAG 2), or too small.
HARD_TO_READ = """
(least) => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgba = color => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => [r, g, b].map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
  const behind = node => {
    for (; node; node = node.parentElement) {
      const svg = node.tagName === "svg" ? "rgba(0, 0, 0, 0)" : getComputedStyle(node).backgroundColor, back = rgba(svg);
      if (back[3] > 250) return back;
    }
    return [255, 255, 255, 255];
  };
  const bad = [];
  const walker = document.createTreeWalker(document.querySelector("article"), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement, text = walker.currentNode.textContent.trim();
    const box = node.getBoundingClientRect(), style = getComputedStyle(node);
    if (!text || !box.width || style.visibility === "hidden" || style.opacity === "0") continue;
    if (node.closest("script, style, title, .headerlink, details:not([open])")) continue;
    const inside = node.namespaceURI.endsWith("svg"), front = rgba(inside ? style.fill : style.color), back = behind(node);
    const [high, low] = [light(front), light(back)].sort((a, b) => b - a), contrast = (high + 0.05) / (low + 0.05);
    if (contrast < least) bad.push(`${text.slice(0, 30)}: contrast ${contrast.toFixed(1)}`);
    if (inside && box.height < 9) bad.push(`${text.slice(0, 30)}: ${box.height.toFixed(0)} px high`);
  }
  return bad.slice(0, 5);
}
"""
LOOKED_AT = ("index", "start/picture", "start/which_layer", "start/first_gradient", "gallery/dispatch", "gallery/own_problem",
             "guides/info", "guides/gpu", "theory/index", "reference/movegrad", "studies/knapsack")  # fmt: skip


@pytestmark_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", LOOKED_AT)
def test_a_page_can_be_read_on_a_phone(browser, address, name, scheme):
    context = browser.new_context(viewport={"width": 400, "height": 800}, color_scheme=scheme)
    tab = context.new_page()
    tab.goto(f"{address}/{name}.html")
    width = tab.evaluate("document.documentElement.scrollWidth")
    dark = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    hard = tab.evaluate(HARD_TO_READ, 3.0)
    context.close()
    assert width <= 400, "the page scrolls sideways"
    assert (sum(map(int, dark[4:-1].split(","))) < 200) == (scheme == "dark")
    assert hard == []


@pytestmark_browser
def test_no_page_scrolls_sideways_or_asks_the_network(browser, address):
    context = browser.new_context(viewport={"width": 400, "height": 800})
    tab, asked = context.new_page(), []
    tab.on("request", lambda request: asked.append(request.url))
    wide = []
    for path in pages():
        name = path.relative_to(SITE).as_posix()
        if name.startswith("_modules"):
            continue
        tab.goto(f"{address}/{name}")
        if tab.evaluate("document.documentElement.scrollWidth") > 400:
            wide.append(name)
    context.close()
    assert wide == []
    assert [url for url in asked if not url.startswith((address, "data:"))] == []
