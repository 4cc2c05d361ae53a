"""What a person looks at after a run: acceptance by move, standard errors, effective sample size, R-hat, what never moved."""

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from movegrad._validate import array_of, doubles
from movegrad.engine import ACCEPTED, DRAWN, GROUPS, INAPPLICABLE, INFEASIBLE
from movegrad.schedules import Annealing

if TYPE_CHECKING:
    from movegrad.engine import Run

__all__ = ["Info", "effective_sample_size", "r_hat", "standard_error"]


@np.errstate(invalid="ignore", over="ignore")
def effective_sample_size(draws: np.ndarray) -> float:
    """Effective number of independent draws in chains, by Geyer's initial monotone sequence.

    ESS = C·n / (1 + 2 Σ ρ_lag), where ρ combines the variance within and between chains (Vehtari et al., 2021, without
    rank normalization). A chain that is constant while others are not adds nothing to C.

    Parameters
    ----------
    draws : (C, n) numbers
        n draws of each of C chains.

    Returns
    -------
    float
        NaN where nothing varies.

    Examples
    --------
    >>> import numpy as np
    >>> from movegrad.diagnostics import effective_sample_size
    >>> draws = np.random.default_rng(0).normal(size=(4, 500))
    >>> effective_sample_size(draws) > 1500, effective_sample_size(np.repeat(draws, 10, axis=1)) < 3000
    (True, True)
    """
    draws = _chains(draws)
    chains, n = draws.shape
    if n < 4 or np.ptp(draws) == 0:
        return np.nan
    between = draws.mean(1).var(ddof=1) if chains > 1 else 0.0
    moving = np.ptp(draws, axis=1) > 0
    if moving.any():
        draws, chains = draws[moving], int(moving.sum())
    centered = draws - draws.mean(1, keepdims=True)
    spectrum = np.fft.rfft(centered, 2 * n, axis=1)
    covariance = np.fft.irfft(np.abs(spectrum) ** 2, axis=1)[:, :n].mean(0) / n
    within = covariance[0] * n / (n - 1)
    total = within * (n - 1) / n + between
    if not total > 0:
        return np.nan
    rho = 1.0 - (within - covariance) / total
    rho[0] = 1.0
    pairs = rho[0 : n - n % 2 : 2] + rho[1::2]
    positive = np.argmax(pairs <= 0) if (pairs <= 0).any() else len(pairs)
    time = 2.0 * np.minimum.accumulate(pairs[: max(positive, 1)]).sum() - 1.0
    return float(min(chains * n / max(time, 1e-12), chains * n * np.log10(chains * n)))


@np.errstate(invalid="ignore", over="ignore")
def standard_error(draws: np.ndarray) -> float:
    """Standard error of the mean of all draws, by batch means.

    Each chain is cut into b = ⌊√n⌋ batches, and the C·b means of batches are taken for independent: the error is their standard
    deviation over √(C·b). They scatter around the mean of all chains, so that chains that disagree make it large. It knows nothing
    of what all chains share, such as a start that they have not left.

    Parameters
    ----------
    draws : (C, n) numbers
        n draws of each of C chains.

    Returns
    -------
    float
        For Student's t with C·b − 1 degrees of freedom; NaN where nothing varies.

    Examples
    --------
    >>> import numpy as np
    >>> from movegrad.diagnostics import standard_error
    >>> draws = np.random.default_rng(0).normal(size=(4, 2500))
    >>> 0.008 < standard_error(draws) < 0.012, standard_error(np.repeat(draws, 4, axis=1)) > 0.008
    (True, True)
    """
    draws = _chains(draws)
    chains, n = draws.shape
    if n < 4 or np.ptp(draws) == 0:
        return np.nan
    count = int(np.sqrt(n))
    length = n // count
    means = draws[:, n - count * length :].reshape(chains * count, length).mean(1)
    return float(means.std(ddof=1) / np.sqrt(len(means)))


@np.errstate(invalid="ignore", over="ignore")
def r_hat(draws: np.ndarray) -> float:
    """Split R-hat of chains: near 1 if they agree (Gelman et al., 2013).

    Parameters
    ----------
    draws : (C, n) numbers
        n draws of each of C chains.

    Returns
    -------
    float
        NaN where nothing varies.

    Examples
    --------
    >>> import numpy as np
    >>> from movegrad.diagnostics import r_hat
    >>> draws = np.random.default_rng(0).normal(size=(4, 500))
    >>> round(r_hat(draws), 1), round(r_hat(draws + np.arange(4)[:, None]), 1)
    (1.0, 1.6)
    """
    draws = _chains(draws)
    half = draws.shape[1] // 2
    if half < 2 or np.ptp(draws) == 0:
        return np.nan
    parts = np.concatenate([draws[:, :half], draws[:, -half:]])
    within, between = parts.var(1, ddof=1).mean(), parts.mean(1).var(ddof=1)
    if within == 0:
        return np.nan if between == 0 else np.inf
    return float(np.sqrt((half - 1) / half + between / within))


