"""Memory of chains on a GPU: data of problems, workspace in tiles, and results in the layout of the CPU."""

from functools import lru_cache
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from movegrad.cuda.arrays import Arrays
from movegrad.cuda.source import BY_COLUMNS, NOTHING_WRONG, TILE, WRONGS, Work
from movegrad.engine import Begin, layout_of
from movegrad.engine.batch import Packed, offsets
from movegrad.engine.draws import GROUPS, groups
from movegrad.engine.loop import COUNTS, DONE, VALUES, Chains

WORKSPACE_SHARE = 0.5  # of the free memory, at most; more chains run in ranges, one after the other
_ALWAYS_FREE = 1 << 28  # bytes for which nobody is asked
_ALIGNMENT = 256  # bytes
_KEPT_BYTES = 1 << 14  # of uploaded words, at most


class Instances(NamedTuple):
    """Data of problems on the device; the arrays are held, lest they be freed."""

    fields: tuple[int, ...]  # their addresses
    table: int
    addresses: Any  # the fields again, on the device
    arrays: list


_known: WeakKeyDictionary = WeakKeyDictionary()  # problem → {library and device: its data}


def instances(arrays: Arrays, problem: Any, packed: Packed | None = None) -> Instances:
    """The data of one problem is copied to a device once; that of a list of problems anew for each call."""
    layout = layout_of(problem)
    if packed is not None and packed is not layout.packed:
        return _upload(arrays, packed, layout.kind.data_axes)
    places = _known.setdefault(problem, {})
    if arrays not in places:
        places[arrays] = _upload(arrays, layout.packed, layout.kind.data_axes)
    return places[arrays]


def _upload(arrays: Arrays, packed: Packed, axes: tuple[int, ...]) -> Instances:
    fields, column = [], 0
    for flat, rank in zip(packed.flat, axes, strict=True):
        if rank == 2 and BY_COLUMNS:
            parts = [flat[at : at + n * m].reshape(n, m).T.ravel() for at, n, m in packed.table[:, column : column + 3]]
            flat = np.concatenate(parts)
        fields.append(arrays.own(flat))
        column += 1 + rank
    table, places = arrays.own(packed.table), tuple(arrays.address(f) for f in fields)
    return Instances(places, arrays.address(table), arrays.own(np.array(places, np.int64)), [*fields, table])


def uploaded(arrays: Arrays, content: bytes) -> Any:
    """Words of 64 bits that nobody writes to; few of them are likely to be wanted again, and are kept."""
    return (_kept if len(content) <= _KEPT_BYTES else _copied)(arrays, content)


def _copied(arrays: Arrays, content: bytes) -> Any:
    return arrays.own(np.frombuffer(content, np.int64).copy())


_kept = lru_cache(maxsize=256)(_copied)


@lru_cache(maxsize=16)
def wrong_words(arrays: Arrays, stream: int) -> Any:
    """What threads found wrong: nothing, until the run that ends in an error."""
    return arrays.own(np.full(WRONGS, NOTHING_WRONG, np.int64))


class Tiles(NamedTuple):
    at: Any  # (parts, tiles) offsets, on the device
    number: int
    totals: tuple[int, ...]  # (parts,)


class Order(NamedTuple):
    """Chains in the order of threads."""

    chains: np.ndarray
    device: Any


@lru_cache(maxsize=16)
def _order(arrays: Arrays, indices: bytes, chains: int) -> Order:
    """Chains by their groups, and those of a group by example, so that neighbors read the same θ."""
    order = np.argsort(groups(np.frombuffer(indices, np.int64), chains).ravel(), kind="stable")
    return Order(order, arrays.own(order.astype(np.int64)))


