"""Two families of growing size with learned costs, by generators of our own: generalized assignment, and one machine."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix

import movegrad as mg
from experiments.arena.board import Board, Linear, Relaxation, divided
from experiments.arena.cache import kept
from experiments.arena.icon import as_schedule
from experiments.arena.icon import relaxation as schedule_relaxation
from experiments.arena.oracles import Gurobi, Highs, exact_solver

Solver = Gurobi | Highs
COUNTS = {1: (200, 50, 60), 10: (200, 30, 40), 100: (100, 10, 20)}  # train, validate, test, by how many times larger
GAPS = {1: (1e-4, 1e-4), 10: (1e-3, 1e-2), 100: (1e-2, 1e-2)}  # of programs: for labels, and in training and decisions


def polynomial(rng: np.random.Generator, n: int, features: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Features N(0, 1) and costs ((B x/√p + 3)⁴ + 1)/3.5⁴ · U(½, 3/2) with B of coin flips: the rule of PyEPO's generators."""
    x, b = rng.standard_normal((n, features)), rng.integers(0, 2, (d, features))
    return x, ((x @ b.T / np.sqrt(features) + 3.0) ** 4 + 1.0) / 3.5**4 * rng.uniform(0.5, 1.5, (n, d))


def generalized(times: int, seed: int, cache: Path) -> Board:
    """5 × 20, 10 × 100, 20 × 500 agents and jobs; weights U{5, …, 25}, capacities 0.8 · Σ weights / agents; 10 features."""
    agents, jobs = {1: (5, 20), 10: (10, 100), 100: (20, 500)}[times]
    rng = np.random.default_rng([seed, times])
    weights = rng.integers(5, 26, (agents, jobs))
    limits = np.ceil(0.8 * weights.sum(1) / agents).astype(int)
    x, cost = polynomial(rng, sum(COUNTS[times]), 10, agents * jobs)
    column = np.arange(agents * jobs)
    capacity = csr_matrix(coo_matrix((weights.ravel().astype(float), (column // jobs, column))))
    once = csr_matrix(coo_matrix((np.ones(agents * jobs), (column % jobs, column))))
    relaxed = Relaxation(capacity, limits.astype(float), once, np.ones(jobs))

    def program(gap: float) -> Solver:
        return exact_solver(relaxed, gap) if times <= 10 else Highs(relaxed, integer=True, limit=20.0, gap=gap)

    def agent(found: np.ndarray) -> np.ndarray:
        return found.reshape(agents, jobs).argmax(0)

    problem, file = mg.problems.GeneralizedAssignment(weights, limits), cache / f"gap-{times}-{seed}-program.npz"
    board = _board(f"GAP {agents} × {jobs}", times, x, -cost, problem, relaxed, program, agent, file)
    board.model, board.rate = lambda: Linear(10, agents * jobs, sign=-1.0), 1e-2
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

    def program(gap: float) -> Solver:
        return exact_solver(relaxed, gap) if times == 1 else Highs(relaxed, integer=True, limit=20.0, gap=gap)

    file, read = cache / f"machine-{times}-{seed}-program.npz", partial(as_schedule, problem)
    return _board(f"one machine, {n} tasks", times, x, -price, problem, relaxed, program, read, file)


def _board(
    name: str, times: int, x: np.ndarray, theta: np.ndarray, problem: mg.Problem, relaxed: Relaxation,
    program: Callable[[float], Solver], read: Callable[[np.ndarray], np.ndarray], file: Path,
) -> Board:  # fmt: skip
    """Labels and decisions are those of programs with integers.

    At 10 times the size models are chosen by relaxed decisions, at 100 times they are judged by them, too, against relaxed optima:
    a program takes seconds there. ``read`` turns columns of the program into a solution.
    """
    counts, relaxation = COUNTS[times], Highs(relaxed, integer=False)
    labels, exact = (program(gap) for gap in GAPS[times])
    solved = counts[0] if times == 100 else sum(counts)
    found = kept(file, "y", theta, lambda: np.array([read(labels.solve(one)) for one in theta[:solved]]))
    taken = problem.statistic(found)
    if solved < len(theta):
        taken = np.concatenate([taken, relaxation(theta[solved:])])
    train, valid, test = divided(x, theta, taken, *counts)
    return Board(
        name=name,
        train=train,
        valid=valid,
        test=test,
        labels=taken[: counts[0]],
        solutions=found[: counts[0]],
        problem=problem,
        model=lambda: Linear(x.shape[-1], 1, sign=-1.0),
        decide=relaxation if times == 100 else exact,
        validate=None if times == 1 else relaxation,
        oracles={"exact": exact, "lp": relaxation},
        rate=0.5,
        relaxation=relaxed,
    )
