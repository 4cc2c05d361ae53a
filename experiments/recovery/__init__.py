"""Recovering θ₀ in the unconditional setting: how K, C, starts, N and mixtures of moves matter, and the convergence theorems."""
