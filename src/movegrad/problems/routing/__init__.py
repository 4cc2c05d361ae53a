"""Prize-collecting vehicle routing with time windows."""

from movegrad.problems.routing.instance import Instance as Instance
from movegrad.problems.routing.instance import proximity as proximity
from movegrad.problems.routing.problem import PrizeCollectingVRPTW as PrizeCollectingVRPTW
