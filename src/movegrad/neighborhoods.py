"""The neighborhoods of some solutions, listed once: exact one-step losses without running a move again."""

import os
from threading import Lock
from typing import Any

import numpy as np

from movegrad._calls import index_of
from movegrad._types import Arrays
from movegrad._validate import array_of, encoded, instance_of, positives
from movegrad.engine import HOST, Listing, must_be_losses
from movegrad.problem import Problem

__all__ = ["Neighborhoods"]


class Neighborhoods:
    """Every outcome of one step from each of some solutions: its probability, its ratio, and what it changes.

    Where a step can lead depends neither on θ nor on the temperature, unless moves are guided. Listed once, an exact one-step loss
    costs a pass over a table, however expensive the moves are: :meth:`one_step` gives what :func:`movegrad.one_step` gives. The
    table tells what moves did when it was made, and stays in memory.

    Parameters
    ----------
    problem : Problem
        Not guided. Proposals must not have too many outcomes to be listed.
    y : solutions (n, m), optional
        Whose neighborhoods to list: different ones, in the order of their rows. :meth:`rows_of` lists more.

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> problem = mg.problems.TopK(5, 2)
    >>> around = mg.Neighborhoods(problem, np.array([[1, 1, 0, 0, 0], [0, 0, 0, 1, 1]]))
    >>> len(around), around.outcomes
    (2, 12)
    >>> values, gradients = around.one_step(np.zeros((2, 5)))
    >>> values.round(6).tolist(), gradients[0].round(3).tolist()
    ([1.0, 1.0], [-0.5, -0.5, 0.333, 0.333, 0.333])
    """

    def __init__(self, problem: Problem, y: Arrays | None = None) -> None:
        self._problem = instance_of(problem, "problem", Problem)
        if problem.guided:
            raise ValueError(f"problem must not be guided, since its neighborhoods then depend on theta, got {problem.name}.")
        self._listing, self._lock, self._owner = Listing(problem), Lock(), os.getpid()
        self._rows: dict[bytes, int] = {}  # of each solution; what the listing has behind them does not count
        if y is not None:
            self.rows_of(y)

    def __reduce__(self) -> tuple:
        """Copies and pickles have the solutions, and list anew."""
        return Neighborhoods, (self.problem, self.solutions)

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"Neighborhoods({self.problem.name}, {len(self)} solutions, {self.outcomes} outcomes)"

    @property
    def problem(self) -> Problem:
        """Whose moves were listed."""
        return self._problem

    @property
    def solutions(self) -> np.ndarray:
        """(n, m), row by row."""
        solution = self.problem.solution
        return np.frombuffer(b"".join(self._rows), solution.dtype).reshape(-1, len(solution))

    @property
    def outcomes(self) -> int:
        """How many there are, of all solutions."""
        return self._listing.outcomes(len(self))

    @property
    def nbytes(self) -> int:
        """Memory of the lists, with room to grow."""
        return self._listing.nbytes

    def rows_of(self, y: Arrays) -> np.ndarray:
        """The rows of solutions; the neighborhoods of those that are new are listed.

        Parameters
        ----------
        y : solutions (n, m), or one (m,)

        Returns
        -------
        (n,) integers
            What :meth:`one_step` calls ``rows``.
        """
        given, size = array_of(encoded(self.problem, y, "y"), "y"), len(self.problem.solution)
        if given.ndim not in (1, 2) or given.shape[-1] != size:
            raise ValueError(f"y must have shape (n, {size}), got {given.shape}.")
        solutions = np.ascontiguousarray(np.atleast_2d(HOST.solutions(given, self.problem, "y")))
        keys = [row.tobytes() for row in solutions]
        if any(key not in self._rows for key in keys):
            if self._owner != os.getpid():  # a fork may have inherited a lock that nobody gives back
                self._lock, self._owner = Lock(), os.getpid()
            with self._lock:
                new: dict[bytes, int] = {}
                for k, key in enumerate(keys):
                    if key not in self._rows:
                        new.setdefault(key, k)
                places = list(new.values())
                self._listing.add(len(self), solutions[places], "y", places)
                self._rows.update(zip(new, range(len(self), len(self) + len(new)), strict=True))  # at once, or not at all
        return np.array([self._rows[key] for key in keys], np.int64)

    def one_step(self, theta: Arrays, rows: Any = None, *, temperature: Arrays = 1.0) -> tuple[np.ndarray, np.ndarray]:
        """Exact one-step losses and their gradients, as :func:`movegrad.one_step` has them.

        Parameters
        ----------
        theta : (n, d) array
            θ of each example.
        rows : (n,) integers, optional
            Those of their solutions (:meth:`rows_of`); by default one after the other.
        temperature : float, or (n,) array
            t > 0.

        Returns
        -------
        values : (n,) array
            The losses.
        gradients : (n, d) array
            Their gradients in θ.
        """
        theta = np.ascontiguousarray(HOST.vectors(theta, "theta", self.problem.size), float)
        if theta.ndim != 2:
            raise ValueError(f"theta must have two axes, got shape {theta.shape}.")
        n = len(theta)
        if rows is None and n > len(self) > 0:
            raise ValueError(f"theta must have {len(self)} rows at most where rows is not given, one for each solution, got {n}.")
        rows = index_of(rows, n, "rows")
        if n and not 0 <= rows.min() <= rows.max() < len(self):
            known = f"in 0..{len(self) - 1}" if len(self) else "of solutions that were listed, of which there are none"
            raise ValueError(f"rows must be {known}, got {rows.min()} to {rows.max()}.")
        heat = np.asarray(positives(temperature, "temperature"))
        if heat.ndim and np.shape(temperature) != (n,):
            raise ValueError(
                f"temperature must be a number or {n} of them, one for each row of theta, got shape {np.shape(temperature)}."
            )
        values, gradients = self._listing.weigh(rows, theta, np.broadcast_to(1.0 / heat, (n,)).copy())
        must_be_losses(values, self.problem, temperature)
        return values, gradients
