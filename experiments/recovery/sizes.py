"""How large each part is: FULL follows the paper, QUICK shows the same pictures in a minute."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """Sizes of all parts; where the paper gives a number, the default is the paper's."""

    # parts learned by Adam
    updates: int = 1000
    instances: int = 100
    many_instances: int = 1000  # of the comparison of starts
    few_instances: int = 25  # of conditions with more than ``work`` steps of chains for each update and instance
    work: int = 50_000
    rate: float = 0.02
    rates: tuple[float, ...] = (0.003, 0.01, 0.02, 0.03, 0.1, 0.3)
    base_steps: int = 1000
    steps: tuple[int, ...] = (1, 10, 100, 1000)
    chains: tuple[int, ...] = (1, 10, 100)
    chain_steps: tuple[int, ...] = (100, 1000)
    start_steps: tuple[int, ...] = (10, 100, 1000)
    settled_steps: tuple[int, ...] = (100, 1000)
    settled_chains: int = 30
    settled_rate: float = 0.1  # at first; it falls to 0
    observations: tuple[int, ...] = (10, 100, 1000, 10_000)
    mixture_steps: tuple[int, ...] = (10, 1000)
    # trajectories on the square
    trajectories: int = 400
    square_updates: int = 300
    # the convergence theorem
    runs: int = 64
    theorem_updates: int = 30_000
    literal_runs: int = 8
    literal_updates: int = 2000
    # asymptotic normality
    samples: tuple[int, ...] = (30, 100, 300, 1000, 3000, 10_000)
    replicates: int = 20_000


FULL = Sizes()
QUICK = Sizes(
    updates=200,
    instances=20,
    many_instances=50,
    few_instances=10,
    rate=0.05,
    rates=(0.01, 0.05, 0.2),
    base_steps=200,
    steps=(1, 10, 100),
    chains=(1, 10),
    chain_steps=(10, 100),
    start_steps=(10, 100),
    settled_steps=(100,),
    settled_chains=10,
    observations=(10, 100, 1000),
    mixture_steps=(10, 200),
    trajectories=50,
    square_updates=200,
    runs=16,
    theorem_updates=1000,
    literal_runs=4,
    literal_updates=20,
    samples=(30, 300, 3000),
    replicates=500,
)
