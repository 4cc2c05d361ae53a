"""The traveling salesman problem as a problem of your own: 2-opt and or-opt as moves, proved, solved and learned from.

Run it with ``python examples/tsp.py`` (needs torch, rich and matplotlib). ``docs/guides/adding_a_problem.md`` is its story.
"""

from collections.abc import Callable
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import Progress, track

import movegrad as mg
from movegrad import integer

OUT = Path(__file__).parent / "out"
console = Console(highlight=False)


# --- the problem -----------------------------------------------------------------------------------------------------
#
# A solution is the order y of the n cities, y[0] = 0, so that no rotation of a tour is counted twice. Its two directions are two
# solutions with the same T and so the same probability: every undirected tour counts exactly twice, and E[T(Y)] is what
# it would be if each counted once. T(y) says which of the n(n−1)/2 undirected edges the tour uses.


class Data(NamedTuple):
    longest: int  # segment that or-opt moves, in cities


class State(NamedTuple):
    y: np.ndarray  # (n,) the solution; nothing is derived from it


@mg.jit
def edge(y, p, q):
    """Entry of θ and T for the edge between positions p and q ≤ n, where the tour closes: a lower triangle, row after row."""
    one, other = y[p], y[q if q < len(y) else 0]
    row, column = max(one, other), min(one, other)
    return row * (row - 1) // 2 + column


@mg.jit
def reverse(y, first, last):
    """Reverse y[first..last]."""
    while first < last:
        y[first], y[last] = y[last], y[first]
        first += 1
        last -= 1


# 2-opt: reverse y[i..j], 1 ≤ i < j < n. Each of the (n−1)(n−2)/2 pairs is as likely as any other, here and at y', and
# the same pair leads back: the log ratio is 0.


@mg.jit
def propose_two_opt(data, state, rng):
    n = len(state.y)
    i, j = integer(rng, n - 1), integer(rng, n - 2)
    j += j >= i  # two different ones
    return (1 + min(i, j), 1 + max(i, j)), 0.0


@mg.jit
def change_two_opt(data, state, move, m):
    """Two edges are left, then two are taken."""
    i, j = move
    p, q = (i - 1, j, i - 1, i)[m], (i, j + 1, j, j + 1)[m]
    return edge(state.y, p, q), -1 if m < 2 else 1


@mg.jit
def apply_two_opt(data, state, move):
    reverse(state.y, move[0], move[1])


# or-opt: take out a segment of 1, 2 or 3 cities and put it elsewhere. That is to exchange two neighboring stretches y[a..b−1] and
# y[b..c−1], one of which is the segment. The length is drawn first: then a segment of that length starts at one of n−length
# positions and goes to one of n−length−1 other gaps, here and at y' alike. The move back has the same length: the log ratio is 0.


@mg.jit
def propose_or_opt(data, state, rng):
    length = 1 + integer(rng, data.longest)
    rest = len(state.y) - length
    start, gap = 1 + integer(rng, rest), 1 + integer(rng, rest - 1)  # not the gap it leaves
    if gap < start:
        return (gap, start, start + length), 0.0
    return (start, start + length, gap + length + 1), 0.0


@mg.jit
def change_or_opt(data, state, move, m):
    """Three edges are left, then three are taken."""
    a, b, c = move
    p, q = (a - 1, b - 1, c - 1, a - 1, c - 1, b - 1)[m], (a, b, c, b, a, c)[m]
    return edge(state.y, p, q), -1 if m < 3 else 1


@mg.jit
def apply_or_opt(data, state, move):
    a, b, c = move
    reverse(state.y, a, b - 1)
    reverse(state.y, b, c - 1)
    reverse(state.y, a, c - 1)


TWO_OPT = mg.Move("2-opt", propose_two_opt, change_two_opt, apply_two_opt, changes=4)
OR_OPT = mg.Move("or-opt", propose_or_opt, change_or_opt, apply_or_opt, changes=6)


