"""Energy-cost-aware scheduling under predicted prices: the ICON challenge as in Mandi et al., AAAI 2020."""

from pathlib import Path

import numpy as np
from scipy.sparse import block_diag, coo_matrix, csr_matrix, hstack, vstack

import movegrad as mg
from experiments.arena.board import Board, Linear, Relaxation, divided, standardized
from experiments.arena.cache import kept, there
from experiments.arena.oracles import Annealer, Highs, exact_solver

SIZES = 552, 60, 177  # days to train, to validate and to test
FEWER = 552, 20, 59  # with the hard instances


def days(data: Path | None, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Features (789, 48, 8) and prices (789, 48), clamped at 0; without data, from a generator of the same kind."""
    path = _file(data, "prices_clean.npz")
    if path is not None:
        with np.load(path) as file:
            return standardized(file["features"].astype(float), slice(SIZES[0])), np.maximum(file["price"].astype(float), 0.0)
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((789, 48, 8))
    hour = 10.0 * np.sin(np.arange(48) / 48 * 2 * np.pi - 2.0)
    price = 60.0 + hour + 8.0 * features @ rng.standard_normal(8) + rng.gamma(2.0, 8.0, (789, 48))
    return features, np.maximum(price, 0.0)


def tasks(data: Path | None, load: int, seed: int) -> mg.problems.EnergyScheduling:
    """Day 1 of a load; without data, tasks of the same kind."""
    path = _file(data, f"loads/load{load}/day01.txt")
    if path is not None:
        return mg.problems.EnergyScheduling.read(path)
    rng, n = np.random.default_rng([seed, load]), {1: 10, 2: 15, 6: 20}[load]
    durations = rng.integers(2, 12, n)
    releases = np.array([rng.integers(0, 48 - d - 8) for d in durations])
    deadlines = np.minimum(48, releases + durations + rng.integers(8, 30, n))
    powers, uses = rng.uniform(100, 3000, n), rng.integers(10, 60, n)
    return mg.problems.EnergyScheduling(durations, releases, deadlines, powers, uses, [100, 100, 100], slots=48, slot_hours=0.5)


def relaxation(problem: mg.problems.EnergyScheduling) -> Relaxation:
    """Shares of starts, one column for each task and slot.

    Machines are added up: cost does not know them, and a share may be split among machines in proportion to their capacities, so
    that this is the relaxation with machines, in a fraction of its columns.
    """
    data = problem.data
    n, slots = len(data.duration), data.slots
    columns = [(f, t) for f in range(n) for t in range(data.first[f], data.last[f] + 1)]
    once = coo_matrix((np.ones(len(columns)), ([f for f, _ in columns], range(len(columns)))), (n, len(columns)))
    cells = [(t + k, j, f) for j, (f, t) in enumerate(columns) for k in range(data.duration[f])]
    at, column, task = (np.array(c) for c in zip(*cells, strict=True))
    shape = (slots, len(columns))
    energy = csr_matrix(coo_matrix((data.energy[task], (at, column)), shape))
    use = vstack([coo_matrix((data.use[task, r], (at, column)), shape) for r in range(data.use.shape[1])])
    return Relaxation(csr_matrix(use), np.repeat(data.capacity.sum(0), slots), csr_matrix(once), np.ones(n), M=energy)


def program(problem: mg.problems.EnergyScheduling) -> Relaxation:
    """One column for each machine, task and slot: with integers, the problem itself."""
    data, shared = problem.data, relaxation(problem)
    machines = len(data.capacity)
    limits = np.concatenate([np.repeat(capacity, data.slots) for capacity in data.capacity])
    use, once, energy = block_diag([shared.A] * machines), hstack([shared.E] * machines), hstack([shared.M] * machines)
    return Relaxation(csr_matrix(use), limits, csr_matrix(once), shared.f, M=csr_matrix(energy))


def as_schedule(problem: mg.problems.EnergyScheduling, x: np.ndarray) -> np.ndarray:
    """Starts and machines from the columns of the program."""
    data = problem.data
    ends = np.cumsum(data.last - data.first + 1)[:-1]
    tasks = np.split(x.reshape(len(data.capacity), -1), ends, axis=1)  # (machines, starts) of each
    chosen = [np.unravel_index(part.argmax(), part.shape) for part in tasks]
    starts = [int(first + start) for first, (_, start) in zip(data.first, chosen, strict=True)]
    return np.array(starts + [int(machine) for machine, _ in chosen], np.int32)


def decider(problem: mg.Problem, load: int) -> Annealer:
    """Decisions of the test."""
    return Annealer(problem, 30_000 if load < 6 else 100_000)


def board(data: Path | None, load: int, seed: int, cache: Path) -> Board:
    """552 days to train, 60 to validate, 177 to test; a linear map of the 8 features of a slot, shared by the slots.

    Labels are exact, by Gurobi with its default gap of 10⁻⁴. Decisions are those of ``mg.solve``.
    """
    features, price = days(data, seed)
    problem = tasks(data, load, seed)
    path = _file(data, f"loads/load{load}/day01.txt")
    exact = exact_solver(program(problem), 1e-4)
    file = cache / f"icon-{load}-{seed if path is None else 'data'}.npz"
    found = kept(file, "solutions", price, lambda: np.array([as_schedule(problem, exact.solve(-p)) for p in price]))
    made = _board(f"ICON, load {load}", problem, features, price, found, decider(problem, load), Annealer(problem, 10_000))
    made.oracles["exact"] = exact
    if path is not None:
        options = {"moves": ("shift", "move", "relocate", "swap", "guided shift"), "start": found[0]}
        made.guided = mg.problems.EnergyScheduling.read(path, **options)
    return made


def hard(data: Path | None, number: int, seed: int, cache: Path) -> Board:
    """Two hundred tasks in slots of five minutes, six of which have one price; without data, tasks of the same kind.

    No program is solved: labels (10⁶ steps) and decisions (300,000) are those of ``mg.solve``; 20 days validate, and 59 test.
    """
    features, price = (np.repeat(part[: sum(FEWER)], 6, axis=1) for part in days(data, seed))
    path = _file(data, f"hard/instance{number:02}/instance.txt")
    problem = many_tasks(number, seed) if path is None else mg.problems.EnergyScheduling.read(path)
    labels, decide, validate = (Annealer(problem, steps) for steps in (1_000_000, 300_000, 100_000))
    file = cache / f"icon-hard{number}-{seed if path is None else 'data'}-{labels.steps}.npz"
    found = kept(file, "solutions", price, lambda: labels.solutions(-price))
    return _board(f"ICON, hard {number}", problem, features, price, found, decide, validate, FEWER)


def many_tasks(number: int, seed: int) -> mg.problems.EnergyScheduling:
    """200 tasks on 10 machines that have room for two thirds more."""
    rng, n, slots = np.random.default_rng([seed, number, 2]), 200, 288
    durations = rng.integers(10, 90, n)
    releases = np.array([rng.integers(0, slots - d - 40) for d in durations])
    deadlines = np.minimum(slots, releases + durations + rng.integers(40, 200, n))
    powers, uses = rng.uniform(10, 80, n), rng.integers(50, 450, n)
    room = 1.7 * (uses * durations).sum() / slots / 10
    return mg.problems.EnergyScheduling(durations, releases, deadlines, powers, uses, [room] * 10, slots=slots, slot_hours=1 / 12)


def _file(data: Path | None, name: str) -> Path | None:
    """A file of the data, if these are there."""
    return None if data is None else there(data / "icon" / name)


def _board(
    name: str, problem: mg.problems.EnergyScheduling, features: np.ndarray, price: np.ndarray, found: np.ndarray, decide: Annealer,
    validate: Annealer, sizes: tuple[int, int, int] = SIZES,
) -> Board:  # fmt: skip
    profiles, relaxed = problem.statistic(found), relaxation(problem)
    train, valid, test = divided(features, -price, profiles, *sizes)
    return Board(
        name=name,
        train=train,
        valid=valid,
        test=test,
        labels=profiles[: sizes[0]],
        solutions=found[: sizes[0]],
        problem=problem,
        model=lambda: Linear(8, 1, sign=-1.0),
        decide=decide,
        validate=validate,
        oracles={"lp": Highs(relaxed, integer=False)},
        rate=0.5,
        relaxation=relaxed,
    )


def excess(data: Path | None, load: int, count: int = 20) -> tuple[float, float]:
    """What the decisions of the test cost more than Gurobi's at the true prices of some test days: mean and maximum, in %."""
    problem = tasks(data, load, 0)
    price = days(data, 0)[1][-SIZES[2] :][:count]
    exact = (exact_solver(program(problem), 1e-6)(-price) * price).sum(1)
    found = (decider(problem, load)(-price) * price).sum(1)
    return float(100.0 * (found / exact - 1.0).mean()), float(100.0 * (found / exact - 1.0).max())


def main() -> None:
    """``python -m experiments.arena.icon``: how good the decisions are that regret is measured with."""
    from experiments.arena.study import DATA

    for load in (1, 2, 6):
        mean, most = excess(DATA, load)
        print(f"load {load}: decisions cost {mean:.4f} % more than the best in the mean of 20 test days, at most {most:.4f} %")


if __name__ == "__main__":
    main()
