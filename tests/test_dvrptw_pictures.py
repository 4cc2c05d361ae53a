"""Pictures of a day: the strip, and the page in a real browser."""

import json
import re
import shutil
from itertools import pairwise
from string import Template

import numpy as np
import pytest

pytest.importorskip("pyvrp")

from experiments.dvrptw.data import Source
from experiments.dvrptw.evaluate import Judge
from experiments.dvrptw.pictures import COLORS, PAGE, draw_day, frames_of, page, strip
from experiments.dvrptw.policies import Policy

SOURCE = Source(None, 10, 30)
DAY = PAGE.parent / "results" / "quick" / "day.html"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
NASTY = "a <b>day</b> <!--<script> </script> & \u2028\u2029 $data"  # what may end a script, or keep it from ending


@pytest.fixture(scope="module")
def day():
    return frames_of(SOURCE, Policy("random"), SOURCE.days("test", 1)[0], Judge(iterations=10))


def test_every_request_has_the_color_of_what_happened_to_it(day):
    statuses = {frame.status(i) for frame in day for i in range(1, len(frame.wave) + 1)}
    assert statuses == set(COLORS) == {"must", "served", "postponed"}
    for before, after in pairwise(day):
        waiting = {int(before.wave.ids[i]) for i in range(1, len(before.wave) + 1) if before.status(i) == "postponed"}
        assert waiting <= set(after.wave.ids.tolist()), "what is postponed is open in the next wave"
        gone = {int(before.wave.ids[i]) for i in range(1, len(before.wave) + 1)} - waiting
        assert not gone & set(after.wave.ids[1:].tolist())
    assert all(day[-1].status(i) == "must" for i in range(1, len(day[-1].wave) + 1))


def test_the_strip_has_a_map_for_each_wave(day):
    figure = strip(day)
    assert len(figure.axes) == len(day)
    drawn = sum(len(axes.lines) for axes in figure.axes)
    assert drawn == sum(len(frame.routes) for frame in day)
    figure.clear()


def test_the_page_holds_the_day_and_nothing_from_elsewhere(day, tmp_path):
    text = page(day, NASTY)
    assert "<b>day" not in text.split("<script>")[0]
    encoded = re.search(r"const day = (.*);\n", text)[1]
    assert not set(encoded) & set("<>&\u2028\u2029")
    data = json.loads(encoded)
    assert data["title"] == NASTY
    assert [len(wave["requests"]) for wave in data["waves"]] == [len(frame.wave) for frame in day]
    costs = [sum(route["cost"] for route in wave["routes"]) for wave in data["waves"]]
    assert costs == [frame.wave.cost(frame.routes) for frame in day]
    assert not re.findall(r"(?:src|href)=|https?://(?!www\.w3\.org)", text), "self-contained"
    paths = draw_day(SOURCE, Policy("greedy"), SOURCE.days("test", 1)[0], Judge(iterations=5), tmp_path)
    assert [p.name for p in paths] == ["day.png", "day.html"]
    assert all(p.stat().st_size > 5000 for p in paths)


def test_the_day_that_comes_with_the_study_is_in_the_page_of_today():
    text = DAY.read_text(encoding="utf-8")
    encoded, title = re.search(r"const day = (.*);\n", text)[1], re.search(r"<title>(.*)</title>", text)[1]
    assert Template(PAGE.read_text(encoding="utf-8")).substitute(title=title, data=encoded) == text


@pytest.mark.filterwarnings("ignore")
def test_a_person_can_step_through_the_page(day, tmp_path):
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    browser_path = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser_path is None:
        pytest.skip(f"no browser among {', '.join(BROWSERS)}")
    (tmp_path / "day.html").write_text(page(day, NASTY), encoding="utf-8")
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=browser_path, args=["--no-sandbox", "--disable-background-networking"])
        tab = browser.new_page()
        problems: list[str] = []
        tab.on("pageerror", lambda error: problems.append(str(error)))
        tab.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        tab.goto((tmp_path / "day.html").as_uri())

        def shown() -> tuple[str, dict[str, int], int]:
            counts = {status: int(tab.text_content(f"#count-{status}")) for status in COLORS}
            assert tab.locator("circle.request").count() == sum(counts.values())
            return tab.text_content("#where"), counts, tab.locator("polyline.route").count()

        assert tab.text_content("h1") == NASTY
        for number, frame in enumerate(day):
            text, counts, routes = shown()
            assert text.startswith(f"wave {number + 1} of {len(day)}")
            kinds = [frame.status(i) for i in range(1, len(frame.wave) + 1)]
            assert counts == {status: kinds.count(status) for status in COLORS}
            assert routes == len(frame.routes)
            if number + 1 < len(day):
                tab.click("#next") if number % 2 else tab.keyboard.press("ArrowRight")
        assert tab.is_disabled("#next")
        tab.click("#back")
        assert shown()[0].startswith(f"wave {len(day) - 1} of")
        tab.fill("#slider", "0")
        assert shown()[0].startswith("wave 1 of")
        assert tab.is_disabled("#back")
        assert problems == []
        browser.close()
    assert np.isfinite(sum(frame.wave.cost(frame.routes) for frame in day))
