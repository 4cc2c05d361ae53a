"""A day wave by wave: what was served, postponed, had to go; as a strip (PNG) and as a page to step through (HTML)."""

import html
import json
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from experiments.display import save_figure
from experiments.dvrptw.data import Day, Source
from experiments.dvrptw.environment import Routes, Wave, replay
from experiments.dvrptw.evaluate import Judge, play
from experiments.dvrptw.policies import Policy
from experiments.store import write_text

PAGE = Path(__file__).with_name("page.html")
COLORS = {"must": "#c0392b", "served": "#1f77b4", "postponed": "#9a9a9a"}
HOUR = 3600


class Frame(NamedTuple):
    """A wave and the routes of positions sent out in it."""

    wave: Wave
    routes: Routes

    def status(self, position: int) -> str:
        """ "must" (and so served), "served", or "postponed"."""
        if self.wave.must[position]:
            return "must"
        return "served" if any(position in route for route in self.routes) else "postponed"


def frames_of(source: Source, policy: Policy, day: Day, judge: Judge) -> list[Frame]:
    """Play a day."""
    return frames(source, day, play(source, policy, day, judge)["routes"])


def frames(source: Source, day: Day, routes: Any) -> list[Frame]:
    """A day driven by given routes (wave, request numbers)."""
    _, waves, actions = replay(source.environment(day), routes)
    return [Frame(wave, action) for wave, action in zip(waves, actions, strict=True)]


def strip(day: list[Frame], title: str = "") -> Figure:
    """One map for each wave."""
    figure, axes = plt.subplots(1, len(day), figsize=(3 * len(day), 3.7), layout="constrained", squeeze=False)
    for number, (frame, place) in enumerate(zip(day, axes[0], strict=True)):
        _draw(place, frame)
        counts = _counts(frame)
        place.set_title(
            f"wave {number + 1}: {counts['must'] + counts['served']} of {len(frame.wave)} go\n{_clock(frame.wave)}", fontsize=9
        )
    handles = [plt.Line2D([], [], marker="o", ls="", color=color, label=name) for name, color in COLORS.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
    figure.suptitle(title, fontsize=10)
    return figure


def _draw(axes: Any, frame: Frame) -> None:
    points = frame.wave.instance.coordinates[frame.wave.locations]
    for k, route in enumerate(frame.routes):
        path = points[[0, *route, 0]]
        axes.plot(path[:, 0], path[:, 1], lw=0.8, color=plt.get_cmap("tab20")(k % 20), zorder=1)
    kinds = np.array([frame.status(i) for i in range(1, len(points))])
    for name, color in COLORS.items():
        chosen = points[1:][kinds == name]
        axes.scatter(chosen[:, 0], chosen[:, 1], s=12, color=color, zorder=2)
    axes.scatter(*points[0], marker="s", s=40, color="black", zorder=3)
    low, high = frame.wave.instance.coordinates.min(0), frame.wave.instance.coordinates.max(0)
    room = 0.04 * (high - low).max() + 1
    axes.set(xticks=[], yticks=[], aspect="equal", xlim=(low[0] - room, high[0] + room), ylim=(low[1] - room, high[1] + room))


def _counts(frame: Frame) -> dict[str, int]:
    kinds = [frame.status(i) for i in range(1, len(frame.wave) + 1)]
    return {name: kinds.count(name) for name in COLORS}


def _clock(wave: Wave) -> str:
    return f"vehicles leave at {wave.departure // HOUR:02d}:{wave.departure % HOUR // 60:02d}"


def page(day: list[Frame], title: str) -> str:
    """A self-contained page: buttons, slider and arrow keys step through the waves."""
    content = {"title": title, "colors": COLORS, "waves": [_as_data(frame) for frame in day]}
    return Template(PAGE.read_text(encoding="utf-8")).substitute(title=html.escape(title), data=script_data(content))


def script_data(content: Any) -> str:
    """JSON to stand in a script: nothing in it can end the script or, as ``<!--<script>`` does, keep it from ending.

    ``json`` writes ASCII alone, so that line separators, which end a line in JavaScript, are escaped as well.
    """
    return json.dumps(content).translate({ord(c): f"\\u{ord(c):04x}" for c in "<>&"})


def _as_data(frame: Frame) -> dict[str, Any]:
    wave = frame.wave
    points = wave.instance.coordinates[wave.locations]
    requests = [
        {
            "id": int(wave.ids[i]),
            "x": int(points[i, 0]),
            "y": int(points[i, 1]),
            "window": (wave.windows[i] + wave.departure).tolist(),
            "demand": int(wave.demands[i]),
            "status": frame.status(i),
        }
        for i in range(1, len(points))
    ]
    routes = [
        {
            "stops": [i - 1 for i in route],
            "cost": wave.drive(route),
            "load": int(wave.demands[route].sum()),
        }
        for route in frame.routes
    ]
    depot = {"x": int(points[0, 0]), "y": int(points[0, 1])}
    return {"leave": wave.departure, "depot": depot, "requests": requests, "routes": routes, "capacity": wave.instance.capacity}


def draw_day(source: Source, policy: Policy, day: Day, judge: Judge, out: Path) -> list[Path]:
    """Write day.png and day.html; returns their paths."""
    played = frames_of(source, policy, day, judge)
    cost = sum(frame.wave.cost(frame.routes) for frame in played)
    title = f"{day.short}, policy {policy.name}: {cost / HOUR:.1f} h driven"
    figure = strip(played, title)
    save_figure(figure, out / "day.png")
    plt.close(figure)
    write_text(out / "day.html", page(played, title))
    return [out / "day.png", out / "day.html"]