def _chains(draws: Any) -> np.ndarray:
    """(C, n) numbers; none may be missing but where nothing was recorded."""
    array = array_of(draws, "draws")
    if array.ndim != 2 or not len(array):
        raise ValueError(f"draws must have two axes, chains and draws, and a chain at least, got shape {array.shape}.")
    return doubles(array)


class _Record(NamedTuple):
    """What is looked at of a run: plain arrays and numbers, so that it can be copied anywhere."""

    sizes: np.ndarray  # (E,) of θ
    chains: int  # C
    burn_in: int
    trace_every: int
    trace: np.ndarray  # (E, C, points, 2)
    means: Any  # (E, C, d), or a list of (C, d); None for one chain, and where temperatures fall
    moved: Any  # (E, C, d) whether an entry of T ever changed, or a list of (C, d); None if it was not watched
    accepted: np.ndarray  # (E, C) moves


def _record_of(run: "Run") -> _Record:
    settings, chains, examples = run.settings, run.chains, run.batch.examples
    trace, accepted = np.asarray(chains.trace), np.asarray(chains.counts)[:, :, ACCEPTED].sum(1)
    if len(accepted) < examples * settings.chains:  # a GPU counts all chains together
        accepted = np.full(examples * settings.chains, accepted.sum())
    return _Record(
        sizes=np.asarray(run.batch.sizes),
        chains=settings.chains,
        burn_in=settings.burn_in,
        trace_every=settings.trace_every,
        trace=trace.reshape(examples, settings.chains, *trace.shape[1:]),
        means=None if settings.chains == 1 or isinstance(settings.schedule, Annealing) else run.means,
        moved=run.per_entry(chains.moved) if settings.watch else None,
        accepted=accepted.reshape(examples, settings.chains),
    )


