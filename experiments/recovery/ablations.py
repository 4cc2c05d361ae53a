"""The parts that are learned by Adam: which curves each of them draws."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from experiments.recovery.learn import Condition
from experiments.recovery.sizes import Sizes

BOTH = ("hypercube", "top-κ")
Curves = dict[str, Condition]  # by "panel | label"


class Ablation(NamedTuple):
    """Curves by panel and label; ``figure`` names the one that shows a curve, whose panels stand side by side."""

    name: str
    title: str
    curves: Callable[[Sizes], Curves]
    figure: Callable[[Condition], str | None]
    shared_objective: bool = True  # curves of one panel minimize the same risk


def rate(sizes: Sizes) -> Curves:
    """The learning rate, tried once in the base setting."""
    return {f"{s} | rate {r:g}": replace(base(s, sizes), rate=r) for s in BOTH for r in sizes.rates}


def steps(sizes: Sizes) -> Curves:
    """Part 1: K."""
    return {f"{s} | K = {k}": replace(base(s, sizes), steps=k) for s in BOTH for k in sizes.steps}


def chains(sizes: Sizes) -> Curves:
    """Part 2: C, for several K; conditions with very much work get fewer instances (the first of the same ones)."""
    curves = {}
    for k in sizes.chain_steps:
        for s in BOTH:
            for c in sizes.chains:
                m = sizes.instances if c * k <= sizes.work else sizes.few_instances
                curves[f"{s}, K = {k} | C = {c}"] = replace(base(s, sizes), steps=k, chains=c, instances=m)
    return curves


def start(sizes: Sizes) -> Curves:
    """Part 3: where chains start, for several K."""
    return {
        f"{s}, K = {k} | {word}": replace(base(s, sizes), steps=k, start=word, instances=sizes.many_instances)
        for s in BOTH
        for k in sizes.start_steps
        for word in ("random", "persistent", "data")
    }


def settled(sizes: Sizes) -> Curves:
    """Part 3 without the noise of Adam: many chains, and a rate that falls to 0, so that what is left is the bias of starts."""
    return {
        f"{s}, K = {k} | {word}": replace(
            base(s, sizes), steps=k, start=word, chains=sizes.settled_chains, rate=sizes.settled_rate, falling=True
        )
        for s in BOTH
        for k in sizes.settled_steps
        for word in ("random", "persistent", "data")
    }


def observations(sizes: Sizes) -> Curves:
    """Part 4: N observations, that is the empirical risk L_N."""
    return {f"{s} | N = {n}": replace(base(s, sizes), observations=n) for s in BOTH for n in sizes.observations}


def mixtures(sizes: Sizes) -> Curves:
    """Part 5: one neighborhood against mixtures, two of them reducible; beside the paper's two a small cube."""
    pairs = {
        "d = 10: {5} or {1,5}": ("cube {5}", "cube {1,5}"),
        "d = 10: {6} or {1,2,3,6}": ("cube {6}", "cube {1,2,3,6}"),
        "d = 4: {2} or {1,2}": ("small cube {2}", "small cube {1,2}"),
    }
    return {
        f"{pair}, K = {k} | {name.split()[-1]}": replace(base(name, sizes), steps=k)
        for k in sizes.mixture_steps
        for pair, names in pairs.items()
        for name in names
    }


def base(name: str, sizes: Sizes) -> Condition:
    """The setting that each part changes in one respect."""
    return Condition(name, sizes.base_steps, rate=sizes.rate, instances=sizes.instances, updates=sizes.updates)


ABLATIONS = (
    Ablation("rate", "learning rate of Adam", rate, lambda c: None),
    Ablation("steps", "number of steps K", steps, lambda c: "steps"),
    Ablation("chains", "number of chains C", chains, lambda c: f"chains_K{c.steps}"),
    Ablation("start", "start of the chains", start, lambda c: {"hypercube": "start_hypercube"}.get(c.set, "start_top_k")),
    Ablation("settled", "start of the chains, without the noise of Adam", settled, lambda c: "settled"),
    Ablation("observations", "number of observations N", observations, lambda c: "observations", shared_objective=False),
    Ablation("mixtures", "mixtures of neighborhoods", mixtures, lambda c: f"mixtures_K{c.steps}"),
)
