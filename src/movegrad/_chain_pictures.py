"""Pictures of chains: traces, acceptance, marginals with standard errors, regret. Public in :mod:`movegrad.plot`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from movegrad._validate import array_of, doubles, integer_in, sequence, shown
from movegrad.diagnostics import Info
from movegrad.sampling import Sample, Solution

__all__ = ["draw_acceptance", "draw_marginals", "draw_regret", "draw_trace"]

BLUE, ORANGE, LIGHT, GRAY = "#0072B2", "#D55E00", "#9ECAE1", "#999999"
SHOWN = 12  # chains drawn, at most


def info_of(run: Any) -> Info:
    """The info of a result."""
    if isinstance(run, (Sample, Solution)):
        return run.info
    if not isinstance(run, Info):
        raise ValueError(f"run must be a Sample, a Solution or an Info, got {type(run).__name__}.")
    return run


def draw_trace(run: Any, two: Sequence[Any], example: int, colors: Sequence[str]) -> str:
    """Objective and distance to the start along chains; returns a title."""
    info = info_of(run)
    trace = info.trace
    example = integer_in(example, "example", 0, len(trace) - 1)
    if not trace.shape[2]:
        raise ValueError("run must have a trace, got one without (trace=0, a time limit, or solve).")
    steps = info.trace_every * np.arange(1, trace.shape[2] + 1)
    for column, (axes, name) in enumerate(zip(two, ("objective", "distance to the start"), strict=True)):
        for c, row in enumerate(trace[example, :SHOWN, :, column]):
            axes.plot(steps, row, color=colors[c % len(colors)], linewidth=0.9, alpha=0.85)
        axes.set(ylabel=name)
        axes.spines[["top", "right"]].set_visible(False)
    two[-1].set(xlabel="step")
    size, rhat = info.ess["objective"][example], info.r_hat["objective"][example]
    told = "" if np.isnan(size) else f": effective sample size {size:.0f} of {trace.shape[1] * trace.shape[2]}"
    return f"{trace.shape[1]} chain{'s' * (trace.shape[1] > 1)}{told}" + ("" if np.isnan(rhat) else f", R-hat {rhat:.3f}")


def draw_acceptance(run: Any, axes: Any) -> str:
    """What became of the draws of each move, as shares; returns a title."""
    info = info_of(run)
    drawn = np.maximum(info.drawn, 1)
    refused = info.drawn - info.accepted - info.infeasible - info.inapplicable
    at, left = np.arange(len(info.moves)), np.zeros(len(info.moves))
    parts = (
        ("accepted", info.accepted, BLUE),
        ("refused by the coin", refused, LIGHT),
        ("infeasible", info.infeasible, ORANGE),
        ("no draw", info.inapplicable, "#DDDDDD"),
    )
    for name, counts, color in parts:
        axes.barh(at, counts / drawn, left=left, color=color, label=name)
        left = left + counts / drawn
    axes.set_yticks(at, [f"{name}: {rate:.1%}" for name, rate in zip(info.moves, info.acceptance, strict=True)])
    axes.set(xlim=(0, 1), ylim=(len(at) - 0.5, -0.5), xlabel="share of draws")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, fontsize=7.5, frameon=False)
    return f"{int(info.accepted.sum()):,} of {int(info.drawn.sum()):,} draws accepted"


def draw_marginals(run: Any, exact: Any, example: int, names: Any, axes: Any) -> str:
    """Entries of the mean with two standard errors; returns a title."""
    if not isinstance(run, Sample):
        raise ValueError(f"run must be a Sample, got {type(run).__name__}.")
    means = run.mean if isinstance(run.mean, list) else np.asarray(_host(run.mean))
    rows = means if isinstance(means, list) else means.reshape(-1, means.shape[-1])
    example = integer_in(example, "example", 0, len(rows) - 1)
    mean = np.asarray(_host(rows[example]), dtype=np.float64)
    errors = run.info.standard_error
    error = np.full(len(mean), np.nan) if errors is None else np.asarray(errors[example])
    at = np.arange(len(mean))
    frozen = np.zeros(len(mean), bool)
    if run.info.frozen:
        frozen[run.info.frozen[example]] = True
    axes.errorbar(at, mean, 2.0 * np.nan_to_num(error), fmt="none", ecolor=BLUE, elinewidth=1.0, capsize=2)
    axes.plot(
        at[~frozen], mean[~frozen], "o", color=BLUE, markersize=4, label="chains" + " ± 2 standard errors" * (errors is not None)
    )
    if frozen.any():
        axes.plot(at[frozen], mean[frozen], "x", color=ORANGE, markersize=5, label="never moved")
    if exact is not None:
        truth = doubles(array_of(exact, "exact"))
        if truth.shape != mean.shape:
            raise ValueError(f"exact must have shape {mean.shape}, got {truth.shape}.")
        axes.plot(at, truth, "_", color="black", markersize=9, label="exact")
    if names is not None:
        listed = [str(name) for name in sequence(names, "names", f"{len(mean)} names")]
        if len(listed) != len(mean):
            raise ValueError(f"names must be {len(mean)} names, got {len(listed)}.")
        axes.set_xticks(at, listed, rotation=90 if len(listed) > 8 else 0, fontsize=7.5)
    else:
        axes.set(xlabel="entry")
    axes.set(ylabel="E[T(Y)]")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=7.5, frameon=False)
    largest = "" if np.isnan(error).all() else f", standard errors ≤ {np.nanmax(error):.2g}"
    return f"{len(mean)} marginals{largest}"


def _host(value: Any) -> Any:
    return value.detach().cpu().numpy() if hasattr(value, "detach") else value.get() if hasattr(value, "get") else value


def draw_regret(curves: Any, x: Any, axes: Any, colors: Sequence[str], styles: Sequence[str]) -> None:
    """Regret after each epoch; several runs are a line for their mean and a band from the least to the largest."""
    if not isinstance(curves, Mapping) or not curves:
        raise ValueError(f"curves must map names to regrets, got {shown(curves)}.")
    if x is not None and not isinstance(x, Mapping):
        raise ValueError(f"x must map the names of curves to where they are, got {shown(x)}.")
    for k, (name, values) in enumerate(curves.items()):
        rows = np.atleast_2d(doubles(array_of(values, f"curves[{name!r}]")))
        if rows.ndim != 2 or not rows.size:
            raise ValueError(f"curves[{name!r}] must be (epochs,) or (runs, epochs), got shape {rows.shape}.")
        at = np.arange(rows.shape[1], dtype=float) if x is None or name not in x else doubles(array_of(x[name], f"x[{name!r}]"))
        if at.shape != (rows.shape[1],):
            raise ValueError(f"x[{name!r}] must be {rows.shape[1]} numbers, got shape {at.shape}.")
        color, style = colors[k % len(colors)], styles[k // len(colors) % len(styles)]
        axes.plot(at, rows.mean(0), style, color=color, marker="o", markersize=3, label=str(name))
        if len(rows) > 1:
            axes.fill_between(at, rows.min(0), rows.max(0), color=color, alpha=0.2, linewidth=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=7.5, frameon=False)
