"""Problems that come with movegrad, one file or folder each."""

from movegrad.problems import routing
from movegrad.problems.binary_program import BinaryProgram, ProgramReport
from movegrad.problems.grid_path import ShortestPath
from movegrad.problems.hypercube import Hypercube
from movegrad.problems.knapsack import Knapsack
from movegrad.problems.routing import PrizeCollectingVRPTW
from movegrad.problems.top_k import TopK

__all__ = ["BinaryProgram", "Hypercube", "Knapsack", "PrizeCollectingVRPTW", "ProgramReport", "ShortestPath", "TopK", "routing"]
