"""Rows as tables and figures."""

from collections.abc import Iterable, Sequence
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

from experiments.display import legend_below, table
from experiments.dvrptw.data import FOLDER
from experiments.dvrptw.layers import CHAINS, SOLVERS, TITLES
from experiments.dvrptw.settings import Calibrated, Learned, Played, Solved
from experiments.dvrptw.studies import Comparison
from experiments.framework import rebuilt
from experiments.store import Row, Rows, read_record, understood
from experiments.verdicts import Interval, stated
from experiments.verdicts import paired as interval_of

PAPER = {  # best test gap in percent by milliseconds, 100 arrivals per wave; the baseline's solver is PC-HGS
    "pfy": {1: 65.2, 5: 13.1, 10: 8.7, 50: 6.5, 100: 6.3, 1000: 5.5},
    "target": {1: 10.0, 5: 12.0, 10: 11.8, 50: 9.1, 100: 8.4, 1000: 7.7},
    "heuristic": {1: 7.8, 5: 7.2, 10: 6.3, 50: 6.2, 100: 5.9, 1000: 5.9},
}
COLORS = {"pfy": "C3", "pfy-warm": "C1", "target": "C0", "heuristic": "C2", "random": "C5", "pfy-last": "C4"}
MARKS = {"pfy": "s", "pfy-warm": "D", "target": "o", "heuristic": "^", "random": "v", "pfy-last": "P"}
LAYER = ("kind", "milliseconds", "steps", "temperature", "sigma")  # what tells layers apart
NOT_LEARNED = "did not learn"
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


def spread(rows: Sequence[Row], reference: np.ndarray) -> Interval:
    """Of gaps: over seeds and days, for a policy without training over days."""
    values = gaps(rows, reference)
    return interval_of(values[0] if is_policy(rows) else values)


def is_policy(rows: Sequence[Row]) -> bool:
    """Whether nothing was trained: there are no seeds then."""
    return all("policy" in row for row in rows)


def learned(runs: Sequence[Row]) -> bool:
    """Whether some seed has an epoch that is better on validation than the network before training."""
    return any(row["best_epoch"] > 0 for row in runs)


def policies_grid(rows: Sequence[Row], base: "Reference") -> Grid:
    lines = [[row["policy"], str(spread([row], base.costs)), *base.calibrated(spread([row], base.costs))] for row in rows]
    return [["policy", "gap, %", *base.more], *lines]


def part_grid(rows: Sequence[Row], base: "Reference", papers: bool = False) -> Grid:
    """One line for each layer; gap with its interval over seeds and days, what training took, and the paper's best gap."""
    header = ["layer", "budget", "t or σ", "seeds", "gap, %", *base.more, "best seed", "best epochs", "steps reached", "layer, ms"]
    header += ["training, s"] + (["paper's best"] if papers else [])
    lines = []
    for (kind, ms, steps, t, sigma), runs in grouped(rows, *LAYER).items():
        values, gap = gaps(runs, base.costs), spread(runs, base.costs)
        mean = {k: np.mean([r[k] for r in runs]) for k in ("steps_reached", "layer_ms", "seconds")}
        epochs = ", ".join(str(r["best_epoch"]) for r in runs) + f" of {len(runs[0]['validation']) - 1}"
        lines.append([
            TITLES[kind], _budget(ms, steps), _setting(kind, t, sigma), str(len(runs)),
            str(gap) + ("" if learned(runs) else f" ({NOT_LEARNED})"), *base.calibrated(gap), f"{values.mean(1).min():.2f}", epochs,
            f"{mean['steps_reached']:.0f}", f"{mean['layer_ms']:.2f}", f"{mean['seconds']:.0f}",
            *([str(PAPER.get(kind, {}).get(ms, "–"))] if papers else []),
        ])  # fmt: skip
    return [header, *lines]


def paired(first: Sequence[Row], second: Sequence[Row], reference: np.ndarray) -> Interval:
    """Mean difference of gaps on the same days, seed by seed; negative: the first is better.

    A policy without training stands beside every seed of the other. Two layers are paired over the seeds that both have.
    """
    a, b = gaps(first, reference), gaps(second, reference)
    if is_policy(first) and is_policy(second):
        return interval_of(a[0] - b[0])
    seeds = max(len(a), len(b)) if is_policy(first) or is_policy(second) else min(len(a), len(b))
    return interval_of(np.broadcast_to(a[:seeds], (seeds, a.shape[1])) - np.broadcast_to(b[:seeds], (seeds, b.shape[1])))


