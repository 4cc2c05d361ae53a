"""The "complete" features of Baty et al., 20 for each open request, and the arcs of their sparse graph."""

from functools import lru_cache

import numpy as np

from experiments.dvrptw.environment import EPOCH, MARGIN, Wave
from experiments.dvrptw.instances import Instance

NAMES = (
    "x", "y", "demand", "service", "window start", "window end", "from depot", "from depot / slack", "start / remaining",
    "end / remaining", "must", "durations q1", "durations q5", "durations q10", "durations q50", "slack q0", "slack q1", "slack q5",
    "slack q10", "slack q50",
)  # fmt: skip
DURATION_QUANTILES = (0.01, 0.05, 0.1, 0.5)
SLACK_QUANTILES = (0.0, 0.01, 0.05, 0.1, 0.5)


def features(wave: Wave) -> np.ndarray:
    """(n+1, 20), not scaled; row 0 is the depot. The last 9 compare a request with all customers of the static instance."""
    return np.column_stack([_of_requests(wave), _durations(wave.instance)[wave.locations], _slacks(wave)])


def _of_requests(wave: Wave) -> np.ndarray:
    """(n+1, 11)"""
    start, end = wave.windows.astype(float).T
    service, depot = wave.service.astype(float), wave.durations[0].astype(float)
    slack = end - service
    remaining = max(EPOCH * wave.last_epoch + MARGIN - wave.departure, 1)  # 0 in the last wave, where all must go anyway
    points = wave.instance.coordinates[wave.locations]
    columns = (wave.demands, service, start, end, depot, depot / np.where(slack == 0, 1, slack))
    return np.column_stack([points, *columns, start / remaining, end / remaining, wave.must])


@lru_cache(maxsize=64)
def _durations(instance: Instance) -> np.ndarray:
    """Quantiles of the durations from each place to all places, (nodes, 4)."""
    return np.quantile(instance.durations, DURATION_QUANTILES, axis=1).T


def _slacks(wave: Wave) -> np.ndarray:
    """Quantiles over customers k, still open to requests, of the larger slack of going r → k and k → r, (n+1, 5).

    The window of r is that of the customer at its place, not its own: so it was in the code that trained the published network.
    """
    instance, relu = wave.instance, lambda x: np.maximum(x, 0.0)
    others = instance.windows[1:][instance.windows[1:, 1] > wave.departure]
    if not len(others):
        return np.zeros((len(wave) + 1, len(SLACK_QUANTILES)))
    places = wave.locations
    own, service = instance.windows[places], wave.service.astype(float)
    out, back = instance.durations.mean(1)[places], instance.durations.mean(0)[places]
    after = relu(relu(relu(others[None, :, 1] - own[:, 0, None]) - service[:, None]) - out[:, None])
    begin = np.maximum(others[:, 0], wave.departure)
    before = relu(relu(relu(own[:, 1, None] - begin[None]) - instance.service[1:].mean()) - back[:, None])
    return np.quantile(np.maximum(after, before), SLACK_QUANTILES, axis=1).T


def arcs(wave: Wave) -> tuple[np.ndarray, np.ndarray]:
    """Arcs i → j that a vehicle could drive, l_i + T_ij < u_j, depot included: (2, arcs) nodes and (arcs,) durations."""
    durations = wave.durations
    possible = wave.windows[:, 0, None] + durations < wave.windows[None, :, 1]
    np.fill_diagonal(possible, False)
    origin, goal = np.nonzero(possible)
    return np.stack([origin, goal]), durations[origin, goal].astype(float)
