"""Running an ablation: rows that survive a kill, a table, a CSV file and figures."""

from dataclasses import asdict
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from rich.table import Table

import movegrad as mg
from experiments.common import draw_band, mean_and_half_width, save_figure, write_csv
from experiments.recovery.ablations import Ablation, labels
from experiments.recovery.exact_minimizers import inside_parity_class, interior, minimizer, parity_class
from experiments.recovery.learn import SETS, Condition, Curves, instances, learn, squared_distance, target_mean
from experiments.recovery.study import Study, rounded
from experiments.store import Store

METRICS = ("loss", "excess", "distance")
REDUCIBLE = ("cube {6}", "small cube {2}")
Rows = dict[tuple[str, str], dict[str, Any]]  # by panel and label


def run(ablation: Ablation, study: Study) -> Rows:
    """All curves of a part; returns its rows by panel and label."""
    settings = {f"{p} | {label}": asdict(c) for (p, label), c in ablation.curves.items()}
    store = Store(study.out / f"{ablation.name}.json", {"seed": study.seed, "curves": settings}, study.fresh)
    rows = {}
    task = study.task(ablation.name, sum(c.updates for c in ablation.curves.values()))
    for (panel, label), condition in ablation.curves.items():
        rows[panel, label] = store.get(f"{panel} | {label}", lambda c=condition: one_row(c, study.seed, task.advance))
        task.finish(condition.updates)
    _write(ablation, rows, study)
    study.show(_table(ablation, rows), store.seconds)
    return rows


def one_row(condition: Condition, seed: int, advance: Any = lambda n: None) -> dict[str, Any]:
    """Learn, and reduce to means with half-widths over instances; the tail is the mean over the last tenth of the updates."""
    curves = learn(condition, seed, advance)
    row: dict[str, Any] = {"n": curves.n.tolist()}
    last = curves.n >= 0.9 * condition.updates
    for name in METRICS:
        mean, half = mean_and_half_width(getattr(curves, name).T)
        row[name], row[f"{name}_half"] = rounded(mean, 7), rounded(half)
    row["tail_distance"] = rounded(curves.distance[last].mean(0), 4)
    row["tail_excess"] = rounded(mean_and_half_width(curves.excess[last].mean(0)))
    return row | limits(condition, seed, curves)


def limits(condition: Condition, seed: int, curves: Curves) -> dict[str, Any]:
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


def differences(rows: Rows) -> dict[tuple[str, str], tuple[float, float]]:
    """Mean and half-width of the distance minus that of the curve before in the panel, on the same instances."""
    out, before = {}, None
    for key, row in rows.items():
        if before is not None and before[0] == key[0]:
            both = min(len(row["tail_distance"]), len(rows[before]["tail_distance"]))
            change = np.subtract(row["tail_distance"][:both], rows[before]["tail_distance"][:both])
            mean, half = mean_and_half_width(change)
            out[key] = float(mean), float(half)
        before = key
    return out


def _table(ablation: Ablation, rows: Rows) -> Table:
    """Distances to θ₀ and excess risks over the last tenth of the updates, with 95 % intervals."""
    table, change = Table(title=f"Adam: {ablation.title}"), differences(rows)
    limited = any("exists" in row for row in rows.values())
    headers = ["‖θ̂ − θ₀‖²", "median", "minus row above", "L(θ̂) − L(θ₀)"] + ["θ* exists", "‖θ* − θ₀‖²"] * limited
    for header in ["", "", *headers]:
        table.add_column(header, no_wrap=True)
    for (panel, label), row in rows.items():
        changed = change.get((panel, label))
        cells = [shown(row["tail_distance"]), f"{np.median(row['tail_distance']):.3g}"]
        cells += ["{:+.2g} ± {:.1g}".format(*changed) if changed else "", "{:.3g} ± {:.1g}".format(*row["tail_excess"])]
        if "exists" in row:
            cells += [f"{np.mean(row['exists']):.0%}", shown(row["limit"]) if len(row["limit"]) > 1 else "–"]
        table.add_row("" if changed else panel, label, *cells)
    return table


