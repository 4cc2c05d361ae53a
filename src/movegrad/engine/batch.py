"""What is to be run, where, and what came of it: instances and examples laid end to end, settings, results.

A problem's ``data`` and ``state`` are NamedTuples of arrays and numbers. Field by field, the values of all instances are laid end
to end in one array; a table of offsets and shapes finds them again. So one kernel serves one instance or a ragged batch, on any
device. Nothing here runs: places do (:mod:`movegrad.engine.host`, :mod:`movegrad.cuda`), and θ decides which.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from movegrad._validate import outside
from movegrad.engine.bind import Kind, Options, kind_of
from movegrad.engine.draws import keys_of
from movegrad.engine.loop import DONE, PROJECTION_SUM, Chains

# --- instances -----------------------------------------------------------------------------------------------------------


class Packed(NamedTuple):
    """Instances laid end to end: ``flat[f][table[i, c] : …]`` is field f of instance i, its shape stands after its offset."""

    flat: tuple
    table: np.ndarray


def pack(records: Sequence[Any]) -> Packed:
    """Lay the fields of NamedTuples of one class end to end."""
    columns: list = []
    flat: list[np.ndarray] = []
    for values in zip(*records, strict=True):
        arrays = [np.asarray(v) for v in values]
        sizes = [a.size for a in arrays]
        columns.append(np.concatenate(([0], np.cumsum(sizes)[:-1])))
        columns += [[a.shape[axis] for a in arrays] for axis in range(arrays[0].ndim)]
        flat.append(np.concatenate([a.ravel() for a in arrays]))  # a copy, writable: Numba has another type for what is not
    return Packed(tuple(flat), np.array(columns, np.int64).T.copy())


def offsets(sizes: np.ndarray) -> np.ndarray:
    """(…, n) sizes → (…, n+1) offsets."""
    out = np.zeros((*sizes.shape[:-1], sizes.shape[-1] + 1), np.int64)
    np.cumsum(sizes, axis=-1, out=out[..., 1:])
    return out


class Layout(NamedTuple):
    """What kernels see of a problem."""

    kind: Kind
    packed: Packed
    state_sizes: np.ndarray  # (fields,)
    state_dtypes: tuple[np.dtype, ...]
    weights: np.ndarray  # (moves,) shares in the mixture


def layout_of(problem: Any) -> Layout:
    """Made when a problem first meets the engine, and kept with it."""
    found = vars(problem).get("_layout")
    if found is None:
        found = vars(problem)["_layout"] = _lay_out(problem)
    return found


def _lay_out(problem: Any) -> Layout:
    weights = np.array([m.weight for m in problem.moves], np.float64)
    moves = tuple(m if m.weight == 1.0 else replace(m, weight=1.0) for m in problem.moves)
    weighted, axes = bool((weights != weights[0]).any()), tuple(f.ndim for f in problem.data)
    classes: tuple[Any, Any] = type(problem.data), type(problem.state)
    kind = kind_of(moves, problem.functions, weighted, classes[0], axes, classes[1], len(problem.state))
    sizes = np.array([len(a) for a in problem.state], np.int64)
    return Layout(kind, pack([problem.data]), sizes, tuple(a.dtype for a in problem.state), weights)


# --- places --------------------------------------------------------------------------------------------------------------


def on_gpu(value: Any) -> bool:
    """Whether this is an array on a GPU."""
    if isinstance(value, (np.ndarray, float, int, list, tuple, type)):
        return False
    try:
        on_cuda = getattr(value, "is_cuda", None)  # a tensor of PyTorch, which refuses the interface below if it needs a gradient
        return bool(on_cuda) if on_cuda is not None else hasattr(value, "__cuda_array_interface__")
    except Exception:  # of the value's own
        return False


def place_of(value: Any) -> Any:
    """Where chains run for this θ: on the GPU that it is on, else on the host. Both are imported when they are asked for."""
    if on_gpu(value):
        from movegrad.cuda import device_of

        return device_of(value)
    from movegrad.engine.host import HOST

    return HOST


# --- examples ------------------------------------------------------------------------------------------------------------


class Batch(NamedTuple):
    """Examples to run: each has a θ and an instance of one kind of problem. All arrays lie example after example."""

    place: Any  # where θ is, and so the chains: see engine/__init__.py
    problems: tuple[Any, ...]  # the instances
    layout: Layout  # of one of them: kind and dtypes are those of all
    packed: Packed  # their data
    which: np.ndarray  # (E,) instance of each example
    theta: Any  # flat
    theta_at: np.ndarray  # (E+1,)
    sizes: np.ndarray  # (E,) of θ
    state_sizes: np.ndarray  # (fields, E)
    shape: tuple[int, ...] | None = None  # leading axes of θ, as it was given; None for a list

    @property
    def problem(self) -> Any:
        """One of the instances: its functions are those of all."""
        return self.problems[0]

    @property
    def examples(self) -> int:
        return len(self.which)

    def outside(self, name: str, solution: np.ndarray, chain: int, example: int) -> ValueError:
        """The error for a start that is not in the set."""
        return outside(self.problems[self.which[example]], name, solution, f" for chain {chain} of example {example}")


def shared_batch(place: Any, problem: Any, theta: Any, shape: tuple[int, ...] | None = None) -> Batch:
    """One instance for all rows of θ (E, d)."""
    layout = layout_of(problem)
    which, at, sizes, state_sizes = _shared_layout(len(theta), problem.size, layout.state_sizes.tobytes())
    return Batch(place, (problem,), layout, layout.packed, which, theta.reshape(-1), at, sizes, state_sizes, shape)


@lru_cache(maxsize=64)
def _shared_layout(examples: int, d: int, state_sizes: bytes) -> tuple[np.ndarray, ...]:
    sizes, fields = np.full(examples, d), np.frombuffer(state_sizes, np.int64)
    return np.zeros(examples, np.int64), offsets(sizes), sizes, np.repeat(fields[:, None], examples, axis=1)


def ragged_batch(place: Any, problems: Sequence[Any], thetas: Sequence[Any]) -> Batch:
    """One instance for each θ; sizes may differ."""
    layouts = [layout_of(p) for p in problems]
    first = layouts[0]
    for problem, layout in zip(problems, layouts, strict=True):
        if layout.kind is not first.kind or not np.array_equal(layout.weights, first.weights):
            raise ValueError(f"problems of a batch must have the same moves and functions, got {problems[0]} and {problem}.")
    distinct = {id(p): p for p in problems}
    number = {key: i for i, key in enumerate(distinct)}
    sizes = np.array([p.size for p in problems])
    return Batch(
        place=place,
        problems=tuple(distinct.values()),
        layout=first,
        packed=pack([p.data for p in distinct.values()]),
        which=np.array([number[id(p)] for p in problems]),
        theta=place.joined([t.reshape(-1) for t in thetas]),
        theta_at=offsets(sizes),
        sizes=sizes,
        state_sizes=np.stack([layout.state_sizes for layout in layouts], axis=1),
    )


_GOLDEN, _WORD = 0x9E3779B97F4A7C15, 2**64 - 1


def _mixed(z: int) -> int:
    """As ``_mix`` of :mod:`movegrad.engine.draws`, for one number: in a microsecond."""
    z &= _WORD
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & _WORD
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & _WORD
    return z ^ (z >> 31)


# --- what to do ----------------------------------------------------------------------------------------------------------


class Settings(NamedTuple):
    """What to do with a batch: ``steps`` (one number, or one per example) or a time limit; with both, whichever ends first."""

    steps: Any = None
    time_limit: float | None = None  # seconds of chain time for each example, shared by its chains; on a GPU, for all at once
    temperature: Any = 1.0  # one number, or one per example
    schedule: Any = None  # multiplies the temperature; None: not
    burn_in: int = 0
    chains: int = 1
    correction: bool = True
    options: Options = Options()
    trace: int = 0  # points of the trace, at most
    iterates: bool = False  # keep the iterates at these points
    watch: bool = False  # note which entries of T ever change
    seed: Any = 0  # one number, or one per example
    call: int = 0
    start_name: str = "start"  # the argument to blame for a start that is not in the set

    def keys(self, examples: int) -> np.ndarray:
        """(E,) what seed and call are to generators."""
        if isinstance(self.seed, np.ndarray):
            return keys_of(self.seed, self.call)
        return np.full(examples, _mixed(_mixed(self.seed + _GOLDEN) ^ (self.call + _GOLDEN)), np.uint64)

    @property
    def trace_every(self) -> int:
        """Steps between points of the trace, so that the last one is near the end; 0 for no trace."""
        return -(-self.steps // self.trace) if self.trace else 0

    @property
    def points(self) -> int:
        return self.steps // self.trace_every if self.trace else 0


class Begin(NamedTuple):
    """Where chains begin."""

    solutions: Any  # flat: one for each chain, one for each example, or one for all
    pending: np.ndarray  # (E,) what is known of them and what is still to be done: bits of the loop's, 0 for solutions as given


# --- what came of it -------------------------------------------------------------------------------------------------------


class Run(NamedTuple):
    """Chains at the end of a run. Results per example and chain are (E, C, n) arrays, or lists of (C, n) where n differs."""

    batch: Batch
    settings: Settings
    chains: Chains
    seconds: float

    @property
    def means(self) -> Any:
        """Average of T(y) over the iterates of each chain."""
        return self.per_entry(self.chains.mean)

    @property
    def solutions(self) -> Any:
        """Where each chain ended."""
        return self._cut(self.chains.states[0], self.batch.state_sizes[0])

    @property
    def best(self) -> Any:
        """Best solution that each chain saw."""
        return self._cut(self.chains.best, self.batch.state_sizes[0])

    @property
    def iterates(self) -> Any:
        """Iterates at the points of the trace, points after points: n = points × size."""
        return self._cut(self.chains.iterates, self.batch.state_sizes[0] * self.chains.trace.shape[1])

    @property
    def steps(self) -> np.ndarray:
        """(E,) steps of each chain of an example."""
        return self.chains.clock[:: self.settings.chains, DONE]

    def mean(self) -> Any:
        """Average over all chains of an example: (E, d), or a list of (d,)."""
        means = self.means
        if isinstance(means, list):
            return [m.mean(0) for m in means]
        one = self.settings.chains == 1 and isinstance(means, np.ndarray)
        return means[:, 0].copy() if one else means.mean(1)  # the usual call is short

    @np.errstate(over="ignore", invalid="ignore")  # a direction may be as large as it likes
    def covariance(self) -> Any:
        """Cov(T(y), ⟨v, T(y)⟩) over all chains of an example: (E, d), or a list of (d,)."""
        means, crosses = self.means, self.per_entry(self.chains.cross)
        projections = self.chains.value[:, PROJECTION_SUM].reshape(-1, self.settings.chains)
        if isinstance(means, list):
            return [c.mean(0) - m.mean(0) * s.mean() for m, c, s in zip(means, crosses, projections, strict=True)]
        return crosses.mean(1) - means.mean(1) * projections.mean(1)[:, None]

    def per_entry(self, flat: Any) -> Any:
        """Cut an array that holds one number for each chain and entry of θ."""
        return self._cut(flat, self.batch.sizes)

    def _cut(self, flat: Any, sizes: np.ndarray) -> Any:
        n = self.settings.chains
        if self.batch.shape is not None or (sizes == sizes[0]).all():
            return flat.reshape(len(sizes), n, sizes[0])
        return [flat[low:high].reshape(n, -1) for low, high in pairwise(offsets(sizes * n).tolist())]

    @property
    def on_host(self) -> "Run":
        """The same, for a person to look at: what is on a device is copied when it is first asked for."""
        return self._replace(chains=self.batch.place.chains_on_host(self.chains))
