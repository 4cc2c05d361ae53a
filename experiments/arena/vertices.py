"""Vertices of {x ≥ 0: A x ≤ b} as solutions, pivots of the simplex method as moves; the random programs of the solver-free paper.

A solution is a vertex with its slacks; what is positive is the basis. A move draws one of the n variables and slacks that are 0,
each with probability 1/n, and follows the edge on which it grows until another one is 0, which leaves the basis. The way back draws
the one that has left: 1/n as well, so the ratio is 1. That holds for simple polytopes, where a vertex has one basis and n edges;
random programs are simple. A vertex is computed anew from its basis: it has the same digits on whatever way it was reached.
"""

from collections.abc import Iterator
from functools import partial
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

import movegrad as mg
from experiments.arena.board import Board, Linear, Relaxation, divided
from experiments.arena.oracles import Highs
from experiments.arena.pivots import adjacent
from movegrad.engine import pure

SMALL = 1e-9
VARIABLES, CONSTRAINTS, FEATURES, DEGREE = 100, 50, 5, 8
TRAIN, VALID, TEST = 500, 500, 250


class Data(NamedTuple):
    rows: np.ndarray  # (m, n + m), with slacks
    limits: np.ndarray  # (m,)


class State(NamedTuple):
    y: np.ndarray  # (n + m,) variables, then slacks
    basis: np.ndarray  # (m,) which of them a row of the tableau solves for
    table: np.ndarray  # (m · (n + m + 1),) the tableau, row after row, each with its right-hand side last
    small: np.ndarray  # (m · (m + 1),) columns of the basis, and limits: scratch
    order: np.ndarray  # (m,) scratch


