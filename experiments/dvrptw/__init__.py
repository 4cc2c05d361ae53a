"""Dynamic vehicle routing with time windows: the EURO Meets NeurIPS 2022 competition, learned through a routing layer."""
