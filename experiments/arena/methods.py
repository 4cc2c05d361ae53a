"""All methods: to import this is to have them in the registry."""

from experiments.arena import ours, rivals
from experiments.arena.ours import OURS
from experiments.arena.registry import METHODS, Method

__all__ = ["METHODS", "OURS", "Method", "ours", "rivals"]