@lru_cache(maxsize=64)
def _tiles(arrays: Arrays, sizes: bytes, parts: int, chains: int, low: int, high: int, order: bytes) -> Tiles:
    """Tiles of the chains of threads low…high−1; ``sizes`` is (parts, E)."""
    examples = (np.frombuffer(order, np.int64) if order else np.arange(low, high)) // chains
    padded = np.zeros((parts, -(-(high - low) // TILE) * TILE), np.int64)
    padded[:, : high - low] = np.frombuffer(sizes, np.int64).reshape(parts, -1)[:, examples]
    at = offsets(TILE * padded.reshape(parts, -1, TILE).max(-1))
    return Tiles(arrays.own(np.ascontiguousarray(at[:, :-1])), at.shape[1] - 1, tuple(at[:, -1].tolist()))


@lru_cache(maxsize=64)
def _examples(arrays: Arrays, which: bytes, sizes: bytes, parts: int) -> tuple[Any, dict[str, int]]:
    """What belongs to the examples of a batch, whatever is done with them."""
    table = np.frombuffer(sizes, np.int64).reshape(parts, -1)
    words = {"which": np.frombuffer(which, np.int64), "theta_at": offsets(table[0]), "solution_at": offsets(table[1])}
    return _laid_out(arrays, words | {"sizes": table[1:].reshape(-1)})


def _laid_out(arrays: Arrays, words: dict[str, np.ndarray]) -> tuple[Any, dict[str, int]]:
    """Arrays of words of 64 bits end to end on the device, and their addresses."""
    flat = np.concatenate([w if w.dtype == np.int64 else w.view(np.int64) for w in words.values()])
    device, ends = uploaded(arrays, flat.tobytes()), np.cumsum([0, *(len(w) for w in words.values())]).tolist()
    base = arrays.address(device)
    return device, {name: base + 8 * at for name, at in zip(words, ends, strict=False)}


class Memory:
    """All arrays of a run."""

    def __init__(
        self, arrays: Arrays, stream: int, batch: Any, settings: Any, begin: Begin, indices: Any, guide: Any, direction: Any
    ):
        self.arrays, self.batch, self.settings, self.total = arrays, batch, settings, batch.examples * settings.chains
        self.indices = indices
        self.guide = batch.theta if guide is None else arrays.own(guide)
        self.direction: Any = None if direction is None else arrays.own(direction)
        self.data = instances(arrays, batch.problem, batch.packed)
        self.wrong = wrong_words(arrays, stream)
        self.parts = np.concatenate([batch.sizes[None], batch.state_sizes])
        self.start, each = arrays.own(begin.solutions), int(batch.state_sizes[0].sum())
        self.rows = len(self.start) // each if len(self.start) % each == 0 else 0
        self._place_results(settings.chains * len(batch.theta), settings.chains * each)
        self.order = self._order()
        self.fixed = self._fixed()

    def _place_results(self, entries: int, solutions: int) -> None:
        settings, layout, empty = self.settings, self.batch.layout, self.arrays.empty
        dtype, moves, n = layout.state_dtypes[0], len(layout.weights), self.total
        self.mean, self.state = empty(entries, np.float64), empty(solutions, dtype)
        self.cross = empty(entries, np.float64) if settings.options.covariance else None
        self.moved = empty(entries, np.uint8) if settings.watch else None
        self.best = empty(solutions, dtype) if settings.options.best else None
        self.iterates = empty(solutions * settings.points, dtype) if settings.iterates else None
        self.trace = empty((n, settings.points, 2), np.float64)
        if settings.points:
            self.trace[...] = np.nan
        self.value = empty((VALUES, n), np.float64)
        self.rng_and_counts = empty((2 + COUNTS * moves, n), np.int64)

    def _order(self) -> Order | None:
        """Where chains of one group share a warp, and there are moves to choose from."""
        if len(self.batch.layout.weights) == 1 or self.settings.options.first_step or self.total <= GROUPS:
            return None
        indices = np.ascontiguousarray(np.broadcast_to(self.indices, self.batch.examples), np.int64)
        return _order(self.arrays, indices.tobytes(), self.settings.chains)

    def _fixed(self) -> dict[str, int]:
        """Addresses and numbers that hold for all ranges of chains."""
        batch, settings, arrays, n = self.batch, self.settings, self.arrays, self.batch.examples
        self.examples, addresses = _examples(arrays, batch.which.tobytes(), self.parts.tobytes(), len(self.parts))
        steps = NOTHING_WRONG if settings.steps is None else settings.steps
        each = {"indices": self.indices, "goals": steps}
        words: dict[str, Any] = {name: np.broadcast_to(np.asarray(value, np.int64), n) for name, value in each.items()}
        words["keys"] = settings.keys(n)
        words["inverse"] = np.broadcast_to(1.0 / np.asarray(settings.temperature, np.float64), n).copy()
        self.words, own = _laid_out(arrays, words | {"weights": batch.layout.weights})
        given = {
            "theta": batch.theta, "guide": self.guide, "direction": self.direction, "start": self.start, "value": self.value,
            "rng": self.rng_and_counts, "trace": self.trace, "wrong": self.wrong, "out_iterates": self.iterates,
            "out_mean": self.mean,
            "out_cross": self.cross, "out_moved": self.moved, "out_state": self.state, "out_best": self.best,
        }  # fmt: skip
        addresses = addresses | own | {name: 0 if a is None else arrays.address(a) for name, a in given.items()}
        addresses["order"] = 0 if self.order is None else arrays.address(self.order.device)
        addresses["counts"] = addresses["rng"] + 16 * self.total
        plan = {name: int(getattr(settings, name)) for name in ("chains", "burn_in", "correction", "trace_every")}
        return addresses | plan | {"table": self.data.table, "examples": n, "rows": self.rows, "points": settings.points}

    def ranges(self) -> list[tuple[int, int]]:
        """Ranges of chains whose workspace fits into memory."""
        options = self.settings.options
        widths = [8 * (2 + options.covariance) + self.settings.watch, *(d.itemsize for d in self.batch.layout.state_dtypes)]
        widths[1] *= 1 + options.best
        each = int((np.array(widths)[:, None] * self.parts).sum(0).max())
        step = max(TILE, room(self.arrays, each * self.total) // max(each, 1) // TILE * TILE)
        return [(low, min(low + step, self.total)) for low in range(0, self.total, step)]

    def workspace(self, low: int, high: int) -> tuple[Any, Any]:
        """The words of a range of chains on the device, and what must be held as long as they are used."""
        options, dtypes = self.settings.options, self.batch.layout.state_dtypes
        ragged = bool((self.parts != self.parts[:, :1]).any())
        order = self.order.chains[low:high].tobytes() if ragged and self.order is not None else b""
        tiles = _tiles(self.arrays, self.parts.tobytes(), len(self.parts), self.settings.chains, low, high, order)
        entries, solutions = tiles.totals[:2]
        sizes = {"sums": 8 * entries, "mean": 8 * entries, "cross": 8 * entries * options.covariance}
        sizes |= {"moved": entries * self.settings.watch, "best": solutions * dtypes[0].itemsize * options.best}
        fields = [n * d.itemsize for n, d in zip(tiles.totals[1:], dtypes, strict=True)]
        ends = np.cumsum([0, *(-(-s // _ALIGNMENT) * _ALIGNMENT for s in [*sizes.values(), *fields])]).tolist()
        space = self.arrays.empty(ends[-1], np.uint8)
        base = self.arrays.address(space)
        places = {name: (base + end) * (sizes[name] > 0) for name, end in zip(sizes, ends, strict=False)}
        states = [base + end for end in ends[len(sizes) : -1]]
        work = Work(**self.fixed, **places, tile_at=self.arrays.address(tiles.at), tiles=tiles.number)
        words = np.array([*self.data.fields, *states, *work], np.int64)  # the same in call after call, where memory is used again
        return uploaded(self.arrays, words.tobytes()), (space, tiles)

    def chains(self, steps: Any) -> Chains:
        """The results, laid out as on the CPU; what is not of interest is None."""
        batch = self.batch
        clock = np.empty((self.total, 2), np.int64)
        clock[:, DONE] = steps
        found: dict[str, Any] = dict.fromkeys(Chains._fields) | {
            "which": batch.which,
            "indices": self.indices,
            "theta_at": batch.theta_at,
            "theta": batch.theta,
            "guide": self.guide,
            "direction": self.direction,
            "states": (self.state,),
            "clock": clock,
            "value": self.value.T,
            "cross": self.cross,
            "mean": self.mean,
            "counts": self.rng_and_counts[2:].reshape(len(batch.layout.weights), COUNTS, self.total),
            "moved": self.moved,
            "best": self.best,
            "trace": self.trace,
            "iterates": self.iterates,
            "weights": batch.layout.weights,
        }
        return Chains(**found)


def room(arrays: Arrays, wanted: int) -> int:
    """Bytes for what chains need while they run."""
    return wanted if wanted < _ALWAYS_FREE else min(wanted, int(WORKSPACE_SHARE * arrays.free_bytes))
