"""An ablation: its rows, table and figures."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

import movegrad as mg
from experiments.display import draw_band
from experiments.framework import Part, Row, Rows, Tasks
from experiments.recovery.ablations import Ablation, Curves
from experiments.recovery.exact_minimizers import inside_parity_class, interior, minimizer, parity_class
from experiments.recovery.learn import SETS, Condition, instances, learn, squared_distance, target_mean
from experiments.recovery.sizes import Sizes
from experiments.statistics import mean_and_half_width, rounded
from experiments.verdicts import Interval, paired, verdict

METRICS = ("loss", "excess", "distance")
REDUCIBLE = ("cube {6}", "small cube {2}")


@dataclass(frozen=True)
class Settings:
    curves: Curves
    seed: int = 0


def part(ablation: Ablation, sizes: Sizes, seed: int) -> Part:
    settings = Settings(ablation.curves(sizes), seed)
    return Part(ablation.name, settings, tasks, partial(tables, ablation), partial(figures, ablation))


def tasks(settings: Settings) -> Tasks:
    return {key: partial(one_row, condition, settings.seed) for key, condition in settings.curves.items()}


def one_row(condition: Condition, seed: int) -> Row:
    """Learn, and reduce to means with half-widths over instances; the tail is the mean over the last tenth of the updates."""
    curves = learn(condition, seed)
    row: Row = {"n": curves.n.tolist()}
    last = curves.n >= 0.9 * condition.updates
    for name in METRICS:
        mean, half = mean_and_half_width(getattr(curves, name).T)
        row[name], row[f"{name}_half"] = rounded(mean, 7), rounded(half)
    row["tail_distance"] = rounded(curves.distance[last].mean(0), 4)
    row["tail_excess"] = rounded(mean_and_half_width(curves.excess[last].mean(0)))
    return row | limits(condition, seed)


def limits(condition: Condition, seed: int) -> Row:
    """What could be reached at best: ‖θ*_N − θ₀‖² for N observations, or the fixed point of a chain kept in one class."""
    problem, t = SETS[condition.set](), condition.temperature
    theta0, _ = instances(seed, condition.instances, problem.size)
    mean = target_mean(problem, theta0, condition, seed)
    if condition.observations is not None:
        exists = interior(mean)
        best = minimizer(mg.exact.enumeration(problem), mean[exists], t) if exists.any() else mean[exists]
        return {"exists": exists.tolist(), "limit": rounded(squared_distance(problem, best, theta0[exists]))}
    if condition.set in REDUCIBLE:
        inside = np.array([inside_parity_class(problem, mean, odd) for odd in (False, True)])
        best = [minimizer(parity_class(problem, odd), mean[inside[int(odd)]], t) for odd in (False, True)]
        distances = [squared_distance(problem, b, theta0[i]) for b, i in zip(best, inside, strict=True)]
        return {"exists": inside.tolist(), "limit": rounded(np.concatenate(distances))}
    return {}


def panel(key: str) -> str:
    return key.split(" | ")[0]


def differences(rows: Rows) -> dict[str, Interval]:
    """The distance minus that of the curve before in the panel, on the same instances."""
    out: dict[str, Interval] = {}
    before = ""
    for key, row in rows.items():
        if before and panel(before) == panel(key):
            both = min(len(row["tail_distance"]), len(rows[before]["tail_distance"]))
            out[key] = paired(np.subtract(row["tail_distance"][:both], rows[before]["tail_distance"][:both]))
        before = key
    return out


def ratios(rows: Rows) -> dict[str, Interval]:
    """The mean log of the distance over that of the curve before, on the same instances: one that lies far off counts as any."""
    out: dict[str, Interval] = {}
    before = ""
    for key, row in rows.items():
        if before and panel(before) == panel(key):
            both = min(len(row["tail_distance"]), len(rows[before]["tail_distance"]))
            out[key] = paired(np.log(row["tail_distance"][:both]) - np.log(rows[before]["tail_distance"][:both]))
        before = key
    return out


def times(logarithm: Interval) -> str:
    """A ratio with its interval; verdicts are those of differences."""
    mean, low, high = np.exp(logarithm)
    return f"{mean:.3g} ({low:.3g} – {high:.3g})"


def tables(ablation: Ablation, settings: Settings, rows: Rows) -> Iterator[Table]:
    """Distances to θ₀ and excess risks over the last tenth of the updates, with 95 % intervals."""
    out, change, ratio = Table(title=f"Adam: {ablation.title}"), differences(rows), ratios(rows)
    limited = any("exists" in row for row in rows.values())
    headers = ["‖θ̂ − θ₀‖²", "median", "minus row above, paired", "over row above, paired", "L(θ̂) − L(θ₀)"]
    headers += ["θ* exists", "‖θ* − θ₀‖²"] * limited
    for header in ["", "", *headers]:
        out.add_column(header, no_wrap=True)
    for key, row in rows.items():
        changed = change.get(key)
        cells = [shown(row["tail_distance"]), f"{np.median(row['tail_distance']):.3g}"]
        minus = f"{changed.mean:+.2g} ± {changed.half:.1g}: {verdict(changed)}" if changed else ""
        cells += [minus, times(ratio[key]) if changed else "", "{:.3g} ± {:.1g}".format(*row["tail_excess"])]
        if "exists" in row:
            cells += [f"{np.mean(row['exists']):.0%}", shown(row["limit"]) if len(row["limit"]) > 1 else "–"]
        name, label = key.split(" | ")
        out.add_row("" if changed else name, label, *cells)
    yield out


def shown(values: list[float]) -> str:
    """Mean ± half-width of its 95 % interval."""
    mean, half = mean_and_half_width(np.array(values))
    return f"{mean:.3g} ± {half:.1g}"


def best_losses(ablation: Ablation, curves: Curves, rows: Rows) -> dict[str, float]:
    """The lowest mean loss recorded: in the whole panel, or on the own curve where objectives or instances differ."""
    own = {key: min(row["loss"]) for key, row in rows.items()}
    if not ablation.shared_objective:
        return own
    alike = {key: (panel(key), curves[key].instances) for key in rows}
    return {key: min(loss for other, loss in own.items() if alike[other] == alike[key]) for key in own}


def figures(ablation: Ablation, settings: Settings, rows: Rows) -> dict[str, Figure]:
    best, panels = best_losses(ablation, settings.curves, rows), {}
    for key in rows:
        panels.setdefault(ablation.figure(settings.curves[key]), {}).setdefault(panel(key), []).append(key)
    panels.pop(None, None)
    return {name: draw(rows, best, chosen) for name, chosen in panels.items()}


def draw(rows: Rows, best: dict[str, float], panels: dict[str, list[str]]) -> Figure:
    """Distance (dotted: of the minimizer), loss, and its excess over L(θ₀) (dotted: over the best loss found)."""
    figure, axes = plt.subplots(3, len(panels), figsize=(2.6 * len(panels), 5.2), squeeze=False, layout="constrained")
    for column, (title, keys) in zip(axes.T, panels.items(), strict=True):
        for color, key in enumerate(keys):
            row, style = rows[key], {"color": f"C{color}", "label": key.split(" | ")[1], "lw": 1.2}
            draw_band(column[0], row["n"], row["distance"], row["distance_half"], **style)
            draw_band(column[1], row["n"], row["loss"], row["loss_half"], **style)
            draw_band(column[2], row["n"], row["excess"], row["excess_half"], **style)
            over = np.array(row["loss"]) - best[key]
            column[2].plot(row["n"], np.where(over > 0, over, np.nan), color=f"C{color}", ls=":", lw=1)
            if len(row.get("limit", ())) > 0.5 * len(row["tail_distance"]):
                column[0].axhline(np.mean(row["limit"]), color=f"C{color}", ls=":", lw=1)
        column[0].set_title(title, fontsize=9)
        column[0].set(yscale="log")
        column[2].set(yscale="log", xlabel="update n")
        for axis, metric in ((column[0], "distance"), (column[2], "excess")):
            axis.set_ylim(bottom=0.3 * min(min(rows[key][metric]) for key in keys))
        column[2].legend(loc="upper center", bbox_to_anchor=(0.5, -0.35), ncols=2, fontsize=6, frameon=False)
    for axis, text in zip(axes[:, 0], ("squared distance to θ₀", "loss", "excess of the loss"), strict=True):
        axis.set_ylabel(text)
    return figure
