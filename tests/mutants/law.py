"""Is a wrong problem wrong? The law of the compiled chain against the Gibbs law, by enumeration and independent chains.

Many chains run from the same start law, long enough to forget it; where they end are independent draws. For every event
"y = this solution" and "entry k of y has this value" the share p̂ among n ends is compared with its probability p. Chernoff's bound
P(share is as far off as p̂, on that side) ≤ exp(−n KL(p̂ ‖ p)) holds for every n, and is multiplied by the number of events,
sides and θ: an upper bound on the chance that a right chain looks so wrong. Nothing of ``check`` is used.
"""

from typing import NamedTuple

import numpy as np

import movegrad as mg
from movegrad.engine import layout_of
from tests.mutants.registry import Case

STEPS, ERROR_RATE = 1_000, 1e-9


class Verdict(NamedTuple):
    """How far the chain is from the Gibbs law, at the worst of the θ that were tried."""

    bound: float  # on the chance of a right chain to be as far off
    variation: float  # total variation between where chains ended and the Gibbs law; includes the noise of sampling
    mean: float  # largest error of an entry of the chains' E[T(Y)]
    outside: float  # share of the chains that ended outside of the set

    @property
    def differs(self) -> bool:
        return self.bound < ERROR_RATE

    def __str__(self) -> str:
        return (
            f"bound {self.bound:8.1e}  variation {self.variation:6.4f}  mean off by {self.mean:8.2g}  outside {self.outside:6.4f}"
        )


def gibbs(problem: mg.Problem, theta: np.ndarray, t: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All solutions (s, size), T of each (s, d) and their probabilities (s,)."""
    dtype, states = layout_of(problem).state_dtypes[0], getattr(problem, "all_states", problem.states)
    solutions = np.array([np.asarray(y, dtype) for y in states()])
    statistics, values = np.zeros((len(solutions), problem.size)), np.zeros(len(solutions))
    for y, out, value in zip(solutions, statistics, range(len(solutions)), strict=True):
        if problem.functions.statistic is None:
            out[:] = y
        else:
            problem.functions.statistic(problem.data, y, out)
        values[value] = 0.0 if problem.functions.phi is None else problem.functions.phi(problem.data, y)
    logits = (statistics @ theta + values) / t
    law = np.exp(logits - logits.max())
    return solutions, statistics, law / law.sum()


def chernoff(counts: np.ndarray, law: np.ndarray, n: int) -> np.ndarray:
    """log of the bound on P(as many as counted, or more) where that is more than expected, and the same below."""
    shares, rest = counts / n, (n - counts) / n
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        heads = np.where(counts > 0, shares * np.log(shares / law), 0.0)
        tails = np.where(counts < n, rest * np.log(rest / (1.0 - law)), 0.0)
    return -n * (heads + tails)


def compare(case: Case) -> Verdict:
    """The compiled chain of a case against its Gibbs law, for θ of both signs and θ = 0.

    Half of the chains make one step more: a chain that never stays is periodic, but right on average. The bound holds for
    independent draws whose laws differ, with their average (Hoeffding, 1963).
    """
    problem = case.build()
    theta = case.scale * np.random.default_rng(5).normal(size=problem.size)
    thetas = np.stack([theta, -theta, 0.0 * theta])
    outs = [
        mg.sample(
            problem, thetas, steps=STEPS + more, burn_in=STEPS // 2 + more, chains=case.chains // 2, temperature=case.t,
            trace=0, call=more,
        )
        for more in (0, 1)
    ]  # fmt: skip
    ends, means = np.concatenate([o.solutions for o in outs], axis=1), 0.5 * (outs[0].mean + outs[1].mean)
    return _worst([_judge(problem, *row) for row in zip(thetas, [case.t] * 3, ends, means, strict=True)])


def _judge(problem: mg.Problem, theta: np.ndarray, t: float, ends: np.ndarray, mean: np.ndarray) -> Verdict:
    solutions, statistics, law = gibbs(problem, theta, t)
    number = {y.tobytes(): i for i, y in enumerate(solutions)}
    found = np.array([number.get(y.tobytes(), -1) for y in ends])
    if (found < 0).any():
        return Verdict(0.0, 1.0, float(np.abs(mean - law @ statistics).max()), float((found < 0).mean()))
    counts = np.bincount(found, minlength=len(solutions))
    events = [np.eye(len(solutions), dtype=bool)]
    for k in range(solutions.shape[1]):
        values = np.unique(solutions[:, k])
        if len(values) > 1:
            events.append(solutions[:, k] == values[:, None])
    event = np.concatenate(events)
    log_bound = chernoff(event @ counts, event @ law, len(ends)).min() + np.log(2 * 3 * len(event))
    return Verdict(
        float(np.exp(min(log_bound, 0.0))),
        float(0.5 * np.abs(counts / len(ends) - law).sum()),
        float(np.abs(mean - law @ statistics).max()),
        0.0,
    )


def _worst(verdicts: list[Verdict]) -> Verdict:
    return min(verdicts, key=lambda v: (v.bound, -v.variation))
