"""Instances like the competition's, for tests and for users without its data.

Locations in clusters; durations from roads of uneven speed with costs to leave and to arrive, so asymmetric and not Euclidean; most
windows of two hours and some that last the day; small demands, service times that grow with them.
"""

import re

import numpy as np

from experiments.dvrptw.instances import Instance

DAY = (0, 41_400)  # seconds in which vehicles drive
ALL_DAY = (10_800, 34_200)
WINDOW = 7200
SECONDS_PER_UNIT = 3.2
STARTS = (9000, 12_600, 16_200, 19_800, 23_400, 27_000)
START_WEIGHTS = (0.32, 0.22, 0.18, 0.12, 0.1, 0.06)
NAME = re.compile(r"synthetic-n(\d+)-s(\d+)")


def generate(customers: int, seed: int) -> Instance:
    """An instance with this many customers; the same for the same arguments."""
    if customers < 1:
        raise ValueError(f"customers must be ≥ 1, got {customers}.")
    rng = np.random.default_rng([seed, customers])
    coordinates = _locations(rng, customers)
    demands = np.r_[0, rng.geometric(0.17, customers).clip(2, 25)]
    service = np.r_[0, 60 * (1 + demands[1:] + rng.integers(0, 4, customers))]
    return Instance(
        f"synthetic-n{customers}-s{seed}",
        _durations(rng, coordinates),
        coordinates,
        demands,
        service,
        _windows(rng, customers),
        145,
    )


def by_name(name: str) -> Instance:
    """The instance that :func:`generate` calls so."""
    match = NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"name must be synthetic-n<customers>-s<seed>, got {name!r}.")
    return generate(int(match[1]), int(match[2]))


def _locations(rng: np.random.Generator, n: int) -> np.ndarray:
    """Depot near the edge, four customers of five in clusters."""
    centers = rng.uniform(0, 3000, (max(5, n // 20), 2))
    chosen = rng.integers(len(centers), size=n)
    points = centers[chosen] + rng.normal(0, 180, (n, 2))
    alone = rng.random(n) < 0.2
    points[alone] = rng.uniform(0, 3000, (alone.sum(), 2))
    return np.rint(np.vstack([rng.uniform(0, 1000, (1, 2)), points]).clip(0, 3200)).astype(np.int64)


def _durations(rng: np.random.Generator, points: np.ndarray) -> np.ndarray:
    """Shortest paths on roads of uneven speed, then time to leave and to arrive, and a little noise that breaks the triangle."""
    distance = np.linalg.norm(points[:, None] - points[None], axis=-1)
    roads = SECONDS_PER_UNIT * distance * rng.lognormal(0.3, 0.6, distance.shape)
    for k in range(len(points)):  # Floyd-Warshall
        np.minimum(roads, roads[:, k, None] + roads[None, k], out=roads)
    leave, arrive = rng.uniform(0, 300, (2, len(points)))
    roads = (roads + leave[:, None] + arrive[None]) * rng.uniform(1.0, 1.04, roads.shape)
    durations = np.rint(roads).astype(np.int64)
    np.fill_diagonal(durations, 0)
    return durations


def _windows(rng: np.random.Generator, n: int) -> np.ndarray:
    starts = rng.choice(STARTS, size=n, p=START_WEIGHTS)
    windows = np.column_stack([starts, starts + WINDOW])
    windows[rng.random(n) < 0.28] = ALL_DAY
    return np.vstack([DAY, windows]).astype(np.int64)