@mg.jit
def statistic(data, y, out):
    for k in range(len(y)):
        out[edge(y, k, k + 1)] = 1.0


@mg.jit
def contains(data, y):
    """Is y an order of all cities that begins with 0? Asked once for each start, so O(n²) will do."""
    for k in range(len(y)):
        if not 0 <= y[k] < len(y):
            return False
        for other in range(k):
            if y[other] == y[k]:
                return False
    return y[0] == 0


@mg.jit
def random(data, rng, y):
    for k in range(len(y)):
        y[k] = k
    for k in range(len(y) - 1, 1, -1):  # Fisher-Yates on all but city 0
        other = 1 + integer(rng, k)
        y[k], y[other] = y[other], y[k]


def tours(n):
    """Every tour. A function of the module, not a lambda: then problems can be pickled, and sent to other processes."""
    return (np.array((0, *rest)) for rest in permutations(range(1, n)))


class TSP(mg.Problem):
    """All tours through n ≥ 3 cities; θ and T have one entry for each edge, d = n(n−1)/2. θ = −distances: the shortest tour."""

    def __init__(self, n: int) -> None:
        if n < 3:
            raise ValueError(f"n must be ≥ 3, got {n}.")
        super().__init__(
            Data(min(3, n - 2)),
            State(np.arange(n, dtype=np.int32)),
            [TWO_OPT, OR_OPT],
            n * (n - 1) // 2,
            statistic=statistic,
            contains=contains,
            random=random,
            states=partial(tours, n),
            name=f"TSP({n})",
        )


problem = TSP(6)  # small enough to prove: movegrad check examples/tsp.py:problem


# --- what to do with it ----------------------------------------------------------------------------------------------


def pairs(matrix: np.ndarray) -> np.ndarray:
    """Symmetric (…, n, n) → (…, d), in the order of ``edge``."""
    row, column = np.tril_indices(matrix.shape[-1], -1)
    return matrix[..., row, column]


def distances(cities: np.ndarray) -> np.ndarray:
    """(…, n, 2) → (…, d): Euclidean lengths of all edges."""
    return pairs(np.linalg.norm(cities[..., :, None, :] - cities[..., None, :, :], axis=-1))


