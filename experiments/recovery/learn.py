"""Learning θ₀ from the gradient ŷ − E[Y]: instances, Adam, exact risks, and the loop that all Adam parts of the study share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import movegrad as mg
from movegrad.problems import Hypercube, TopK

SETS: dict[str, Callable[[], mg.Problem]] = {
    "hypercube": lambda: Hypercube(10),
    "top-κ": lambda: TopK(10, 3),
    "cube {5}": lambda: Hypercube(10, exactly=5),
    "cube {1,5}": lambda: Hypercube(10, exactly=(1, 5)),
    "cube {6}": lambda: Hypercube(10, exactly=6),
    "cube {1,2,3,6}": lambda: Hypercube(10, exactly=(1, 2, 3, 6)),
    "small cube {2}": lambda: Hypercube(4, exactly=2),
    "small cube {1,2}": lambda: Hypercube(4, exactly=(1, 2)),
}


@dataclass(frozen=True)
class Condition:
    """One curve: M problems of one set, learned together. ``observations`` = None stands for the expected risk (N → ∞)."""

    set: str
    steps: int = 1000
    chains: int = 1
    start: str = "persistent"
    observations: int | None = None
    rate: float = 0.03
    instances: int = 100
    updates: int = 1000
    temperature: float = 1.0
    falling: bool = False  # the rate falls to 0 as half a cosine


@dataclass(frozen=True)
class Curves:
    """What was recorded at the updates ``n`` (G,), for each instance (G, M)."""

    n: np.ndarray
    loss: np.ndarray
    excess: np.ndarray
    distance: np.ndarray


def instances(seed: int, m: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """True parameters Θ₀ and initial models Θ̂₀, both (m, d) with N(0, 1) entries; the first rows are the same for every m."""
    true, first = (np.random.default_rng([seed, stream]) for stream in (0, 1))
    return true.standard_normal((m, d)), first.standard_normal((m, d))


def grid(updates: int) -> np.ndarray:
    """Updates at which metrics are recorded: 0, the early ones on a logarithmic scale, then 50 at equal distances."""
    early = np.geomspace(1, max(updates / 20, 2), 12)
    return np.unique(np.r_[0, early, np.linspace(updates / 50, updates, 50)].round().astype(int))


def target_mean(problem: mg.Problem, theta0: np.ndarray, condition: Condition, seed: int) -> np.ndarray:
    """(M, d): E_{θ₀}[Y], or the mean Ȳ_N of N exact samples for each instance."""
    if condition.observations is None:
        return mg.exact.marginals(problem, theta0, condition.temperature)
    return exact_means(problem, theta0, condition.observations, condition.temperature, seed)


def exact_means(problem: mg.Problem, theta: np.ndarray, n: int, temperature: float, seed: int, chunk: int = 100) -> np.ndarray:
    """(…, d): means of n exact samples of π_θ, drawn in chunks to save memory. T(y) = y is assumed."""
    total, chunks = np.zeros(np.shape(theta)), range(0, n, chunk)
    for c in chunks:
        total += mg.exact.sample(problem, theta, min(chunk, n - c), temperature, seed=mix(seed, c)).sum(0, dtype=float)
    return total / n


class FreshData:
    """A start at fresh exact samples of π_θ₀: the data-based start in the limit N → ∞."""

    def __init__(self, theta0: np.ndarray, temperature: float) -> None:
        self.theta0, self.temperature = theta0, temperature

    def __call__(self, request: Any) -> np.ndarray:
        seed = mix(request.seed, request.call)
        rows = mg.exact.sample(request.problems[0], self.theta0, request.chains, self.temperature, seed=seed)
        return rows.swapaxes(0, 1)


def make_start(word: str, theta0: np.ndarray, temperature: float) -> Any:
    """The start of a condition: "random", "persistent" (one object for all updates) or "data"."""
    starts = {"random": lambda: "random", "persistent": mg.start.Persistent, "data": lambda: FreshData(theta0, temperature)}
    return starts[word]()


class Adam:
    """Adam (Kingma and Ba) with its usual β₁ = 0.9, β₂ = 0.999, ε = 10⁻⁸; rows of Θ never mix."""

    def __init__(self, shape: tuple[int, ...], rate: float) -> None:
        self.rate, self.count = rate, 0
        self.first, self.second = np.zeros(shape), np.zeros(shape)

    def step(self, gradient: np.ndarray) -> np.ndarray:
        """The change of Θ."""
        self.count += 1
        self.first += 0.1 * (gradient - self.first)
        self.second += 0.001 * (gradient**2 - self.second)
        first, second = self.first / (1 - 0.9**self.count), self.second / (1 - 0.999**self.count)
        return -self.rate * first / (np.sqrt(second) + 1e-8)


def risk(problem: mg.Problem, theta: np.ndarray, mean: np.ndarray, temperature: float) -> np.ndarray:
    """(…): A_t(θ) − ⟨θ, mean⟩ with A_t = t·log Z.

    This is the paper's L_{θ₀} (mean = E_{θ₀}[Y]) or L_N (mean = Ȳ_N) itself, not only up to a constant: for φ = 0 the
    regularization Ω_t vanishes at vertices, so E[Ω_t(Y)] = 0. It equals t times a cross-entropy.
    """
    return temperature * mg.exact.log_partition(problem, theta, temperature) - (theta * mean).sum(-1)


def squared_distance(problem: mg.Problem, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(…): ‖a − b‖², without the component along 1 where all solutions have the same sum."""
    difference = a - b
    if isinstance(problem, TopK):
        difference = difference - difference.mean(-1, keepdims=True)
    return (difference**2).sum(-1)


def learn(condition: Condition, seed: int) -> Curves:
    """Learn all M problems at once: θ ← Adam(mean of the chains − E_{θ₀}[Y])."""
    problem, t = SETS[condition.set](), condition.temperature
    theta0, theta = instances(seed, condition.instances, problem.size)
    mean = target_mean(problem, theta0, condition, seed)
    start, adam = make_start(condition.start, theta0, t), Adam(theta.shape, condition.rate)
    points, recorded = grid(condition.updates), []
    for n in range(condition.updates + 1):
        if n in points:
            losses = risk(problem, theta, mean, t), risk(problem, theta, mg.exact.marginals(problem, theta0, t), t)
            recorded.append((losses[0], losses[1], squared_distance(problem, theta, theta0)))
        if n < condition.updates:
            chain = mg.sample(
                problem, theta, steps=condition.steps, chains=condition.chains, start=start, temperature=t, trace=0,
                seed=seed, call=n,
            )  # fmt: skip
            adam.rate = condition.rate * share(n, condition)
            theta = theta + adam.step(chain.mean - mean)
    loss, expected, distance = np.array(recorded).swapaxes(0, 1)
    best = risk(problem, theta0, mg.exact.marginals(problem, theta0, t), t)
    return Curves(points, loss, expected - best, distance)


def share(n: int, condition: Condition) -> float:
    """Of the learning rate, at update n."""
    return 0.5 * (1 + np.cos(np.pi * n / condition.updates)) if condition.falling else 1.0


def mix(a: int, b: int) -> int:
    """One seed from two."""
    return int(np.random.SeedSequence([a, b]).generate_state(1, np.uint64)[0] >> np.uint64(1))
