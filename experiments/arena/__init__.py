"""The arena: benchmarks that others wrote, against the methods people would use instead."""