def paired_grid(rows: Sequence[Row], others: Sequence[Row], reference: np.ndarray) -> Grid:
    """Chains against perturbed solvers at the same budget, the strongest rival first, then every layer against other policies."""
    out: Grid = [["budget", "first", "second", "first − second, points: first is"]]
    found = grouped(rows, *LAYER)
    mean = {key: gaps(runs, reference).mean() for key, runs in found.items()}
    for key, runs in found.items():
        rivals = [k for k in found if k[0] in SOLVERS and k[1:3] == key[1:3]] if key[0] in CHAINS else []
        for rival in sorted(rivals, key=lambda k: mean[k]):
            difference = paired(runs, found[rival], reference)
            out.append([_budget(*key[1:3]), _layer(key), _layer(rival), stated(difference)])
    for key, runs in found.items():
        for other in others:
            if other["policy"] in ("kleopatra", "greedy"):
                difference = paired(runs, [other], reference)
                out.append([_budget(*key[1:3]), _layer(key), NAMES.get(other["policy"], other["policy"]), stated(difference)])
    return out


NAMES = {"kleopatra": "published network"}


def settings_grid(part: Comparison, rows: Sequence[Row], reference: np.ndarray) -> Grid:
    """What the setting that is studied does: for every layer from one value to the next, and from the first to the last.

    Chains of different starts are compared where they have the same setting.
    """
    out: Grid = [["first", "second", "first − second, points: first is"]]
    found, place = grouped(rows, *LAYER), LAYER.index(part.x)
    alike: dict[tuple, list[tuple]] = {}
    for key in found:
        if part.x != "kind":
            alike.setdefault((*key[:place], *key[place + 1 :]), []).append(key)
    pairs = []
    for keys in alike.values():
        ordered = sorted((k for k in keys if k[place] is not None), key=lambda k: k[place])
        pairs += [(b, a) for a, b in pairwise(ordered)]
        pairs += [(ordered[-1], ordered[0])] if len(ordered) > 2 else []
    others = [k for k in found if k[0] not in SOLVERS]
    pairs += [(b, a) for a, b in combinations(others, 2) if a[1:4] == b[1:4] and a[0] != b[0]]
    for first, second in pairs:
        names = (f"{_layer(key)}, {_budget(*key[1:3])}" for key in (first, second))
        out.append([*names, stated(paired(found[first], found[second], reference))])
    return out


def chosen(rows: Sequence[Row]) -> dict[tuple, list[Row]]:
    """By (kind, milliseconds): the runs of the configuration with the least validation cost, mean over seeds at the best epoch."""
    out: dict[tuple, list[Row]] = {}
    best: dict[tuple, float] = {}
    for key, runs in grouped(rows, *LAYER).items():
        cost = float(np.mean([min(r["validation"]) for r in runs]))
        if key[:2] not in best or cost < best[key[:2]]:
            out[key[:2]], best[key[:2]] = runs, cost
    return out


def _budget(milliseconds: float | None, steps: int | None) -> str:
    return f"{milliseconds:g} ms" if milliseconds is not None else f"K = {steps}"


def _setting(kind: str, temperature: float, sigma: float) -> str:
    noise = {} if kind in CHAINS else {"σ": sigma}
    heat = {} if kind in SOLVERS else {"t": temperature}
    return ", ".join(f"{name} = {value:g}" for name, value in (heat | noise).items())


def _layer(key: tuple) -> str:
    return f"{TITLES[key[0]]}, {_setting(key[0], key[3], key[4])}"


# --- tables ----------------------------------------------------------------------------------------------------------


