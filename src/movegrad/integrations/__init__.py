"""Adapters to other libraries, one file each; a library is imported when its adapter is first used."""

import importlib
from typing import Any

_ADAPTERS = ("pyepo", "pyvrp")


def __getattr__(name: str) -> Any:
    if name in _ADAPTERS:
        return importlib.import_module(f"movegrad.integrations.{name}")
    raise AttributeError(f"module 'movegrad.integrations' has no attribute {name!r}.")
