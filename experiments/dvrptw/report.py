"""Rows as tables and figures."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

from experiments.display import table
from experiments.dvrptw.data import FOLDER
from experiments.dvrptw.intervals import Interval, crossed
from experiments.dvrptw.layers import TITLES
from experiments.dvrptw.settings import Learned, Played, Solved
from experiments.dvrptw.studies import Comparison
from experiments.framework import rebuilt
from experiments.store import Row, Rows, read_record, understood

PAPER = {  # best test gap in percent by milliseconds, 100 arrivals per wave; the baseline's solver is PC-HGS
    "pfy": {1: 65.2, 5: 13.1, 10: 8.7, 50: 6.5, 100: 6.3, 1000: 5.5},
    "target": {1: 10.0, 5: 12.0, 10: 11.8, 50: 9.1, 100: 8.4, 1000: 7.7},
    "heuristic": {1: 7.8, 5: 7.2, 10: 6.3, 50: 6.2, 100: 5.9, 1000: 5.9},
}
COLORS = {"pfy": "C3", "target": "C0", "heuristic": "C2", "random": "C1", "pfy-last": "C4"}
Grid = list[list[str]]  # a table: header and lines


def gaps(rows: Sequence[Row], reference: np.ndarray) -> np.ndarray:
    """Percent above the reference, (seeds, days)."""
    return 100 * (np.array([row["costs"] for row in rows], float) / reference - 1)


def grouped(rows: Iterable[Row], *names: str) -> dict[tuple, list[Row]]:
    """Rows by the values of some columns, seeds in order."""
    out: dict[tuple, list[Row]] = {}
    for row in sorted(rows, key=lambda r: r.get("seed", 0)):
        out.setdefault(tuple(row[name] for name in names), []).append(row)
    return out


def policies_grid(rows: Sequence[Row], reference: np.ndarray) -> Grid:
    lines = [[row["policy"], str(crossed(gaps([row], reference)))] for row in rows]
    return [["policy", "gap, %"], *lines]


def part_grid(rows: Sequence[Row], reference: np.ndarray, papers: bool = False) -> Grid:
    """One line for each layer; gap with its interval over seeds and days, what training took, and the paper's best gap."""
    header = ["layer", "budget", "t", "seeds", "gap, %", "best seed", "best epoch", "steps reached", "layer, ms", "training, s"]
    header += ["paper's best"] if papers else []
    lines = []
    for (kind, ms, steps, t), runs in grouped(rows, "kind", "milliseconds", "steps", "temperature").items():
        values = gaps(runs, reference)
        mean = {k: np.mean([r[k] for r in runs]) for k in ("best_epoch", "steps_reached", "layer_ms", "seconds")}
        lines.append([
            TITLES[kind], _budget(ms, steps, t).split(",")[0], "–" if kind == "pfy" else f"{t:g}", str(len(runs)),
            str(crossed(values)), f"{values.mean(1).min():.2f}", f"{mean['best_epoch']:.0f}", f"{mean['steps_reached']:.0f}",
            f"{mean['layer_ms']:.2f}", f"{mean['seconds']:.0f}", *([str(PAPER.get(kind, {}).get(ms, "–"))] if papers else []),
        ])  # fmt: skip
    return [header, *lines]


def paired(first: Sequence[Row], second: Sequence[Row], reference: np.ndarray) -> Interval:
    """Mean difference of gaps on the same days, seed by seed; negative: the first is better."""
    a, b = gaps(first, reference), gaps(second, reference)
    seeds = max(len(a), len(b)) if min(len(a), len(b)) == 1 else min(len(a), len(b))
    return crossed(np.broadcast_to(a, (seeds, a.shape[1]))[:seeds] - np.broadcast_to(b[:seeds], (seeds, b.shape[1])))


def paired_grid(rows: Sequence[Row], others: Sequence[Row], reference: np.ndarray) -> Grid:
    """Chains against PFY around PyVRP at the same budget, and every layer against policies that were not trained here."""
    out: Grid = [["at", "first", "second", "first − second, points", "first is"]]
    found = grouped(rows, "milliseconds", "steps", "temperature", "kind")
    rivals = {key[:3]: runs for key, runs in found.items() if key[3] == "pfy"}
    for (*setting, kind), runs in found.items():
        if kind != "pfy" and tuple(setting) in rivals:
            difference = paired(runs, rivals[tuple(setting)], reference)
            out.append(_versus(_budget(*setting), TITLES[kind], TITLES["pfy"], difference))
    for (*setting, kind), runs in found.items():
        for other in others:
            if other["policy"] in ("kleopatra", "greedy"):
                out.append(_versus(_budget(*setting), TITLES[kind], other["policy"], paired(runs, [other], reference)))
    return out


def _budget(milliseconds: float | None, steps: int | None, temperature: float) -> str:
    return (f"{milliseconds:g} ms" if milliseconds is not None else f"K = {steps}") + f", t = {temperature:g}"


def _versus(at: str, first: str, second: str, difference: Interval) -> list[str]:
    verdict = "better" if difference.high < 0 else "worse" if difference.low > 0 else "not told apart"
    return [at, first, second, str(difference), verdict]


# --- tables ----------------------------------------------------------------------------------------------------------


class Reference(NamedTuple):
    """Costs by day from which gaps are measured, in hindsight or of the greedy policy; policies to compare with."""

    costs: np.ndarray
    hindsight: bool
    policies: list[Row]

    def titled(self, title: str) -> str:
        return title if self.hindsight else f"{title}; gaps over greedy, costs in hindsight are not known (--only anticipative)"


