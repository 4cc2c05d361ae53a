"""Estimates of E[Y] by local-search chains against exact expectations: the paper's convergence study, and beyond."""
