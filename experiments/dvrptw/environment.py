"""The competition's dynamic problem as an environment with ``reset`` and ``step``.

A day has waves an hour apart. Each wave reveals requests; a policy sends routes out, which drive from the end of the wave; what is
not served stays open until it must go. Arrivals depend on (instance, seed, arrivals per wave) alone, not on actions.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from experiments.dvrptw.instances import Instance

EPOCH = 3600  # seconds between waves
MARGIN = 3600  # vehicles leave this long after a wave begins
ARRIVALS = 100  # drawn per wave in the competition; 50 in the published training days

Routes = list[list[int]]


class InfeasibleAction(ValueError):
    """Routes that break a rule of the environment; says which."""


@dataclass(frozen=True, eq=False)
class Requests:
    """All requests of a day, in order of arrival; request number i (from 1) is entry i − 1."""

    epochs: np.ndarray  # (N,) wave of arrival
    locations: np.ndarray  # (N,) customer whose place it is
    windows: np.ndarray  # (N, 2)
    demands: np.ndarray  # (N,)
    service: np.ndarray  # (N,)

    def __len__(self) -> int:
        return len(self.epochs)

    @property
    def release(self) -> np.ndarray:
        """Earliest departure of a route that serves it, (N,)."""
        return EPOCH * self.epochs + MARGIN


@dataclass(frozen=True, eq=False)
class Wave:
    """What a policy sees: n open requests behind the depot, which is entry 0; times from the departure of this wave's vehicles."""

    instance: Instance
    epoch: int
    first_epoch: int
    last_epoch: int
    ids: np.ndarray  # (n+1,) number of each request, 0 for the depot
    locations: np.ndarray  # (n+1,)
    windows: np.ndarray  # (n+1, 2)
    demands: np.ndarray  # (n+1,)
    service: np.ndarray  # (n+1,)
    must: np.ndarray  # (n+1,) bool: cannot wait for the next wave

    def __len__(self) -> int:
        """Number of open requests."""
        return len(self.ids) - 1

    @property
    def departure(self) -> int:
        return EPOCH * self.epoch + MARGIN

    @cached_property
    def durations(self) -> np.ndarray:
        """(n+1, n+1)"""
        return self.instance.durations[np.ix_(self.locations, self.locations)]

    @property
    def is_last(self) -> bool:
        return self.epoch == self.last_epoch

    def numbers(self, routes: Iterable[Sequence[int]]) -> Routes:
        """Routes of positions 1..n as routes of request numbers, which is what ``step`` takes."""
        return [[int(self.ids[i]) for i in route] for route in routes]

    def positions(self, routes: Iterable[Sequence[int]]) -> Routes:
        """Routes of request numbers as routes of positions 1..n."""
        place = {int(number): i for i, number in enumerate(self.ids)}
        return [[place[number] for number in route] for route in routes]

    def cost(self, routes: Iterable[Sequence[int]]) -> int:
        """Seconds driven by routes of positions."""
        return sum(self.drive(route) for route in routes)

    def drive(self, route: Sequence[int]) -> int:
        stops = np.r_[0, np.asarray(route, int), 0]
        return int(self.durations[stops[:-1], stops[1:]].sum())

    def complaint(self, route: Sequence[int]) -> str | None:
        """Why a route of positions is infeasible, or None."""
        load = int(self.demands[list(route)].sum())
        if load > self.instance.capacity:
            return f"load {load} exceeds the capacity {self.instance.capacity}"
        time, before = 0, 0
        for stop in route:
            time = max(time + int(self.durations[before, stop]), int(self.windows[stop, 0]))
            if time > self.windows[stop, 1]:
                return f"request {self.ids[stop]} is reached at {time}, after its window ends at {self.windows[stop, 1]}"
            time, before = time + int(self.service[stop]), stop
        time += int(self.durations[before, 0])
        if time > self.windows[0, 1]:
            return f"the vehicle is back at {time}, after the day ends at {self.windows[0, 1]}"
        return None

    def check(self, routes: Iterable[Sequence[int]]) -> None:
        """Raise :class:`InfeasibleAction` unless routes of positions obey every rule."""
        served: set[int] = set()
        for number, route in enumerate(routes):
            outside = [i for i in route if not 1 <= i <= len(self)]
            if outside or not len(route):
                what = f"position {outside[0]} is not in 1..{len(self)}" if outside else "it is empty"
                raise InfeasibleAction(f"route {number} is infeasible: {what}.")
            for i in route:
                if i in served:
                    raise InfeasibleAction(f"request {self.ids[i]} is served twice.")
                served.add(i)
            complaint = self.complaint(route)
            if complaint:
                raise InfeasibleAction(f"route {number} is infeasible: {complaint}.")
        missing = [int(self.ids[i]) for i in np.flatnonzero(self.must) if i not in served]
        if missing:
            raise InfeasibleAction(f"requests {missing} must be dispatched in wave {self.epoch} and are not.")


