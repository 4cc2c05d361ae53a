"""The parts that are learned by Adam: which curves each of them draws."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from experiments.recovery.learn import Condition
from experiments.recovery.sizes import Sizes

BOTH = ("hypercube", "top-κ")


@dataclass(frozen=True)
class Ablation:
    """Curves by panel and label; each figure shows some of the panels side by side."""

    name: str
    title: str
    curves: dict[tuple[str, str], Condition]
    figures: dict[str, list[str]]
    shared_objective: bool = True  # curves of one panel minimize the same risk


def all_ablations(sizes: Sizes) -> list[Ablation]:
    """Every part that Adam learns."""
    return [make(sizes) for make in (rate, steps, chains, start, observations, mixtures)]


def rate(sizes: Sizes) -> Ablation:
    """The learning rate, tried once in the base setting."""
    curves = {(s, f"rate {r:g}"): replace(base(s, sizes), rate=r) for s in BOTH for r in sizes.rates}
    return Ablation("rate", "learning rate of Adam", curves, {})


def steps(sizes: Sizes) -> Ablation:
    """Part 1: K."""
    curves = {(s, f"K = {k}"): replace(base(s, sizes), steps=k) for s in BOTH for k in sizes.steps}
    return Ablation("steps", "number of steps K", curves, {"steps": list(BOTH)})


def chains(sizes: Sizes) -> Ablation:
    """Part 2: C, for several K; conditions with very much work get fewer instances (the first of the same ones)."""
    curves, figures = {}, {}
    for k in sizes.chain_steps:
        for s in BOTH:
            for c in sizes.chains:
                m = sizes.instances if c * k <= sizes.work else sizes.few_instances
                curves[panel(s, k), f"C = {c}"] = replace(base(s, sizes), steps=k, chains=c, instances=m)
        figures[f"chains_K{k}"] = [panel(s, k) for s in BOTH]
    return Ablation("chains", "number of chains C", curves, figures)


def start(sizes: Sizes) -> Ablation:
    """Part 3: where chains start, for several K."""
    curves = {
        (panel(s, k), word): replace(base(s, sizes), steps=k, start=word, instances=sizes.many_instances)
        for s in BOTH
        for k in sizes.start_steps
        for word in ("random", "persistent", "data")
    }
    names = dict(zip(BOTH, ("start_hypercube", "start_top_k"), strict=True))
    return Ablation("start", "start of the chains", curves, {names[s]: [panel(s, k) for k in sizes.start_steps] for s in BOTH})


def observations(sizes: Sizes) -> Ablation:
    """Part 4: N observations, that is the empirical risk L_N."""
    curves = {(s, f"N = {n}"): replace(base(s, sizes), observations=n) for s in BOTH for n in sizes.observations}
    return Ablation("observations", "number of observations N", curves, {"observations": list(BOTH)}, shared_objective=False)


def mixtures(sizes: Sizes) -> Ablation:
    """Part 5: one neighborhood against mixtures, two of them reducible; beside the paper's two a small cube."""
    pairs = {
        "d = 10: {5} or {1,5}": ("cube {5}", "cube {1,5}"),
        "d = 10: {6} or {1,2,3,6}": ("cube {6}", "cube {1,2,3,6}"),
        "d = 4: {2} or {1,2}": ("small cube {2}", "small cube {1,2}"),
    }
    curves = {
        (f"{pair}, K = {k}", name.split()[-1]): replace(base(name, sizes), steps=k)
        for k in sizes.mixture_steps
        for pair, names in pairs.items()
        for name in names
    }
    figures = {f"mixtures_K{k}": [f"{pair}, K = {k}" for pair in pairs] for k in sizes.mixture_steps}
    return Ablation("mixtures", "mixtures of neighborhoods", curves, figures)


def base(name: str, sizes: Sizes) -> Condition:
    """The setting that each part changes in one respect."""
    return Condition(name, sizes.base_steps, rate=sizes.rate, instances=sizes.instances, updates=sizes.updates)


def panel(name: str, k: int) -> str:
    return f"{name}, K = {k}"


def labels(ablation: Ablation, name: str) -> Iterable[str]:
    """Labels of the curves in a panel."""
    return [label for p, label in ablation.curves if p == name]