class Reference(NamedTuple):
    """Costs by day from which gaps are measured, in hindsight or of the greedy policy; policies to compare with.

    ``offset``: percent by which such costs in hindsight lie above the published ones, on days that have both.
    """

    costs: np.ndarray
    hindsight: bool
    policies: list[Row]
    offset: Interval | None = None

    def titled(self, title: str) -> str:
        if not self.hindsight:
            return f"{title}; gaps over greedy, costs in hindsight are not known (--only anticipative)"
        return title if self.offset else f"{title}; hindsight is not calibrated (--only calibration): gaps are too small"

    @property
    def more(self) -> list[str]:
        """A column for gaps to costs as good as the published ones."""
        return ["calibrated, %"] if self.offset else []

    def calibrated(self, gap: Interval) -> list[str]:
        return [f"{100 * ((1 + gap.mean / 100) * (1 + self.offset.mean / 100) - 1):.1f}"] if self.offset else []


def reference(out: Path, settings: Played, policies: Rows | None = None) -> Reference:
    """From what was kept of the same days in this folder."""
    solved = of_same_days(out / "anticipative.json", Solved, settings)
    played = of_same_days(out / "policies.json", Played, settings) if policies is None else policies
    if all(day in solved for day in settings.days):
        costs = np.array([solved[day]["cost"] for day in settings.days], float)
        return Reference(costs, True, list(played.values()), offset(out, settings))
    if "greedy" not in played:
        raise ValueError(f"{out} has no costs to measure gaps from: --only policies plays these days by the greedy policy.")
    return Reference(np.array(played["greedy"]["costs"], float), False, list(played.values()))


def offset(out: Path, settings: Played) -> Interval | None:
    """Percent of our hindsight above the published one, where it was computed as for the test days."""
    path, solved = out / "calibration.json", out / "anticipative.json"
    if not path.exists() or not solved.exists():
        return None
    record, of_test = read_record(path), read_record(solved)
    with understood(path):
        same = record.settings["arrivals"] == settings.arrivals and record.settings["hindsight"] == of_test.settings["hindsight"]
        return above_published(record.rows) if same and record.rows else None


def above_published(rows: Rows) -> Interval:
    return interval_of(np.array([100 * (row["cost"] / row["published"] - 1) for row in rows.values()]))


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


def calibration_tables(settings: Calibrated, rows: Rows) -> list[Table]:
    above = {day: 100 * (row["cost"] / row["published"] - 1) for day, row in rows.items()}
    lines = [[day, str(row["cost"]), str(row["published"]), f"{above[day]:+.2f}"] for day, row in rows.items()]
    by_day = table("Published days in hindsight, solved as the test days are", "day", "cost", "published", "above, %", lines=lines)
    mean = above_published(rows)
    lines = [[str(len(rows)), f"{mean.mean:+.2f} ({mean.low:+.2f} – {mean.high:+.2f})"]]
    return [by_day, table("Offset of costs in hindsight: gaps are too small by it", "days", "above the published, %", lines=lines)]


def policy_tables(out: Path, settings: Played, rows: Rows) -> list[Table]:
    base = reference(out, settings, rows)
    header, *lines = policies_grid(list(rows.values()), base)
    return [table(base.titled("Policies on the test days"), *header, lines=lines)]


def in_order(comparison: Comparison, rows: Rows) -> list[Row]:
    """By the setting that is studied, whichever was run first; layers as they were run."""
    x = comparison.x
    return list(rows.values()) if x == "kind" else sorted(rows.values(), key=lambda row: np.inf if row[x] is None else row[x])


def learned_tables(out: Path, comparison: Comparison, settings: Learned, rows: Rows) -> list[Table]:
    base, listed = reference(out, settings), in_order(comparison, rows)
    grid = part_grid(listed, base, papers(comparison, settings, base))
    paired_to = paired_grid(listed, base.policies, base.costs)
    within = settings_grid(comparison, listed, base.costs)
    by = "paired by seed and day"
    titles = base.titled(comparison.title), f"Against rivals, {by}", f"One setting against another, {by}"
    made = [table(title, *grid[0], lines=grid[1:]) for title, grid in zip(titles, (grid, paired_to, within), strict=True)]
    return [one for one in made if one.row_count]