@mg.jit
def pivot(table, width, row, column):
    """Let a row solve for a variable: 1 there, 0 in all others."""
    factor = 1.0 / table[row * width + column]
    for k in range(width):
        table[row * width + k] *= factor
    for other in range(len(table) // width):
        if other != row:
            factor = table[other * width + column]
            if factor != 0.0:
                for k in range(width):
                    table[other * width + k] -= factor * table[row * width + k]


@mg.jit
def prepare(data, guide, temperature, state):
    """The tableau of a basis, each variable in the row where its entry is the largest that is left."""
    m, total = data.rows.shape
    width, table = total + 1, state.table
    for r in range(m):
        state.basis[r] = -1
        for k in range(total):
            table[r * width + k] = data.rows[r, k]
        table[r * width + total] = data.limits[r]
    for column in range(total):
        if state.y[column] > 0.0:
            best, row = 0.0, 0
            for r in range(m):
                if state.basis[r] < 0 and abs(table[r * width + column]) > best:
                    best, row = abs(table[r * width + column]), r
            state.basis[row] = column
            pivot(table, width, row, column)
    for k in range(len(state.small)):
        state.small[k] = 0.0
    for r in range(m):
        state.order[r] = 0


@mg.jit
def solve(data, state):
    """Values of the basis, in the order of variables, by elimination with the largest entry of a column as pivot."""
    m, total = data.rows.shape
    width, small, order, at = m + 1, state.small, state.order, 0
    for k in range(total):
        state.y[k] = 0.0 if state.y[k] == 0.0 else 1.0
        if state.y[k] > 0.0:
            for r in range(m):
                small[r * width + at] = data.rows[r, k]
            order[at] = k
            at += 1
    for r in range(m):
        small[r * width + m] = data.limits[r]
    for c in range(m):
        row = c
        for r in range(c + 1, m):
            if abs(small[r * width + c]) > abs(small[row * width + c]):
                row = r
        if row != c:
            for k in range(c, width):
                small[c * width + k], small[row * width + k] = small[row * width + k], small[c * width + k]
        for r in range(c + 1, m):
            factor = small[r * width + c] / small[c * width + c]
            if factor != 0.0:
                for k in range(c, width):
                    small[r * width + k] -= factor * small[c * width + k]
    for c in range(m - 1, -1, -1):
        value = small[c * width + m]
        for k in range(c + 1, m):
            value -= small[c * width + k] * state.y[order[k]]
        state.y[order[c]] = value / small[c * width + c]


@mg.jit
def propose(data, state, rng):
    """(entering variable, row of the leaving one, how far)."""
    m, total = data.rows.shape
    width, left, column = total + 1, mg.integer(rng, total - m), -1
    while left >= 0:
        column += 1
        left -= state.y[column] == 0.0
    step, row = np.inf, -1
    for r in range(m):
        falls = state.table[r * width + column]
        if falls > SMALL and state.table[r * width + total] < step * falls:
            step, row = state.table[r * width + total] / falls, r
    return (column, row, step), 0.0 if row >= 0 else -np.inf


@mg.jit
def change(data, state, move, k):
    """Of the variable of row k, then of the one that enters; a slack is no entry of T."""
    column, row, step = move
    m, total = data.rows.shape
    of = column if k == m else state.basis[k]
    if of >= total - m:
        return 0, 0.0
    if k == m:
        return of, step
    if k == row:
        return of, -state.table[k * (total + 1) + total]
    return of, -step * state.table[k * (total + 1) + column]


@mg.jit
def changes(data, state, move):
    return len(state.basis) + 1


@mg.jit
def apply(data, state, move):
    column, row, step = move
    pivot(state.table, data.rows.shape[1] + 1, row, column)
    state.y[state.basis[row]] = 0.0
    state.y[column] = step
    state.basis[row] = column
    solve(data, state)


@mg.jit
def statistic(data, y, out):
    for k in range(len(out)):
        out[k] = y[k]


@mg.jit
def contains(data, y):
    """Whether m entries are positive, no other is below 0, and all constraints hold."""
    m, total = data.rows.shape
    positive = 0
    for k in range(total):
        if y[k] < 0.0:
            return False
        positive += y[k] > 0.0
    for r in range(m):
        left = data.limits[r]
        for k in range(total):
            left -= data.rows[r, k] * y[k]
        if abs(left) > SMALL * (1.0 + abs(data.limits[r])):
            return False
    return positive == m


PIVOT = mg.Move("pivot", propose, change, apply, changes)


def vertices(rows: np.ndarray, limits: np.ndarray) -> Iterator[np.ndarray]:
    """All of a small program, with the digits that moves give them."""
    m, total = rows.shape
    state = State(np.zeros(total), *(np.zeros(k) for k in (m, 0, m * (m + 1))), np.zeros(m, np.int64))
    for chosen in combinations(range(total), m):
        square = rows[:, chosen]
        if abs(np.linalg.det(square)) > SMALL and (np.linalg.solve(square, limits) > SMALL).all():
            state.y[:] = 0.0
            state.y[list(chosen)] = 1.0
            pure(solve)(Data(rows, limits), state)
            yield state.y.copy()


class Vertices(mg.Problem):
    """The vertices of {x ≥ 0: A x ≤ b}, b > 0, if it is simple; T(y) = x."""

    def __init__(self, A: np.ndarray, b: np.ndarray) -> None:
        (m, n), limits = A.shape, np.asarray(b, float)
        rows = np.concatenate([A, np.eye(m)], 1)
        scratch = (np.zeros(m, np.int64), np.zeros(m * (n + m + 1)), np.zeros(m * (m + 1)), np.zeros(m, np.int64))
        super().__init__(
            Data(rows, limits),
            State(np.concatenate([np.zeros(n), limits]), *scratch),
            [PIVOT],
            n,
            prepare=prepare,
            statistic=statistic,
            contains=contains,
            states=partial(vertices, rows, limits),
            name=f"Vertices({n} variables, {m} constraints)",
        )


def program(rng: np.random.Generator, n: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    """A ~ U(0, 1) and b = A x° with x° ~ U(0, 1): a program whose constraints all pass through one point."""
    A = rng.uniform(0, 1, (m, n))
    return A, A @ rng.uniform(0, 1, n)


def board(seed: int) -> Board:
    """100 variables, 50 constraints, maximized; 5 features, degree 8, no noise: 500 to train and to validate, 250 to test."""
    rng, counts = np.random.default_rng([seed, 8]), (TRAIN, VALID, TEST)
    A, b = program(rng, VARIABLES, CONSTRAINTS)
    x, coins = rng.standard_normal((sum(counts), FEATURES)), rng.integers(0, 2, (VARIABLES, FEATURES))
    theta = ((x @ coins.T / np.sqrt(FEATURES) + 3.0) ** DEGREE + 1.0) / 3.5**DEGREE
    relaxation = Relaxation(csr_matrix(A), b, upper=np.inf)
    exact, problem = Highs(relaxation, integer=False), Vertices(A, b)
    found = exact(theta)
    train, valid, test = divided(x, theta, found, *counts)
    whole = np.concatenate([found[:TRAIN], b - found[:TRAIN] @ A.T], 1)
    return Board(
        name="random linear programs",
        train=train,
        valid=valid,
        test=test,
        labels=found[:TRAIN],
        solutions=np.where(whole > SMALL, whole, 0.0),
        problem=problem,
        model=lambda: Linear(FEATURES, VARIABLES),
        decide=exact,
        oracles={"exact": exact},
        rate=1e-2,
        relaxation=relaxation,
        extra={"vertices": lambda: adjacent(relaxation, train.theta)},
    )
