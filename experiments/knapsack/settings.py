"""Sizes of the study: the paper's, and small ones."""

from dataclasses import dataclass, field

SOLVERS = ("gurobi", "highs", "movegrad")
STEPS_PER_SECOND = 30_000_000  # of swaps and flips on one core: what a chain's budget in seconds is counted as


@dataclass(frozen=True)
class Data:
    """``pyepo.data.knapsack.genData``; capacities are ``ratio`` times the weight of all items. ``label_work``: see Limited."""

    train: int
    validation: int
    test: int
    features: int = 64
    items: int = 100
    constraints: int = 50
    degree: int = 4
    noise: float = 0.5
    ratio: float = 0.5
    seed: int = 0
    label_solver: str = "gurobi"
    label_work: float = 1.0

    @property
    def size(self) -> int:
        return self.train + self.validation + self.test


@dataclass(frozen=True)
class Limited:
    """A solver with seconds of one core for each solve, counted as work so that a busy machine gives the same result.

    Gurobi counts work units, which take about a second each, and annealing steps (``STEPS_PER_SECOND``); HiGHS has the clock,
    and more of it where the machine is busy.
    """

    solver: str
    limit: float


@dataclass(frozen=True)
class Training:
    """Every method is trained and evaluated alike: the best epoch on validation, where ``validate`` decides, then the test set."""

    epochs: int = 20
    batch: int = 32
    hidden: int = 64
    rate: float = 5e-3
    validate: Limited = Limited("movegrad", 0.002)
    decide: Limited = Limited("gurobi", 0.05)
    probes: tuple[int, ...] = (1, 5, 10, 20, 50, 100)  # epochs before which the variance of gradients is measured
    repeats: int = 8  # calls at the same θ


@dataclass(frozen=True)
class Sweep:
    """Limits of the layer in milliseconds, limits of ``mg.solve`` and the solvers, and the number of instances for these."""

    limits: tuple[float, ...] = (0.1, 1.0, 5.0, 10.0, 20.0, 50.0, 100.0)
    solves: tuple[float, ...] = (1.0, 10.0, 50.0)
    instances: int = 100


@dataclass(frozen=True)
class Size:
    data: Data
    training: Training = field(default_factory=Training)
    sweep: Sweep = field(default_factory=Sweep)
    seeds: int = 5


@dataclass(frozen=True)
class Settings:
    """What rows depend on. ``mip_limit``: seconds of a MIP solve in training."""

    data: Data
    training: Training
    mip_limit: float = 0.05


# Epochs are chosen with 60,000 steps of annealing for each decision, for every method; 50 ms of the solver decide in the test.
QUICK = Size(Data(400, 100, 200))
FULL = Size(Data(4000, 500, 500))