def choice_tables(out: Path, settings: Learned, rows: Rows) -> list[Table]:
    """What validation chose for every layer and budget, then these against each other."""
    base, listed = reference(out, settings), list(rows.values())
    picked = [row for runs in chosen(listed).values() for row in runs]
    counts = {(kind, ms): len({key for key in grouped(listed, *LAYER) if key[:2] == (kind, ms)}) for kind, ms in chosen(listed)}
    header, *lines = part_grid(picked, base)
    tried = [f"{counts[key[:2]]}" for key in grouped(picked, *LAYER)]
    lines = [[*line, n] for line, n in zip(lines, tried, strict=True)]
    pairs = paired_grid(picked, base.policies, base.costs)
    first = table(base.titled("Chosen on validation"), *header, "configurations", lines=lines)
    return [first, table("The chosen ones, paired by seed and day", *pairs[0], lines=pairs[1:])]


def played_tables(instances: int, settings: Played, rows: Rows) -> list[Table]:
    """Costs of the days of some instances, and every policy against every other; over seeds of arrivals and over instances."""
    costs = {row["policy"]: np.array(row["costs"], float).reshape(-1, instances) for row in rows.values()}
    names = {policy: NAMES.get(policy, policy) for policy in costs}

    def less(policy: str, other: str) -> str:
        change = 100 * (costs[policy] / costs[other] - 1)
        return stated(interval_of(change[0] if len(change) == 1 else change))

    base, *others = costs
    title = f"{len(settings.days)} days of {instances} instances, {settings.arrivals} arrivals per wave"
    lines = [[names[policy], f"{costs[policy].mean():.0f}", "" if policy == base else less(policy, base)] for policy in costs]
    shown = [table(title, "policy", "mean cost", f"less {names[base]}, %", lines=lines)]
    if len(others) > 1:
        pairs = [[names[one], names[other], less(one, other)] for other, one in combinations(others, 2)]
        shown.append(table(f"{title}: in pairs", "first", "second", "first less second, %", lines=pairs))
    return shown


def replay_tables(settings: Played, rows: Rows) -> list[Table]:
    """In percent of the published network's cost, or of the greedy policy's."""
    policies = {key: row for key, row in rows.items() if "policy" in row}
    name = "kleopatra" if "kleopatra" in policies else "greedy"
    base = np.array(policies[name]["costs"], float)
    out = table(f"{settings.arrivals} arrivals per wave", "who", "mean cost", f"less {NAMES.get(name, name)}, %")
    for key, row in policies.items():
        less = "" if key == name else stated(paired([row], [policies[name]], base))
        out.add_row(NAMES.get(key, key), f"{np.mean(row['costs']):.0f}", less)
    for layer, runs in grouped([row for row in rows.values() if "policy" not in row], *LAYER).items():
        shown = f"{_layer(layer)}, {_budget(*layer[1:3])}"
        out.add_row(shown, f"{np.mean([r['costs'] for r in runs]):.0f}", stated(paired(runs, [policies[name]], base)))
    return [out]


def learned_figures(out: Path, comparison: Comparison, settings: Learned, rows: Rows) -> dict[str, Figure]:
    base, listed = reference(out, settings), list(rows.values())
    return {comparison.name: part_figure(comparison, listed, base)}


def papers(comparison: Comparison, settings: Learned, base: Reference) -> bool:
    """Whether the paper's gaps can stand beside ours: on its data, from costs in hindsight."""
    return comparison.name == "budget" and settings.data == FOLDER and base.hindsight


# --- figures ---------------------------------------------------------------------------------------------------------


AXES = {"milliseconds": "time of the layer, ms", "steps": "steps K of the chain", "temperature": "temperature t, s"}