def reference(out: Path, settings: Played, policies: Rows | None = None) -> Reference:
    """From what was kept of the same days in this folder."""
    solved = of_same_days(out / "anticipative.json", Solved, settings)
    played = of_same_days(out / "policies.json", Played, settings) if policies is None else policies
    if all(day in solved for day in settings.days):
        return Reference(np.array([solved[day]["cost"] for day in settings.days], float), True, list(played.values()))
    if "greedy" not in played:
        raise ValueError(f"{out} has no costs to measure gaps from: --only policies plays these days by the greedy policy.")
    return Reference(np.array(played["greedy"]["costs"], float), False, list(played.values()))


def of_same_days(path: Path, kind: type[Played], settings: Played) -> Rows:
    """Rows of a file, none where it is of other days."""
    if not path.exists():
        return {}
    record = read_record(path)
    with understood(path):
        return record.rows if rebuilt(kind, record.settings).same_days == settings.same_days else {}


def solved_tables(settings: Solved, rows: Rows) -> list[Table]:
    mean = f"{np.mean([row['cost'] for row in rows.values()]):.0f}"
    return [table("Test days in hindsight", "days", "mean cost", lines=[[str(len(rows)), mean]])]


def policy_tables(out: Path, settings: Played, rows: Rows) -> list[Table]:
    base = reference(out, settings, rows)
    header, *lines = policies_grid(list(rows.values()), base.costs)
    return [table(base.titled("Policies on the test days"), *header, lines=lines)]


def learned_tables(out: Path, comparison: Comparison, settings: Learned, rows: Rows) -> list[Table]:
    base, listed = reference(out, settings), list(rows.values())
    grid = part_grid(listed, base.costs, papers(comparison, settings, base))
    paired_to = paired_grid(listed, base.policies, base.costs)
    titles = base.titled(comparison.title), "Paired on the same days"
    return [table(title, *grid[0], lines=grid[1:]) for title, grid in zip(titles, (grid, paired_to), strict=True)]


def learned_figures(out: Path, comparison: Comparison, settings: Learned, rows: Rows) -> dict[str, Figure]:
    base = reference(out, settings)
    figure = part_figure(comparison, list(rows.values()), base.costs, papers(comparison, settings, base))
    return {comparison.name: figure}


def papers(comparison: Comparison, settings: Learned, base: Reference) -> bool:
    """Whether the paper's gaps can stand beside ours: on its data, from costs in hindsight."""
    return comparison.name == "budget" and settings.data == FOLDER and base.hindsight


# --- figures ---------------------------------------------------------------------------------------------------------


def part_figure(part: Comparison, rows: Sequence[Row], reference: np.ndarray, papers: bool = False) -> Figure:
    """Left: gap by the setting that is studied, with the paper's best as dashed lines. Right: validation cost by epoch."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    if part.x == "kind":
        for place, ((kind,), runs) in enumerate(grouped(rows, "kind").items()):
            value = crossed(gaps(runs, reference))
            left.errorbar([place], [value.mean], [_finite(value.half)], fmt="o", capsize=4, color=COLORS[kind], label=TITLES[kind])
        left.set_xticks([])
    else:
        for (kind,), of_kind in grouped(rows, "kind").items():
            by_x = grouped([r for r in of_kind if r[part.x] is not None], part.x)
            xs = sorted(x for (x,) in by_x)
            values = [crossed(gaps(by_x[x,], reference)) for x in xs]
            halves = [_finite(v.half) for v in values]
            left.errorbar(xs, [v.mean for v in values], halves, fmt="o-", capsize=3, color=COLORS[kind], label=TITLES[kind])
            if papers and kind in PAPER:
                left.plot(*zip(*PAPER[kind].items(), strict=True), "--", lw=1, color=COLORS[kind], alpha=0.6)
        left.set_xscale("log")
        if papers:
            left.plot([], [], "--", lw=1, color="gray", label="paper's best, 100 arrivals")
    names = {"milliseconds": "time of the layer, ms", "steps": "K", "temperature": "temperature t, s", "kind": ""}
    left.set(xlabel=names[part.x], ylabel="test gap, % (95 % over seeds and days)")
    tops = [crossed(gaps(runs, reference)).mean for runs in grouped(rows, "kind", part.x).values()]
    if min(tops) > 0:  # intervals of few seeds may be wider than all differences
        left.set_ylim(0, 1.4 * max(tops))
    left.grid(alpha=0.3)
    left.legend(fontsize=8)
    draw_curves(right, part, rows)
    return figure


def draw_curves(axes: Any, part: Comparison, rows: Sequence[Row]) -> None:
    """Validation cost over that of the untrained network, mean over seeds; darker lines have more of what is studied."""
    found = grouped(rows, "kind", part.x)
    for (kind, x), runs in found.items():
        curves = np.array([np.array(r["validation"]) / r["validation"][0] for r in runs])
        rank = sorted(v for k, v in found if k == kind).index(x) if part.x != "kind" else 0
        count = sum(k == kind for k, _ in found)
        axes.plot(curves.mean(0), color=COLORS[kind], alpha=0.35 + 0.65 * (rank + 1) / count, lw=1.2)
    more = {"milliseconds": " (darker: more time)", "steps": " (darker: larger K)", "temperature": " (darker: hotter)"}
    axes.set(xlabel=f"epoch{more.get(part.x, '')}", ylabel="validation cost / untrained")
    axes.grid(alpha=0.3)


def _finite(value: float) -> float:
    return value if np.isfinite(value) else 0.0
