"""Problems that come with movegrad, one file or folder each."""

from movegrad.problems import routing
from movegrad.problems.assignment import Assignment
from movegrad.problems.binary_program import BinaryProgram, ProgramReport
from movegrad.problems.cvrp import CVRP
from movegrad.problems.energy_scheduling import EnergyScheduling
from movegrad.problems.generalized_assignment import GeneralizedAssignment
from movegrad.problems.grid_path import ShortestPath
from movegrad.problems.hypercube import Hypercube
from movegrad.problems.knapsack import Knapsack
from movegrad.problems.qap import QAP
from movegrad.problems.qubo import QUBO, Ising, MaxCut
from movegrad.problems.routing import PrizeCollectingVRPTW
from movegrad.problems.top_k import TopK
from movegrad.problems.tsp import TSP

__all__ = [
    "CVRP", "QAP", "QUBO", "TSP", "Assignment", "BinaryProgram", "EnergyScheduling", "GeneralizedAssignment", "Hypercube", "Ising",
    "Knapsack", "MaxCut", "PrizeCollectingVRPTW", "ProgramReport", "ShortestPath", "TopK", "routing",
]  # fmt: skip
