"""Sizes of the study: a quick one on generated instances, and one on the competition's data that two cores can afford."""

from dataclasses import dataclass, field

from experiments.dvrptw.evaluate import Judge
from experiments.dvrptw.labels import Labeling
from experiments.dvrptw.models import Architecture
from experiments.dvrptw.solver import Budget


@dataclass(frozen=True)
class Size:
    """Days, seeds, budgets in milliseconds, steps K and temperatures of the parts; ``steps`` is K where it is not studied."""

    arrivals: int  # M, drawn per wave
    train: int
    validation: int
    test: int
    seeds: int
    epochs: int
    milliseconds: tuple[float, ...]
    ks: tuple[int, ...]
    temperatures: tuple[float, ...]
    steps: int
    validate: Judge  # of epochs
    judge: Judge  # of test days
    labeling: Labeling  # of train days without published labels
    hindsight: Labeling  # of test days, from which gaps are measured
    customers: int = 60  # of generated instances
    rare: tuple[float, ...] = ()  # milliseconds with one seed alone
    long_temperatures: tuple[float, ...] = (10.0, 100.0)  # of chains that have the most milliseconds
    kinds: tuple[str, ...] = ("pfy", "pfy-warm", "target", "heuristic")  # layers that are compared at equal time
    choice: tuple[float, ...] = (1.0, 5.0, 10.0, 50.0, 100.0)  # milliseconds of the part that chooses on validation
    sigmas: tuple[float, ...] = (1.0, 30.0, 100.0, 300.0)  # of perturbed layers there; as many as temperatures of chains
    choice_temperatures: tuple[float, ...] = (1.0, 10.0, 100.0, 300.0)
    choice_epochs: int = 30
    replayed: int = 100  # arrivals of the days on which trained models are replayed
    model: Architecture = field(default_factory=Architecture)


@dataclass(frozen=True)
class Played:
    """What the cost of a policy depends on: the days and who plans them."""

    data: str
    arrivals: int
    customers: int
    days: tuple[str, ...]
    judge: Judge

    @property
    def same_days(self) -> tuple:
        """Costs can be compared where these agree."""
        return self.data, self.arrivals, self.customers, self.days


@dataclass(frozen=True)
class Solved(Played):
    """The same for costs in hindsight; runs begin with the routes of a policy."""

    hindsight: Labeling


@dataclass(frozen=True)
class Calibrated:
    """What the offset of our costs in hindsight depends on."""

    data: str
    arrivals: int
    customers: int
    judge: Judge  # of the routes that a run begins with
    hindsight: Labeling


@dataclass(frozen=True)
class Learned(Played):
    """The same for policies that are trained here, besides the layer."""

    train: int
    validation: int
    epochs: int
    validate: Judge
    labeling: Labeling
    model: Architecture
    seed: int


QUICK = Size(
    arrivals=14, train=14, validation=4, test=8, seeds=2, epochs=8, milliseconds=(1.0, 5.0), ks=(10, 1000),
    temperatures=(10.0, 100.0), steps=1000, validate=Judge(iterations=50), judge=Judge(iterations=200),
    labeling=Labeling(Budget(iterations=1000)),
    hindsight=Labeling(Budget(iterations=2000)), choice=(1.0,), sigmas=(1.0, 100.0), choice_temperatures=(10.0, 100.0),
    choice_epochs=8, replayed=20,
)  # fmt: skip
FULL = Size(
    arrivals=50, train=30, validation=8, test=22, seeds=3, epochs=15, milliseconds=(1.0, 5.0, 10.0, 50.0, 100.0),
    ks=(1, 10, 100, 1000, 10_000), temperatures=(1.0, 10.0, 100.0, 1000.0), steps=1000, validate=Judge(iterations=100),
    judge=Judge(iterations=1000), labeling=Labeling(Budget(seconds=120.0)), hindsight=Labeling(Budget(seconds=60.0)), customers=250,
    rare=(1000.0,),
)  # fmt: skip
