"""Two families of growing size with learned costs, by generators of our own: generalized assignment, and one machine."""

from pathlib import Path

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix

import movegrad as mg
from experiments.arena.board import Board, Linear, Oracle, Relaxation, divided
from experiments.arena.cache import kept
from experiments.arena.icon import as_schedule
from experiments.arena.icon import relaxation as schedule_relaxation
from experiments.arena.oracles import Annealer, Highs, exact_solver

COUNTS = {1: (200, 50, 60), 10: (200, 30, 40), 100: (100, 20, 20)}  # train, validate, test, by how many times larger
LABEL, DECISION = 1_000_000, 200_000  # steps of ``mg.solve`` where no program is solved


def polynomial(rng: np.random.Generator, n: int, features: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Features N(0, 1) and costs ((B x/√p + 3)⁴ + 1)/3.5⁴ · U(½, 3/2) with B of coin flips: the rule of PyEPO's generators."""
    x, b = rng.standard_normal((n, features)), rng.integers(0, 2, (d, features))
    return x, ((x @ b.T / np.sqrt(features) + 3.0) ** 4 + 1.0) / 3.5**4 * rng.uniform(0.5, 1.5, (n, d))


def generalized(times: int, seed: int, cache: Path) -> Board:
    """5 × 20, 10 × 100, 20 × 500 agents and jobs; weights U{5, …, 25}, capacities 0.8 · Σ weights / agents; 10 features.

    Labels and decisions of the smallest are exact (a gap of 10⁻⁴), also those that choose models; others are those of ``mg.solve``.
    """
    agents, jobs = {1: (5, 20), 10: (10, 100), 100: (20, 500)}[times]
    rng, counts = np.random.default_rng([seed, times]), COUNTS[times]
    weights = rng.integers(5, 26, (agents, jobs))
    limits = np.ceil(0.8 * weights.sum(1) / agents).astype(int)
    x, cost = polynomial(rng, sum(counts), 10, agents * jobs)
    problem = mg.problems.GeneralizedAssignment(weights, limits)
    column = np.arange(agents * jobs)
    capacity = csr_matrix(coo_matrix((weights.ravel().astype(float), (column // jobs, column))))
    once = csr_matrix(coo_matrix((np.ones(agents * jobs), (column % jobs, column))))
    relaxed = Relaxation(capacity, limits.astype(float), once, np.ones(jobs))
    exact: Oracle = exact_solver(relaxed, 1e-4) if times <= 10 else Highs(relaxed, integer=True, limit=20.0, gap=1e-3)
    labels, decide = (exact, exact) if times == 1 else (Annealer(problem, LABEL), Annealer(problem, DECISION))
    found = kept(cache / f"gap-{times}-{seed}.npz", lambda: {"y": labels(-cost).astype(np.uint8)})["y"]
    agent = found.reshape(-1, agents, jobs).argmax(1)
    board = _board(f"GAP {agents} × {jobs}", counts, x, -cost, found.astype(float), agent, problem, relaxed, exact, 1e-2)
    board.decide, board.validate = decide, board.validate if times > 1 else None
    return board


def one_machine(times: int, seed: int, cache: Path) -> Board:
    """10 tasks in 48 slots, 100 in 480, 1000 in 4800, one task at a time; prices from 8 features of a slot.

    Durations U{1, …, 5}, so that a machine is busy for about 60 % of the time; windows of 24 slots and more; powers U(1, 10).
    """
    n, slots = 10 * times, 48 * times
    rng, counts = np.random.default_rng([seed, times, 1]), COUNTS[times]
    durations = rng.integers(1, 6, n)
    ends = np.cumsum(durations) * (slots / durations.sum())  # a plan that fits: in this order, evenly spread
    starts = np.floor(ends - durations).astype(int)
    starts = np.maximum.accumulate(np.maximum(starts, np.concatenate([[0], np.cumsum(durations)[:-1]])))
    first = np.maximum(0, starts - rng.integers(4, 24, n))
    last = np.minimum(slots, starts + durations + rng.integers(4, 24, n))
    known = (starts, np.zeros(n, int))
    problem = mg.problems.EnergyScheduling(durations, first, last, rng.uniform(1, 10, n), np.ones(n), [1], slots, start=known)
    x = rng.standard_normal((sum(counts), slots, 8))
    slope = rng.standard_normal(8) / np.sqrt(8)
    price = np.exp(0.6 * x @ slope) * rng.uniform(0.5, 1.5, x.shape[:2]) * 30.0
    relaxed = schedule_relaxation(problem)  # one machine: the program with integers is exact
    program, labels = Highs(relaxed, integer=True, limit=20.0, gap=1e-4), Annealer(problem, LABEL)

    def solutions() -> np.ndarray:
        return labels.solutions(-price) if times > 1 else np.array([as_schedule(problem, program.solve(-p)) for p in price])

    found = kept(cache / f"machine-{times}-{seed}.npz", lambda: {"y": solutions()})["y"]
    board = _board(f"one machine, {n} tasks", counts, x, -price, problem.statistic(found), found, problem, relaxed, program, 0.5)
    board.model = lambda: Linear(8, 1, sign=-1.0)
    if times > 1:
        board.decide = Annealer(problem, DECISION)
    else:
        board.validate = None
    return board


def _board(
    name: str, counts: tuple[int, int, int], x: np.ndarray, theta: np.ndarray, labels: np.ndarray, solutions: np.ndarray,
    problem: mg.Problem, relaxed: Relaxation, exact: Oracle, rate: float,
) -> Board:  # fmt: skip
    train, valid, test = divided(x, theta, labels, *counts)
    return Board(
        name=name,
        train=train,
        valid=valid,
        test=test,
        labels=labels[: counts[0]],
        solutions=solutions[: counts[0]],
        problem=problem,
        model=lambda: Linear(x.shape[-1], theta.shape[1], sign=-1.0),
        decide=exact,
        validate=Annealer(problem, 30 * theta.shape[1] + 2000),
        oracles={"exact": exact, "lp": Highs(relaxed, integer=False)},
        rate=rate,
        relaxation=relaxed,
    )
