"""Problems that come with movegrad, one file each."""

from movegrad.problems.hypercube import Hypercube as Hypercube
from movegrad.problems.knapsack import Knapsack as Knapsack
from movegrad.problems.top_k import TopK as TopK

__all__ = ["Hypercube", "Knapsack", "TopK"]
