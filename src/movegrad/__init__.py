"""movegrad: you write the local-search moves, movegrad gives you the gradients.

* Take a set of solutions from :mod:`movegrad.problems`, or write one: :class:`~movegrad.problem.Problem` and
  :class:`~movegrad.problem.Move`, with functions compiled by :func:`jit` (or :func:`outline`) that draw by :func:`integer`,
  :func:`coin`, :func:`categorical` and :func:`leaf`; :func:`check` proves it right, :func:`debug` makes its first steps in plain
  Python.
* Average along chains (:func:`sample`), maximize (:func:`solve`), or differentiate (:func:`jacobian_product`, :func:`one_step`, and
  :class:`Neighborhoods` for one-step losses of the same solutions again and again).
  ``print(result.info)`` says how the chains went.
* Learn: :mod:`movegrad.torch` and :mod:`movegrad.jax` have the layer θ ↦ E[T(Y)] and its Fenchel-Young losses.
* Small problems exactly: :mod:`movegrad.exact`. Where chains begin: :mod:`movegrad.start`. Temperatures: :mod:`movegrad.schedules`.
  Pictures: :mod:`movegrad.plot`. Other libraries: ``movegrad.integrations``. Threads: :func:`set_threads`.

>>> import numpy as np
>>> import movegrad as mg
>>> found = mg.solve(mg.problems.TopK(5, 2), np.array([0.1, 3.0, 0.2, 2.0, 0.3]), steps=200)
>>> found.solution
array([0, 1, 0, 1, 0], dtype=uint8)
"""

import importlib
from typing import TYPE_CHECKING, Any

from movegrad import exact, problems, schedules, start
from movegrad._version import __version__
from movegrad.check import check
from movegrad.debug import debug
from movegrad.engine import categorical, coin, get_threads, integer, jit, leaf, outline, set_threads
from movegrad.neighborhoods import Neighborhoods
from movegrad.problem import Move, Problem, stay
from movegrad.sampling import Sample, Solution, jacobian_product, one_step, sample, solve

__all__ = [
    "Move",
    "Neighborhoods",
    "Problem",
    "Sample",
    "Solution",
    "__version__",
    "categorical",
    "check",
    "coin",
    "debug",
    "exact",
    "get_threads",
    "integer",
    "jacobian_product",
    "jit",
    "leaf",
    "one_step",
    "outline",
    "problems",
    "sample",
    "schedules",
    "set_threads",
    "solve",
    "start",
    "stay",
]

if TYPE_CHECKING:  # for type checkers; when the program runs, __getattr__ imports them
    from movegrad import integrations as integrations
    from movegrad import jax as jax
    from movegrad import plot as plot
    from movegrad import torch as torch

_FRONT_ENDS = ("torch", "jax", "integrations", "plot")


def __getattr__(name: str) -> Any:
    """Front ends are imported when they are first used: ``import movegrad`` needs neither of their libraries."""
    if name in _FRONT_ENDS:
        return importlib.import_module(f"movegrad.{name}")
    raise AttributeError(f"module 'movegrad' has no attribute {name!r}.")
