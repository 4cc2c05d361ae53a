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


# Text that is hard to read: contrast with what is behind it below 4.5, 3 for large text (WCAG 2); of pictures, also too small.
HARD_TO_READ = """
() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true}), known = new Map();
  const rgba = color => {
    if (!known.has(color)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = color;
      canvas.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
      known.set(color, [r, g, b, a / 255]);
    }
    return known.get(color);
  };
  const over = (front, back) => [0, 1, 2].map(k => front[3] * front[k] + (1 - front[3]) * back[k]);
  const light = color => color.map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
  const behind = node => {
    if (!node) return rgba(matchMedia("(prefers-color-scheme: dark)").matches ? "black" : "white");
    const own = rgba(getComputedStyle(node).backgroundColor);
    return own[3] === 1 ? own : over(own, behind(node.parentElement));
  };
  const bad = new Set(), walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement, text = walker.currentNode.textContent.trim();
    if (!text || node.closest("script, style, title, noscript, .headerlink, .visually-hidden, .skip-to-content")) continue;
    if (!node.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
    const box = node.getBoundingClientRect(), style = getComputedStyle(node), size = parseFloat(style.fontSize);
    if (!box.width || !box.height) continue;
    const inside = node.namespaceURI.endsWith("svg"), back = behind(node);
    const front = over(rgba(inside ? style.fill : style.color), back);
    const [high, low] = [light(front), light(back.slice(0, 3))].sort((a, b) => b - a), contrast = (high + 0.05) / (low + 0.05);
    const least = size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
    if (contrast < least) bad.add(`${node.tagName}.${node.className} "${text.slice(0, 30)}": contrast ${contrast.toFixed(2)}`);
    if (inside && box.height < 9) bad.add(`${text.slice(0, 30)}: ${box.height.toFixed(0)} px high`);
  }
  return [...bad].slice(0, 5);
}
"""

# What scrolls sideways, or would have to: tables and code may, in boxes of their own.
TOO_WIDE = """
() => {
  const bad = new Set(), wide = innerWidth + 1, boxes = "pre, table, .table-wrapper, .highlight";
  if (document.documentElement.scrollWidth > wide) bad.add(`the page: ${document.documentElement.scrollWidth} px`);
  const scrolls = node => ["auto", "scroll"].includes(getComputedStyle(node).overflowX) && node.scrollWidth > node.clientWidth + 1;
  const within = node => node && node !== document.body && (scrolls(node) || within(node.parentElement));
  for (const node of document.querySelectorAll("article, article *, body > :not(script)")) {
    const name = `${node.tagName}.${node.getAttribute("class") ?? ""}`;
    if (scrolls(node) && !node.matches(boxes) && !node.matches(":has(> pre, > table)")) bad.add(`${name} scrolls`);
    const {width, right} = node.getBoundingClientRect();
    if (node.closest("article") && width && right > wide && !within(node)) bad.add(`${name} ends at ${right.toFixed(0)} px`);
  }
  return [...bad].slice(0, 5);
}
"""


@pytestmark_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_can_be_read_on_a_phone_and_none_asks_the_network(browser, address, scheme):
    context = browser.new_context(viewport={"width": 400, "height": 800}, color_scheme=scheme, reduced_motion="reduce")
    tab, asked, bad = context.new_page(), [], {}
    tab.on("request", lambda request: asked.append(request.url))
    for path in pages():
        name = path.relative_to(SITE).as_posix()
        tab.goto(f"{address}/{name}")
        tab.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")  # code that is folded away
        ground = tab.evaluate("getComputedStyle(document.body).backgroundColor")
        if (sum(map(int, ground[4:-1].split(","))) < 200) != (scheme == "dark"):
            bad[name] = [f"its ground is {ground}"]
        elif wrong := tab.evaluate(HARD_TO_READ) + tab.evaluate(TOO_WIDE):
            bad[name] = wrong
    context.close()
    assert bad == {}
    assert [url for url in asked if not url.startswith((address, "data:"))] == []


@pytestmark_browser
def test_what_cannot_be_read_would_be_noticed(tab):
    tab.set_viewport_size({"width": 400, "height": 800})
    begin, end = "<!doctype html><body style='background: white; color: black; margin: 0'><article>", "</article></body>"
    for right in (
        "<p>black</p>",
        "<p style='color: #888; font-size: 24px'>large</p>",
        "<pre style='overflow: auto'>" + 99 * "wide",
    ):
        tab.set_content(begin + right + end)
        assert tab.evaluate(HARD_TO_READ) + tab.evaluate(TOO_WIDE) == [], right
    for wrong, word in {
        "<p style='color: #888'>pale</p>": "contrast 3.54",
        "<p style='color: rgba(0, 0, 0, 0.4)'>thin</p>": "contrast 2.85",
        "<div style='background: rgba(0, 0, 0, 0.8)'><p>dark on dark</p></div>": "contrast",
        "<p style='color: #aaa; font-size: 24px'>large</p>": "contrast",
        "<p style='width: 500px'>wide</p>": "the page: 500 px",
        "<div style='overflow: auto'><p style='width: 500px'>wide</p></div>": "DIV. scrolls",
        "<div style='overflow: hidden'><p style='width: 500px'>cut off</p></div>": "ends at 500 px",
    }.items():
        tab.set_content(begin + wrong + end)
        assert any(word in said for said in tab.evaluate(HARD_TO_READ) + tab.evaluate(TOO_WIDE)), wrong
