"""A wave of deliveries: which requests to serve now, in which routes, and how sure is that?

Run it with ``python examples/routing.py`` (needs rich and matplotlib). ``docs/problems/routing.md`` tells how it was added.
"""

import argparse
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import movegrad as mg
from movegrad.problems.routing import Instance

FIGURE = Path(__file__).parent / "out" / "routing.png"
TEMPERATURE = 200.0  # seconds of driving

DAY, HOUR = 12 * 3600, 3600


def generate(n: int, seed: int) -> tuple[Instance, np.ndarray]:
    """An instance like those of a parcel service, in seconds, and a prize for each request; the same for the same arguments.

    Requests lie in clusters. Roads have uneven speeds and take time to leave and to reach, so that durations are asymmetric. Most
    windows last two hours, some the whole day; what cannot wait another hour must be served now.
    """
    rng = np.random.default_rng([seed, n])
    centers = rng.uniform(0, 3000, (max(4, n // 15), 2))
    places = np.vstack([rng.uniform(500, 1500, 2), centers[rng.integers(len(centers), size=n)] + rng.normal(0, 180, (n, 2))])
    distance = np.linalg.norm(places[:, None] - places[None], axis=-1)
    leave, reach = rng.uniform(0, 240, (2, n + 1))
    durations = np.rint(2.0 * distance * rng.lognormal(0.0, 0.25, distance.shape) + leave[:, None] + reach)
    np.fill_diagonal(durations, 0)
    demands = np.r_[0, rng.geometric(0.17, n).clip(2, 25)]
    service = np.r_[0, 60 * (1 + demands[1:] + rng.integers(0, 4, n))]
    closes = HOUR * rng.choice((1.5, 2.5, 3.5, 4.5, 5.5, 6.5), size=n + 1, p=(0.2, 0.2, 0.2, 0.2, 0.1, 0.1))
    closes[rng.random(n + 1) < 0.25] = 9 * HOUR
    opens = np.where(closes < 9 * HOUR, np.maximum(0, closes - 2 * HOUR), 0.0)
    closes, opens[0] = np.maximum(closes, durations[0] + 600), 0
    closes[0] = max(DAY, (np.maximum(durations[0], opens) + service + durations[:, 0]).max())
    prizes = np.rint(rng.uniform(0.2, 1.4, n) * 0.25 * np.median(durations[0, 1:] + durations[1:, 0]))
    instance = Instance(
        durations,
        demands,
        service,
        np.column_stack([opens, closes]),
        capacity=100,
        must_serve=np.r_[False, (durations[0] + HOUR > closes)[1:]],
        coordinates=places,
    )
    return instance, prizes


problem = mg.problems.PrizeCollectingVRPTW(  # small enough to prove: movegrad check examples/routing.py:problem
    Instance(
        durations=[[0, 2, 3, 3, 4], [3, 0, 1, 4, 2], [3, 2, 0, 1, 3], [2, 4, 2, 0, 1], [4, 3, 3, 1, 0]],
        demands=[0, 1, 2, 1, 1],
        service=[0, 1, 1, 0, 1],
        windows=[[0, 15], [0, 9], [4, 10], [3, 12], [0, 11]],
        capacity=4,
        must_serve=[0, 1, 0, 0, 0],
    ),
    beta=0.5,
)


def plan_table(instance: Instance, routes: list[list[int]]) -> Table:
    table = Table(title="the best plan found (* must be served now)", caption="times in minutes after the depot opens", box=None)
    for column in ("route", "load", "drives", "waits", "back", "stops"):
        table.add_column(column, justify="left" if column == "stops" else "right", overflow="fold")
    for r, route in enumerate(routes, 1):
        stops, back = mg.plot.timetable(instance, route)
        driven = sum(instance.durations[a, b] for a, b in zip([0, *route], [*route, 0], strict=True))
        waited = sum(stop.begin - stop.arrival for stop in stops)
        names = " ".join(f"{i}*" if instance.must_serve[i] else f"{i}" for i in route)
        table.add_row(str(r), f"{instance.demands[route].sum():g}", *(f"{t / 60:.0f}" for t in (driven, waited, back)), names)
    return table


def doubt_table(prizes: np.ndarray, planned: np.ndarray, chance: np.ndarray, lines: int = 8) -> Table:
    """The requests about which chains are least sure."""
    table = Table(title=f"closest calls, t = {TEMPERATURE:g}", box=None)
    for column in ("request", "prize", "in the plan", "P(served)"):
        table.add_column(column, justify="right")
    for i in np.argsort(np.abs(chance - 0.5), kind="stable")[:lines]:
        table.add_row(str(i + 1), f"{prizes[i]:.0f}", "yes" if planned[i] else "no", f"{chance[i]:.2f}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--figure", type=Path, default=FIGURE)
    options = parser.parse_args()
    console = Console(highlight=False)
    instance, prizes = generate(options.requests, options.seed)
    wave = mg.problems.PrizeCollectingVRPTW(instance)
    console.print("The first run compiles the moves, which takes a while; later ones find them on disk.")
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("annealing", total=1.0)
        plan = mg.solve(wave, prizes, steps=options.steps, progress=lambda done: progress.update(task, completed=done))
    console.print(plan_table(instance, plan.routes))
    served = f"{plan.served.sum()} of {options.requests} requests"
    console.print(f"objective {plan.objective:,.0f} = prizes − {plan.cost:,.0f} s of driving; {served}\n")
    near = mg.sample(
        wave, prizes, steps=2 * options.steps, chains=4, temperature=TEMPERATURE, start=plan.routes,
        best=True,  # as solve does: then the same compiled code serves both
    )  # fmt: skip
    console.print(doubt_table(prizes, plan.served, near.mean))
    console.print(near.info)
    mg.plot.routes(instance, plan.routes, prizes=prizes, path=options.figure)
    console.print(f"figure: {options.figure}")


if __name__ == "__main__":
    main()