def part_figure(part: Comparison, rows: Sequence[Row], base: Reference) -> Figure:
    """Left: gap by the setting that is studied, hollow where nothing was learned. Right: validation cost by epoch.

    Gaps of the paper are not drawn: they have other days, another solver and better costs in hindsight.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.6), layout="constrained")
    (draw_kinds if part.x == "kind" else draw_settings)(left, part, rows, base.costs)
    for policy in base.policies:
        if policy["policy"] in ("kleopatra", "greedy"):
            level, style = gaps([policy], base.costs).mean(), {"kleopatra": "--", "greedy": ":"}[policy["policy"]]
            line = left.axvline if part.x == "kind" else left.axhline
            line(level, color="0.4", ls=style, lw=1, label=NAMES.get(policy["policy"], policy["policy"]))
    left.grid(alpha=0.3)
    draw_curves(right, part, rows)
    legend_below(figure, left)
    return figure


GAP = "test gap, % (95 % over seeds and days)"


def draw_kinds(axes: Any, part: Comparison, rows: Sequence[Row], reference: np.ndarray) -> None:
    """Dots with intervals, a line for each layer."""
    found = {kind: runs for (kind,), runs in grouped(rows, "kind").items()}
    for place, (kind, runs) in enumerate(found.items()):
        draw_point(axes, kind, runs, reference, place, upright=False)
    axes.set(yticks=range(len(found)), yticklabels=[TITLES[kind] for kind in found], ylim=(len(found) - 0.5, -0.5), xlabel=GAP)


def draw_settings(axes: Any, part: Comparison, rows: Sequence[Row], reference: np.ndarray) -> None:
    """A line for each layer along the setting; layers stand a little beside each other."""
    kinds = grouped([r for r in rows if r[part.x] is not None], "kind")
    tops, nothing = [], []
    for number, ((kind,), of_kind) in enumerate(kinds.items()):
        by_x, beside = grouped(of_kind, part.x), 1.06 ** (number - (len(kinds) - 1) / 2)
        xs = sorted(x for (x,) in by_x if learned(by_x[x,]))
        nothing += [(kind, x * beside) for (x,) in by_x if x not in xs]
        means = [gaps(by_x[x,], reference).mean() for x in xs]
        axes.plot([x * beside for x in xs], means, "-", lw=1, color=COLORS[kind])
        for x in xs:
            draw_point(axes, kind, by_x[x,], reference, x * beside, upright=True, label=TITLES[kind] if x == xs[0] else None)
        tops += means
    axes.set(xscale="log", xlabel=AXES[part.x], ylabel=GAP)
    marks = sorted(x for (x,) in grouped([r for r in rows if r[part.x] is not None], part.x))
    axes.set_xticks(marks, [f"{x:g}" for x in marks])
    axes.minorticks_off()
    if tops and min(tops) > 0:  # intervals of few seeds may be wider than all differences
        axes.set_ylim(0.6 * min(tops), 1.25 * max(tops))
    for n, (kind, x) in enumerate(nothing):  # at the upper edge, wherever their gaps are
        label = {} if n else {"label": f"{NOT_LEARNED} (gaps above)"}
        place = {"transform": axes.get_xaxis_transform(), "clip_on": False}
        axes.plot([x], [1.0], MARKS[kind], ms=7, mfc="white", mec=COLORS[kind], **place, **label)


def draw_point(
    axes: Any, kind: str, runs: Sequence[Row], reference: np.ndarray, at: float, upright: bool, label: str | None = None
) -> None:
    """A mean with its interval."""
    value = spread(runs, reference)
    half = value.half if np.isfinite(value.half) else 0.0
    style = {"fmt": MARKS[kind], "ms": 5, "capsize": 3, "color": COLORS[kind], "label": label}
    style |= {} if learned(runs) else {"mfc": "white"}
    if upright:
        axes.errorbar([at], [value.mean], [half], clip_on=True, **style)
    else:
        axes.errorbar([value.mean], [at], xerr=[half], **style)


def draw_curves(axes: Any, part: Comparison, rows: Sequence[Row]) -> None:
    """Validation cost over that of the untrained network, mean over seeds; darker lines have more of what is studied."""
    found = grouped([r for r in rows if r[part.x] is not None], "kind", part.x)
    for (kind, x), runs in found.items():
        curves = np.array([np.array(r["validation"]) / r["validation"][0] for r in runs])
        rank = sorted(v for k, v in found if k == kind).index(x) if part.x != "kind" else 0
        count = sum(k == kind for k, _ in found)
        axes.plot(curves.mean(0), color=COLORS[kind], alpha=0.35 + 0.65 * (rank + 1) / count, lw=1.2)
    more = {"milliseconds": " (darker: more time)", "steps": " (darker: larger K)", "temperature": " (darker: hotter)"}
    axes.set(xlabel=f"epoch{more.get(part.x, '')}", ylabel="validation cost / untrained")
    axes.grid(alpha=0.3)
