"""How far to go at a time: stretches of steps, with their temperatures, for a number of steps or for a time limit.

What a stretch is run on is not known here: places ask for one after the other and run each before they ask for the next.
"""

from collections.abc import Iterator
from time import perf_counter
from typing import Any, NamedTuple

from movegrad.engine.loop import AFTER_BUILD, AFTER_DRAW, AFTER_IMPROVE, BUILD, DRAW, IMPROVE
from movegrad.schedules import STEADY, Heat

# What may be done before the first step, in this order, and what is known of a start then.
STARTS = {DRAW: AFTER_DRAW, BUILD: AFTER_BUILD, IMPROVE: AFTER_IMPROVE}
UNLIMITED = 1 << 62  # steps
_SHARE = 0.25  # of the time limit, at most, between looks at the clock
_LATEST = 0.02  # of the time limit: so little is not worth another look


class Stretch(NamedTuple):
    """Steps first…stop−1, at these temperatures."""

    heat: Heat
    first: int
    stop: int
    is_last: bool = False


def by_steps(schedule: Any, steps: int, most: int) -> Iterator[Stretch]:
    """Stretches of at most so many steps."""
    if schedule is not None:
        most = min(most, schedule.longest)
    for first in range(0, steps, most):
        count = min(most, steps - first)
        heat = STEADY if schedule is None else schedule.steps(first, count, steps)
        yield Stretch(heat, first, first + count, first + count == steps)


def by_time(settings: Any, pause: float, most: int = UNLIMITED) -> Iterator[Stretch]:
    """Stretches for a time limit, which begins now: the first of one step, whatever the limit; the last one of none.

    The others have so many steps that the clock can be looked at after ``pause`` seconds, by what a step took the time before.
    """
    limit, schedule, end = float(settings.time_limit), settings.schedule, settings.steps or UNLIMITED
    most = most if schedule is None else min(most, schedule.longest)

    def heat(first: int, count: int, begin: float, end: float) -> Heat:
        return STEADY if schedule is None else schedule.seconds(first, count, begin, min(1.0, end))

    since, done, count, spent, ahead = perf_counter(), 0, 1, 0.0, 0.0
    while True:
        share = min(1.0, spent / limit)
        yield Stretch(heat(done, count, share, share + ahead / limit), done, done + count)
        before, spent, done = spent, perf_counter() - since, done + count
        left = limit - spent
        if left < _LATEST * limit or done >= end:
            break
        ahead = min(left, _SHARE * limit, pause)
        count = max(1, min(int(count * ahead / max(spent - before, 1e-9)), end - done, most))
    yield Stretch(heat(done, 1, 1.0, 1.0), done, done, is_last=True)