def shown(values: list[float]) -> str:
    """Mean ± half-width of its 95 % interval."""
    mean, half = mean_and_half_width(np.array(values))
    return f"{mean:.3g} ± {half:.1g}"


def _write(ablation: Ablation, rows: Rows, study: Study) -> None:
    best = best_losses(ablation, rows)
    names = [m for name in METRICS for m in (name, f"{name}_half")]
    lines = [
        [*key, n, *(rounded(row[m][g], 7 if m == "loss" else 4) for m in names), rounded(row["loss"][g] - best[key], 4)]
        for key, row in rows.items()
        for g, n in enumerate(row["n"])
    ]
    header = ["panel", "label", "n", *names, "loss_minus_best"]
    write_csv(study.out / f"{ablation.name}.csv", header, lines)
    _write_summary(ablation, rows, study)
    for name, panels in ablation.figures.items():
        _draw(ablation, rows, best, panels, study, name)


def _write_summary(ablation: Ablation, rows: Rows, study: Study) -> None:
    """What the table shows."""
    change, lines = differences(rows), []
    for key, row in rows.items():
        limit = [np.mean(row["exists"]), np.mean(row["limit"] or np.nan)] if "exists" in row else ["", ""]
        values = [
            *mean_and_half_width(row["tail_distance"]),
            np.median(row["tail_distance"]),
            *change.get(key, ("", "")),
            *row["tail_excess"],
        ]
        lines.append([*key, *(v if isinstance(v, str) else rounded(v) for v in (*values, *limit))])
    header = ["distance", "distance_half", "median", "minus_row_above", "minus_row_above_half", "excess", "excess_half"]
    write_csv(
        study.out / f"{ablation.name}_summary.csv", ["panel", "label", *header, "minimizer_exists", "minimizer_distance"], lines
    )


def best_losses(ablation: Ablation, rows: Rows) -> dict[tuple[str, str], float]:
    """The lowest mean loss recorded: in the whole panel, or on the own curve where objectives or instances differ."""
    own = {key: min(row["loss"]) for key, row in rows.items()}
    if not ablation.shared_objective:
        return own
    size = {key: condition.instances for key, condition in ablation.curves.items()}
    return {k: min(v for other, v in own.items() if other[0] == k[0] and size[other] == size[k]) for k in own}


def _draw(ablation: Ablation, rows: dict, best: dict, panels: list[str], study: Study, name: str) -> None:
    """Distance (dotted: of the minimizer), loss, and its excess over L(θ₀) (dotted: over the best loss found)."""
    figure, axes = plt.subplots(3, len(panels), figsize=(2.6 * len(panels), 5.2), squeeze=False, layout="constrained")
    for column, panel in zip(axes.T, panels, strict=True):
        for color, label in enumerate(labels(ablation, panel)):
            row, style = rows[panel, label], {"color": f"C{color}", "label": label, "lw": 1.2}
            draw_band(column[0], row["n"], row["distance"], row["distance_half"], **style)
            draw_band(column[1], row["n"], row["loss"], row["loss_half"], **style)
            draw_band(column[2], row["n"], row["excess"], row["excess_half"], **style)
            over = np.array(row["loss"]) - best[panel, label]
            column[2].plot(row["n"], np.where(over > 0, over, np.nan), color=f"C{color}", ls=":", lw=1)
            if len(row.get("limit", ())) > 0.5 * len(row["tail_distance"]):
                column[0].axhline(np.mean(row["limit"]), color=f"C{color}", ls=":", lw=1)
        column[0].set_title(panel, fontsize=9)
        column[0].set(yscale="log")
        column[2].set(yscale="log", xlabel="update n")
        for axis, metric in ((column[0], "distance"), (column[2], "excess")):
            axis.set_ylim(bottom=0.3 * min(min(rows[panel, label][metric]) for label in labels(ablation, panel)))
        column[0].legend(fontsize=6)
    for axis, text in zip(axes[:, 0], ("squared distance to θ₀", "loss", "excess of the loss"), strict=True):
        axis.set_ylabel(text)
    save_figure(figure, study.out, name)
