"""movegrad: you write the local-search moves, movegrad gives you the gradients."""

import importlib
from typing import Any

from movegrad import exact as exact
from movegrad import problems as problems
from movegrad import schedules as schedules
from movegrad import start as start
from movegrad._rng import categorical as categorical
from movegrad._rng import coin as coin
from movegrad._rng import integer as integer
from movegrad._rng import leaf as leaf
from movegrad._specialise import jit as jit
from movegrad._specialise import outline as outline
from movegrad._threads import get_threads as get_threads
from movegrad._threads import set_threads as set_threads
from movegrad._version import __version__ as __version__
from movegrad.check import check as check
from movegrad.problem import Move as Move
from movegrad.problem import Problem as Problem
from movegrad.problem import stay as stay
from movegrad.sampling import jacobian_product as jacobian_product
from movegrad.sampling import one_step as one_step
from movegrad.sampling import sample as sample
from movegrad.sampling import solve as solve

_FRONT_ENDS = ("torch", "jax", "integrations", "plot")


def __getattr__(name: str) -> Any:
    """Front ends are imported when they are first used: ``import movegrad`` needs neither of their libraries."""
    if name in _FRONT_ENDS:
        return importlib.import_module(f"movegrad.{name}")
    raise AttributeError(f"module 'movegrad' has no attribute {name!r}.")
