"""The multi-dimensional knapsack: decision-focused learning against the baselines of PyEPO (the paper's benchmark)."""
