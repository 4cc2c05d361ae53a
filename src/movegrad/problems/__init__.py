"""Problems that come with movegrad, one file or folder each."""

from movegrad.problems import routing as routing
from movegrad.problems.hypercube import Hypercube as Hypercube
from movegrad.problems.knapsack import Knapsack as Knapsack
from movegrad.problems.routing import PrizeCollectingVRPTW as PrizeCollectingVRPTW
from movegrad.problems.top_k import TopK as TopK

__all__ = ["Hypercube", "Knapsack", "PrizeCollectingVRPTW", "TopK", "routing"]
