"""Sizes of the study: the paper's, and small ones."""

from dataclasses import dataclass, field

SOLVERS = ("gurobi", "highs", "movegrad")


@dataclass(frozen=True)
class Data:
    """``pyepo.data.knapsack.genData``; capacities are ``ratio`` times the weight of all items. Labels take ``label_limit`` s."""

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
    label_limit: float = 1.0

    @property
    def size(self) -> int:
        return self.train + self.validation + self.test


@dataclass(frozen=True)
class Limited:
    """A solver with seconds for each solve."""

    solver: str
    limit: float


@dataclass(frozen=True)
class Training:
    """Every method is trained and evaluated alike: the best epoch on validation, where ``validate`` decides, then the test set."""

    epochs: int = 20
    batch: int = 32
    hidden: int = 64
    rate: float = 5e-3
    validate: Limited = Limited("gurobi", 0.05)
    decide: Limited = Limited("gurobi", 0.05)
    probes: tuple[int, ...] = (1, 2, 5, 10, 15, 20)  # epochs before which the variance of gradients is measured
    repeats: int = 8  # calls at the same θ


@dataclass(frozen=True)
class Sweep:
    """Limits of the layer in milliseconds; gaps are those of the solver on this many training instances."""

    limits: tuple[float, ...] = (0.1, 1.0, 10.0, 50.0, 100.0)
    gap_limits: tuple[float, ...] = (0.1, 1.0, 10.0, 50.0, 100.0)
    gap_instances: int = 100


@dataclass(frozen=True)
class Size:
    data: Data
    training: Training = field(default_factory=Training)
    sweep: Sweep = field(default_factory=Sweep)
    seeds: int = 3


# In quick, epochs are chosen with 5 ms of annealing for each decision, as good as 50 ms of Gurobi here; the test is the same.
QUICK = Size(
    Data(400, 100, 200),
    Training(validate=Limited("movegrad", 0.005), probes=(1, 5, 10, 20)),
    Sweep((0.1, 1.0, 10.0), gap_instances=20),
)
FULL = Size(Data(4000, 500, 500), seeds=5)
