"""Adapters to other libraries, one file each; a library is imported when its adapter is first used."""

import importlib
from typing import Any

__all__ = ["pyepo", "pyvrp"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return importlib.import_module(f"movegrad.integrations.{name}")
    raise AttributeError(f"module 'movegrad.integrations' has no attribute {name!r}.")