def epochs(instance: Instance) -> tuple[int, int]:
    """First and last wave of a day."""
    starts = instance.windows[1:, 0]
    first, last = (max((int(t) - MARGIN) // EPOCH, 0) for t in (starts.min(), starts.max()))
    return first, last


def in_time(instance: Instance, departure: int | np.ndarray, location: Any, windows: np.ndarray, service: np.ndarray) -> np.ndarray:
    """Whether a vehicle that leaves then can serve the request alone and be back."""
    arrival = np.maximum(departure + instance.durations[0, location], windows[:, 0])
    home = arrival + service + instance.durations[location, 0]
    return (arrival <= windows[:, 1]) & (home <= instance.windows[0, 1])


def draw_requests(instance: Instance, seed: int, arrivals: int = ARRIVALS) -> Requests:
    """The day's requests: each takes its place, window, demand and service from four customers drawn at random."""
    rng = np.random.default_rng(seed)
    first, last = epochs(instance)
    kept = []
    for epoch in range(first, last + 1):
        place, window, demand, service = (rng.integers(instance.customers, size=arrivals) + 1 for _ in range(4))
        columns = (place, instance.windows[window], instance.demands[demand], instance.service[service])
        fine = in_time(instance, EPOCH * epoch + MARGIN, place, columns[1], columns[3])
        kept.append((np.full(fine.sum(), epoch), *(column[fine] for column in columns)))
    return Requests(*(np.concatenate(column) for column in zip(*kept, strict=True)))


class Environment:
    """A day: ``wave, info = reset()``, then ``wave, reward, terminated, truncated, info = step(routes)``.

    Routes are lists of request numbers (``wave.ids``). The reward is minus the seconds driven. ``reset(seed=…)`` draws another day.
    """

    def __init__(self, instance: Instance, seed: int, arrivals: int = ARRIVALS) -> None:
        if arrivals < 1:
            raise ValueError(f"arrivals must be ≥ 1, got {arrivals}.")
        self.instance, self.seed, self.arrivals = instance, seed, arrivals
        self.first_epoch, self.last_epoch = epochs(instance)
        self.wave: Wave | None = None

    def reset(self, seed: int | None = None) -> tuple[Wave, dict[str, Any]]:
        self.seed = self.seed if seed is None else seed
        self.requests = draw_requests(self.instance, self.seed, self.arrivals)
        self.open = np.zeros(len(self.requests), bool)
        self.cost = 0
        self.wave = self._reveal(self.first_epoch)
        return self.wave, self._info(0, [])

    def step(self, routes: Iterable[Sequence[int]]) -> tuple[Wave | None, float, bool, bool, dict[str, Any]]:
        """Send routes out; raises :class:`InfeasibleAction` and changes nothing if they break a rule. No wave follows the last."""
        if self.wave is None:
            raise ValueError("step needs a running day: call reset first.")
        routes = [list(map(int, route)) for route in routes]
        known = set(self.wave.ids[1:].tolist())
        strange = [number for route in routes for number in route if number not in known]
        if strange:
            raise InfeasibleAction(f"request {strange[0]} is not open in wave {self.wave.epoch}.")
        positions = self.wave.positions(routes)
        self.wave.check(positions)
        cost, epoch = self.wave.cost(positions), self.wave.epoch
        self.cost += cost
        self.open[[number - 1 for route in routes for number in route]] = False
        done = epoch == self.last_epoch
        self.wave = None if done else self._reveal(epoch + 1)
        return self.wave, -float(cost), done, False, self._info(cost, routes)

    def _reveal(self, epoch: int) -> Wave:
        self.open |= self.requests.epochs == epoch
        return make_wave(self.instance, self.requests, np.flatnonzero(self.open), epoch)

    def _info(self, cost: int, routes: Routes) -> dict[str, Any]:
        return {"cost": cost, "total": self.cost, "routes": len(routes), "open": int(self.open.sum())}


def make_wave(instance: Instance, requests: Requests, opened: np.ndarray, epoch: int) -> Wave:
    """The wave at which the requests with these indices (from 0) are open."""
    first, last = epochs(instance)
    departure = EPOCH * epoch + MARGIN
    place, windows, service = requests.locations[opened], requests.windows[opened], requests.service[opened]
    late = ~in_time(instance, departure + EPOCH, place, windows, service) | (epoch == last)
    shifted = np.maximum(np.vstack([instance.windows[:1], windows]) - departure, 0)
    demands = requests.demands[opened]
    return Wave(
        instance, epoch, first, last, np.r_[0, opened + 1], np.r_[0, place], shifted, np.r_[0, demands], np.r_[0, service],
        np.r_[False, late],
    )  # fmt: skip


def replay(environment: Environment, routes: Iterable[tuple[int, Sequence[int]]]) -> tuple[int, list[Wave], list[Routes]]:
    """Drive routes (wave, request numbers) through a day: its cost, the waves seen, and each wave's routes of positions."""
    planned: dict[int, Routes] = {}
    for epoch, route in routes:
        planned.setdefault(int(epoch), []).append([int(number) for number in route])
    wave, _ = environment.reset()
    waves, actions, done = [], [], False
    while not done:
        action = planned.get(wave.epoch, [])
        waves.append(wave)
        actions.append(wave.positions(action))
        wave, _, done, _, _ = environment.step(action)  # type: ignore[assignment]
    return environment.cost, waves, actions
