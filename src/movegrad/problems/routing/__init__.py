"""Prize-collecting vehicle routing with time windows."""

from movegrad.problems.routing.instance import Instance, proximity
from movegrad.problems.routing.problem import PrizeCollectingVRPTW

__all__ = ["Instance", "PrizeCollectingVRPTW", "proximity"]