class Info:
    """Counts and traces of a run; ``print(info)`` shows a short table. It comes with results, such as ``Sample.info``.

    Parameters
    ----------
    run : Run
        Of the engine.

    Attributes
    ----------
    moves : list of str
        Names of the moves.
    drawn, accepted, infeasible, inapplicable : (moves,)
        Counts over all chains.
    acceptance : (moves,)
        Accepted / drawn.
    steps : (E,)
        Steps of each chain of an example.
    seconds : float
        Wall time of the run.
    trace : (E, C, points, 2)
        Objective, and distance to the start of the first chain (if it was drawn: to the problem's own solution), every
        ``trace_every`` steps.
    trace_every : int
        0 where nothing was traced.
    frozen : list of (k,) arrays
        For each example the entries of T that never changed in an averaged step of any chain; empty if that was not watched.
    ess, r_hat : dict of str to (E,)
        Effective sample size and split R-hat of the two quantities in the trace. The size is 0 where no chain of an example moved.
    error : dict of str to (E,)
        Standard errors of the means of the same two quantities, by batch means; see :func:`standard_error`.
    standard_error : (E, d), a list of (d,) for a list of problems, or None
        Of the entries of the mean E[T(Y)], from what C ≥ 2 chains say; None for one chain and for :func:`movegrad.solve`.

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> info = mg.sample(mg.problems.TopK(5, 2), np.zeros(5), steps=1000).info
    >>> info.moves, info.drawn.tolist(), info.acceptance.tolist()
    (['swap'], [1000], [1.0])
    """

    def __init__(self, run: "Run") -> None:
        self._run = run
        self.moves = [m.name for m in run.batch.problem.moves]
        counts = run.chains.counts[:, : len(self.moves)].sum(0)
        self.drawn, self.accepted = counts[:, DRAWN], counts[:, ACCEPTED]
        self.infeasible, self.inapplicable = counts[:, INFEASIBLE], counts[:, INAPPLICABLE]
        self.steps = run.steps
        self.seconds = run.seconds

    @property
    def acceptance(self) -> np.ndarray:
        """(moves,) accepted / drawn."""
        return self.accepted / np.maximum(self.drawn, 1)

    @cached_property
    def _record(self) -> _Record:
        """Made when it is first asked for: on a GPU, that copies."""
        return _record_of(self._run)

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles hold numbers, not the chains."""
        return {**vars(self), "_record": self._record, "_run": None}

    @property
    def trace(self) -> np.ndarray:
        """(E, C, points, 2) objective and distance to the start."""
        return self._record.trace

    @property
    def trace_every(self) -> int:
        """Steps between points of the trace; 0 where there is none."""
        return self._record.trace_every

    @cached_property
    def frozen(self) -> list[np.ndarray]:
        """For each example the entries of T that never changed; empty if that was not watched."""
        moved = self._record.moved
        return [] if moved is None else [np.flatnonzero(~rows.any(0)) for rows in moved]

    @cached_property
    def ess(self) -> dict[str, np.ndarray]:
        """(E,) effective sample size of the objective and of the distance to the start, among the recorded points."""
        stuck = np.asarray(self._record.accepted.max(1) == 0)
        for e, frozen in enumerate(self.frozen):
            stuck[e] |= len(frozen) == self._record.sizes[e]
        each = {name: self._each(effective_sample_size, column) for column, name in enumerate(_QUANTITIES)}
        return {name: np.where(stuck, 0.0, sizes) if self.trace_every else sizes for name, sizes in each.items()}

    @cached_property
    def r_hat(self) -> dict[str, np.ndarray]:
        """(E,) split R-hat of the same two quantities."""
        return {name: self._each(r_hat, column) for column, name in enumerate(_QUANTITIES)}

    @cached_property
    def error(self) -> dict[str, np.ndarray]:
        """(E,) standard errors of the means of the same two quantities over the recorded points, by batch means."""
        return {name: self._each(standard_error, column) for column, name in enumerate(_QUANTITIES)}

    @cached_property
    def standard_error(self) -> Any:
        """(E, d) standard errors of the entries of the mean, or a list of (d,); None for one chain and for ``solve``.

        The C chains of an example are independent, so that the standard deviation of their means over √C is the error of the mean
        of all, however long chains remember: mean ± t·error for Student's t with C − 1 degrees of freedom. Of more than 256 chains
        those of a group try the same moves, and the error is that of 256 groups. It knows nothing of what
        all chains share, such as a start that they have not left. NaN where all chains have the same mean, which says nothing:
        mostly of entries that never moved.
        """
        means = self._record.means
        if means is None:
            return None
        errors = [_between(rows) for rows in means]
        return errors if isinstance(means, list) else np.stack(errors)

    def _each(self, statistic, column: int) -> np.ndarray:
        kept = self.trace[..., self._record.burn_in // max(self.trace_every, 1) :, column]
        return np.array([statistic(rows) for rows in kept])

    def to_arviz(self) -> Any:
        """The traces as an ArviZ DataTree (chain, draw, example); needs ``pip install movegrad[arviz]``."""
        try:
            from arviz_base import from_dict
        except ImportError:
            raise ImportError("to_arviz needs ArviZ: pip install 'movegrad[arviz]'.") from None
        posterior = {name: np.moveaxis(self.trace[..., c], 0, -1) for c, name in enumerate(_QUANTITIES)}
        return from_dict({"posterior": posterior}, dims={name: ["example"] for name in _QUANTITIES})

    def __str__(self) -> str:
        examples, chains = self._record.accepted.shape
        total = int(self.drawn.sum())
        lines = [
            f"{examples} example{'s' * (examples > 1)} × {chains} chain{'s' * (chains > 1)}, {self._span()} steps each, "
            f"{self.seconds:.3g} s, {total / max(self.seconds, 1e-9):.3g} steps/s"
        ]
        width = max(4, *(len(m) for m in self.moves))
        lines.append(f"{'move':<{width}} {'drawn':>12} {'accepted':>12} {'rate':>7} {'infeasible':>11} {'no draw':>9}")
        for row in zip(self.moves, self.drawn, self.accepted, self.acceptance, self.infeasible, self.inapplicable, strict=True):
            lines.append(f"{row[0]:<{width}} {row[1]:>12} {row[2]:>12} {row[3]:>7.1%} {row[4]:>11} {row[5]:>9}")
        if self.trace.shape[2]:
            lines += [self._line(name) for name in _QUANTITIES]
        if self.standard_error is not None:
            largest = max((np.nanmax(e) for e in self.standard_error if not np.isnan(e).all()), default=np.nan)
            lines.append(f"standard error of the mean: ≤ {largest:.2g} in each entry")
        frozen = self.frozen[0] if self.frozen else ()
        if len(frozen):
            named = ", ".join(map(str, frozen[:8])) + (", …" if len(frozen) > 8 else "")
            lines.append(f"never moved in example 0: {len(frozen)} of {self._record.sizes[0]} entries ({named})")
        return "\n".join(lines)

    __repr__ = __str__

    def _span(self) -> str:
        low, high = int(self.steps.min()), int(self.steps.max())
        return str(low) if low == high else f"{low}–{high}"

    def _line(self, name: str) -> str:
        ess, rhat = self.ess[name], self.r_hat[name]
        points = self.trace.shape[1] * self.trace.shape[2]
        worst = "–" if np.isnan(ess).all() else f"{np.nanmin(ess):.0f}"
        highest = "–" if np.isnan(rhat).all() else f"{np.nanmax(rhat):.3f}"
        return f"{name}: effective sample size ≥ {worst} of {points} recorded, R-hat ≤ {highest}"


def _between(means: np.ndarray) -> np.ndarray:
    """(C, d) means of chains → (d,) standard errors of their mean; chains of a group, which try the same moves, count as one."""
    count, groups = len(means), min(len(means), GROUPS)
    apart = means - means.mean(0)
    together = np.array([apart[g::GROUPS].sum(0) for g in range(groups)])
    error = np.sqrt(groups / (groups - 1) * np.square(together).sum(0)) / count
    error[np.ptp(means, axis=0) == 0] = np.nan
    return error


_QUANTITIES = ("objective", "distance")