def lengths(cost: np.ndarray, tours: np.ndarray) -> np.ndarray:
    """Costs (…, d) and tours (…, n) → (…): Σ of the costs of the edges used."""
    after = np.roll(tours, -1, axis=-1)
    row, column = np.maximum(tours, after).astype(int), np.minimum(tours, after)
    return np.take_along_axis(cost, row * (row - 1) // 2 + column, -1).sum(-1)


def nearest_neighbor(cities: np.ndarray) -> np.ndarray:
    """The tour (n,) that always goes to the nearest city not yet visited."""
    left, tour = list(range(1, len(cities))), [0]
    while left:
        nearest = min(left, key=lambda c: np.linalg.norm(cities[c] - cities[tour[-1]]))
        left.remove(nearest)
        tour.append(nearest)
    return np.array(tour)


def advance(bar: Progress, text: str) -> Callable[[float], None]:
    """A line of a progress bar, as the callback that ``solve`` takes."""
    task = bar.add_task(text, total=1.0)
    return lambda done: bar.update(task, completed=done)


def solve_one(n: int = 60, steps: int = 3_000_000) -> None:
    """Anneal a random Euclidean instance and draw its tour beside that of the nearest-neighbor rule."""
    cities = np.random.default_rng(0).random((n, 2))
    cost = distances(cities)
    with Progress(console=console) as bar:
        found = mg.solve(TSP(n), -cost, steps=steps, chains=8, progress=advance(bar, f"solving {n} cities"))
    simple = nearest_neighbor(cities)
    console.print(found.info)
    console.print(f"length {lengths(cost, found.solution):.4f}, nearest neighbor {lengths(cost, simple):.4f}\n")
    draw(cities, {"nearest neighbor": simple, "2-opt and or-opt": found.solution}, cost)


def draw(cities: np.ndarray, tours: dict[str, np.ndarray], cost: np.ndarray) -> None:
    """Save a picture of tours (n,) through cities (n, 2)."""
    figure = Figure(figsize=(4.5 * len(tours), 4.8), layout="constrained")
    axes = figure.subplots(1, len(tours))
    for axis, (name, tour) in zip(axes, tours.items(), strict=True):
        axis.plot(*cities[np.append(tour, 0)].T, "-o", markersize=4, linewidth=1.2)
        axis.set(title=f"{name}: {lengths(cost, tour):.3f}", aspect="equal", xticks=[], yticks=[])
    OUT.mkdir(exist_ok=True)
    figure.savefig(OUT / "tsp.png", dpi=150)


# A toy for learning: the cost of an edge is its distance plus half a toll, and a third feature has nothing to do with it. We
# see the features and the best tours, not the weights, and learn θ = −(weights · features) from these.
WEIGHTS = np.array([1.0, 0.5, 0.0])


def features(instances: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """(instances, d, 3): distance, toll, nuisance."""
    distance = distances(rng.random((instances, n, 2)))
    return np.stack([distance, rng.random(distance.shape), rng.random(distance.shape)], axis=-1)


def best_tours(problem: TSP, theta: np.ndarray) -> np.ndarray:
    """(E, d) → (E, n), by annealing."""
    return mg.solve(problem, theta, steps=200_000).solution


def excess(problem: TSP, model: torch.nn.Module, x: np.ndarray, shortest: np.ndarray) -> float:
    """How much longer than the shortest tours, at their true cost, are those that are best under the model's θ?"""
    cost = x @ WEIGHTS
    with torch.no_grad():
        tours = best_tours(problem, predict(model, x).numpy())
    return float(lengths(cost, tours).sum() / lengths(cost, shortest).sum() - 1.0)


def predict(model: torch.nn.Module, x: np.ndarray) -> torch.Tensor:
    """Features (E, d, 3) → θ (E, d)."""
    return model(torch.from_numpy(x)).squeeze(-1)


def learn(n: int = 20, instances: int = 64, epochs: int = 60) -> None:
    """Learn the weights from observed tours; judge by the true cost of tours on instances not seen in training."""
    problem, rng = TSP(n), np.random.default_rng(1)
    x, x_test = features(instances, n, rng), features(instances, n, rng)
    with console.status("finding the tours to learn from"):
        observed, shortest = best_tours(problem, -x @ WEIGHTS), best_tours(problem, -x_test @ WEIGHTS)
    model = torch.nn.Linear(3, 1, bias=False, dtype=torch.float64)
    torch.nn.init.constant_(model.weight, -1.0)  # at first every feature counts the same
    before = excess(problem, model, x_test, shortest)
    loss = mg.torch.FenchelYoungLoss(mg.torch.LocalSearchLayer(problem, steps=1_000, temperature=0.1))  # starts at the target
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in track(range(epochs), "learning from tours", console=console):
        optimizer.zero_grad()
        loss(predict(model, x), observed).backward()
        optimizer.step()
    after = excess(problem, model, x_test, shortest)
    learned = -model.weight.detach().numpy()[0]
    console.print(f"{instances} new instances, length above the shortest tours known:")
    console.print(f"  before training {before:.1%}, after {after:.1%}")
    console.print(f"weights: true {WEIGHTS}, learned {np.round(learned / learned[0], 3)} (distance: 1)")


def main() -> None:
    console.print(mg.check(problem).raise_if_wrong(), end="\n\n")
    solve_one()
    learn()
    console.print(f"picture: {(OUT / 'tsp.png').relative_to(Path(__file__).parent.parent)}")


if __name__ == "__main__":
    main()
