"""Problems that come with movegrad, one file or folder each."""

from movegrad.problems import routing
from movegrad.problems.assignment import Assignment
from movegrad.problems.cvrp import CVRP
from movegrad.problems.hypercube import Hypercube
from movegrad.problems.knapsack import Knapsack
from movegrad.problems.qap import QAP
from movegrad.problems.routing import PrizeCollectingVRPTW
from movegrad.problems.top_k import TopK
from movegrad.problems.tsp import TSP

__all__ = ["CVRP", "QAP", "TSP", "Assignment", "Hypercube", "Knapsack", "PrizeCollectingVRPTW", "TopK", "routing"]
