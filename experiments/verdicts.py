"""One rule for verdicts: a difference is decided when its paired 95 % interval, over seeds and instances, leaves out zero.

A study subtracts what it compares seed by seed and instance by instance, and prints the interval with the word::

    differences = ours - theirs                      # (seeds, instances); the lower the better
    interval = paired(differences)                   # mean, low, high
    print(stated(interval))                          # "-1.21 (-1.80 – -0.62): ahead"
    print(judged(interval, claim="lower"))           # what somebody says of it: "holds"

The words are *ahead*, *behind* and *undecided* for two methods, *holds*, *contradicted* and *undecided* for a claim. Undecided is
not level: that two are level is a claim with a margin (``claim="level"``).
"""

from typing import Any, Literal, NamedTuple

import numpy as np

AHEAD, BEHIND, UNDECIDED = "ahead", "behind", "undecided"
HOLDS, CONTRADICTED = "holds", "contradicted"

Verdict = Literal["ahead", "behind", "undecided"]
Judgment = Literal["holds", "contradicted", "undecided"]


class Interval(NamedTuple):
    """A mean with the ends of its interval; infinite ends where too few values were seen to say anything."""

    mean: float
    low: float
    high: float

    @property
    def half(self) -> float:
        """Half its width."""
        return (self.high - self.low) / 2

    def scaled(self, factor: float) -> "Interval":
        """Of ``factor`` times the values."""
        low, high = sorted((factor * self.low, factor * self.high))
        return Interval(factor * self.mean, low, high)

    def __str__(self) -> str:
        return f"{self.mean:.2f} ±{self.half:.2f}" if np.isfinite(self.half) else f"{self.mean:.2f}"


def paired(differences: Any, level: float = 0.95) -> Interval:
    """Interval of the mean difference of two methods, or of the mean of one.

    Parameters
    ----------
    differences : array of shape (seeds, instances) or (instances,)
        Of seed s of one method and seed s of the other on instance i. With two axes both are drawn at random, and the interval is
        for other seeds and other instances: y_si = μ + seed_s + instance_i + error_si. With one axis only the instances are: for
        methods without chance, or one seed per instance.
    level : float
        Probability with which the interval holds μ, in (0, 1). For the best of n comparisons, ``corrected(n)``.

    Returns
    -------
    Interval
        Mean, low, high. One seed, or one instance, of an array with two axes says nothing about others: infinite ends.

    Notes
    -----
    The mean of S·D values has variance (MS_seed + MS_instance − MS_error)/(S·D). Each part has a quantile of its own, as in Howe's
    interval for a sum of means: half² = (t²_{S−1}·MS_seed + t²_{D−1}·(MS_instance − MS_error))/(S·D), at least the larger part
    alone. Seeds decide with S − 1 degrees of freedom where they vary most, instances with D − 1; no degrees of freedom are
    estimated. In simulations (tests/test_verdicts.py) zero is left out wrongly in 5 % at most, up to their error, for 2 to 10 seeds
    and 3 to 120 instances, whatever the variances; Satterthwaite's degrees of freedom reach 7 % with three seeds, 12 % with two.
    """
    from scipy.special import stdtrit

    y = np.asarray(differences, float)
    if y.ndim not in (1, 2) or y.size == 0:
        raise ValueError(f"differences must have one or two axes and a value, got an array of shape {y.shape}.")
    if not 0 < level < 1:
        raise ValueError(f"level must be in (0, 1), got {level}.")
    mean, quantile = float(y.mean()), 0.5 + level / 2
    if not np.isfinite(y).all() or min(y.shape) < 2:
        return Interval(mean, -np.inf, np.inf)
    if y.ndim == 1:
        half = stdtrit(len(y) - 1, quantile) * y.std(ddof=1) / np.sqrt(len(y))
        return Interval(mean, float(mean - half), float(mean + half))
    seeds, instances = y.shape
    by_seed, by_instance = y.mean(1, keepdims=True), y.mean(0, keepdims=True)
    of_seeds = instances * ((by_seed - mean) ** 2).sum() / (seeds - 1)
    of_instances = seeds * ((by_instance - mean) ** 2).sum() / (instances - 1)
    of_errors = ((y - by_seed - by_instance + mean) ** 2).sum() / ((seeds - 1) * (instances - 1))
    t_seeds, t_instances = stdtrit(seeds - 1, quantile) ** 2, stdtrit(instances - 1, quantile) ** 2
    both = t_seeds * of_seeds + t_instances * (of_instances - of_errors)
    half = np.sqrt(max(both, t_seeds * of_seeds, t_instances * of_instances) / y.size)
    return Interval(mean, float(mean - half), float(mean + half))


def corrected(comparisons: int, level: float = 0.95) -> float:
    """The level for each of some comparisons, so that all intervals hold their means with probability ``level`` (Bonferroni)."""
    if comparisons < 1:
        raise ValueError(f"comparisons must be >= 1, got {comparisons}.")
    return 1 - (1 - level) / comparisons


def verdict(interval: Interval, better: Literal["lower", "higher"] = "lower") -> Verdict:
    """Whether the first of two methods is ahead of the second, by the interval of first − second."""
    if better not in ("lower", "higher"):
        raise ValueError(f"better must be 'lower' or 'higher', got {better!r}.")
    if not (interval.low > 0 or interval.high < 0):
        return "undecided"
    return "ahead" if (interval.high < 0) == (better == "lower") else "behind"


def judged(interval: Interval, claim: Literal["lower", "higher", "level"], margin: float = 0.0) -> Judgment:
    """Whether a claim about first − second holds.

    ``"lower"`` and ``"higher"``: the interval lies on that side of zero, or on the other. ``"level"``: it lies within ``margin`` of
    zero, or outside of that altogether.
    """
    if claim == "level":
        if not margin > 0:
            raise ValueError(f"margin must be > 0 for the claim 'level', got {margin}.")
        if -margin < interval.low and interval.high < margin:
            return "holds"
        return "contradicted" if interval.low > margin or interval.high < -margin else "undecided"
    words: dict[Verdict, Judgment] = {"ahead": "holds", "behind": "contradicted", "undecided": "undecided"}
    return words[verdict(interval, claim)]


def stated(
    interval: Interval, better: Literal["lower", "higher"] = "lower", digits: int = 2, claim: Any = None, margin: float = 0.0
) -> str:
    """The interval with its word: a verdict, or a judgment of ``claim``."""
    word = verdict(interval, better) if claim is None else judged(interval, claim, margin)
    if not np.isfinite(interval.half):
        return f"{interval.mean:+.{digits}f}: {word}"
    return f"{interval.mean:+.{digits}f} ({interval.low:+.{digits}f} – {interval.high:+.{digits}f}): {word}"


def of_ratio(value: float | None, half: float | None, better: Literal["lower", "higher"] = "lower") -> str:
    """A ratio with the half-width of its interval, and whether the first is ahead: whether the interval leaves out 1."""
    if value is None or half is None:
        return "–"
    return f"{value:.3g} ±{half:.1g}: {verdict(Interval(value - 1, value - 1 - half, value - 1 + half), better)}"
