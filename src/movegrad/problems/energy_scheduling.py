"""Energy-cost-aware scheduling: tasks on machines over time slots, where energy has a price in each slot (the ICON challenge).

A task runs without a break for its duration, within its window, on one machine, whose resources it uses meanwhile; machines differ
in what they have. The machine does not enter the cost: T(y) is the energy used in each slot, and θ is minus the price.

The moves, all uniform with ratio 1:

* *shift*: a task gets another start in its window, on its machine;
* *move*: a task goes to another machine at the same time, which frees room and costs nothing;
* *relocate*: a task gets another start and any machine;
* *swap*: two tasks exchange their places, start and machine, if both windows allow it.

*Guided shift* draws the start with probability ∝ e^(⟨θ, energy⟩/β) among all in the window, the present one included, so that both
directions have the same normalizer: the ratio is e^((old − new)/β), and with β = t all that fits is accepted.

What a move does to ⟨θ, T(y)⟩ is two differences of prefix sums of θ, filled by ``attach``: O(1). Profiles of what is left of each
machine's resources are kept for the question whether it fits, O(duration·resources), which only what the coin accepted is asked.
Amounts lie on a grid (a power of two), so that profiles are exact sums, whether kept or computed anew: see ``_loads.py``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, Unpack

import numpy as np

from movegrad._types import Arrays, Start
from movegrad._validate import MOST, array_of, choices, integer_in, positive, shown, why
from movegrad.engine import categorical, integer, jit, outline
from movegrad.problem import Move, Problem
from movegrad.problems._binary import weighted
from movegrad.problems._loads import amounts, on_grid

_TRIALS = 400  # constructions of a first schedule, at most


class Data(NamedTuple):
    """Windows as first and last start. Profiles lie machine after machine, resource after resource: slots side by side."""

    duration: np.ndarray  # (n,)
    first: np.ndarray  # (n,)
    last: np.ndarray  # (n,)
    energy: np.ndarray  # (n,) in each slot
    use: np.ndarray  # (n, R)
    capacity: np.ndarray  # (M, R), with slack
    slots: int
    starts_at: np.ndarray  # (n+1,) where the starts of each task begin in ``cumulative``
    beta: float  # of guided shifts; 0 stands for t
    known: np.ndarray  # (2n,) a schedule


class State(NamedTuple):
    """The solution holds the starts of all tasks, then their machines."""

    place: np.ndarray  # (2n,)
    room: np.ndarray  # (M·R·slots,) what is left
    prefix: np.ndarray  # (slots+1,) sums of θ
    cumulative: np.ndarray  # of the weights of all starts, task after task; empty unless guided


# --- what is left of a machine ----------------------------------------------------------------------------------------------


@jit
def fits(data, state, task, start, machine):
    """Is there room for a task, which is not in the profile itself?"""
    count = data.use.shape[1]
    over = False
    for r in range(count):
        need, at = data.use[task, r], (machine * count + r) * data.slots + start
        for t in range(at, at + data.duration[task]):  # no early exit, so that the loop can be vectorized
            over |= state.room[t] < need
    return not over


@jit
def take(data, state, task, start, machine, sign):
    """Take a task's use out of the profile (1) or put it back (−1)."""
    count = data.use.shape[1]
    for r in range(count):
        amount, at = sign * data.use[task, r], (machine * count + r) * data.slots + start
        for t in range(at, at + data.duration[task]):
            state.room[t] -= amount


# --- one task to another place: shift, move, relocate ---------------------------------------------------------------------------


@jit
def tasks_of(state):
    return len(state.place) // 2


@jit
def propose_shift(data, state, rng):
    n = tasks_of(state)
    task = integer(rng, n)
    choices, old = data.last[task] - data.first[task], state.place[task]
    machine = np.int64(state.place[n + task])
    if choices == 0:
        return (task, np.int64(old), machine), -np.inf
    start = np.int64(data.first[task]) + integer(rng, choices)
    return (task, start + (start >= old), machine), 0.0


@jit
def propose_move(data, state, rng):
    n = tasks_of(state)
    task = integer(rng, n)
    machines, old = len(data.capacity), np.int64(state.place[n + task])
    if machines == 1:
        return (task, np.int64(state.place[task]), old), -np.inf
    machine = integer(rng, machines - 1)
    return (task, np.int64(state.place[task]), machine + (machine >= old)), 0.0


@jit
def propose_relocate(data, state, rng):
    """Uniform among all places of the task; the present one is no draw."""
    n = tasks_of(state)
    task = integer(rng, n)
    start = np.int64(data.first[task]) + integer(rng, data.last[task] - data.first[task] + 1)
    machine = integer(rng, len(data.capacity))
    same = start == state.place[task] and machine == state.place[n + task]
    return (task, start, machine), -np.inf if same else 0.0


@jit
def propose_guided_shift(data, state, rng):
    n = tasks_of(state)
    task = integer(rng, n)
    row = state.cumulative[data.starts_at[task] : data.starts_at[task + 1]]
    new, old = categorical(rng, row), np.int64(state.place[task] - data.first[task])
    machine = np.int64(state.place[n + task])
    if new == old:
        return (task, np.int64(state.place[task]), machine), -np.inf
    new_weight = row[new] - (row[new - 1] if new > 0 else 0.0)
    old_weight = row[old] - (row[old - 1] if old > 0 else 0.0)
    return (task, np.int64(data.first[task]) + new, machine), np.log(old_weight / new_weight)


@jit
def changed(data, old, new, duration):
    """Slots that one of two stretches of the same length has and the other has not, for each."""
    return min(abs(new - old), duration)


@jit
def changes_place(data, state, move):
    task, start, _machine = move
    return 2 * changed(data, np.int64(state.place[task]), start, np.int64(data.duration[task]))


@jit
def change_at(data, task, old, new, m):
    """The m-th slot that a task leaves or enters when its start changes from old to new."""
    duration = np.int64(data.duration[task])
    count = changed(data, old, new, duration)
    leaves = m < count
    later = (new > old) != leaves  # of the stretch that it has: the part at its end
    at = m if leaves else m - count
    begin = old if leaves else new
    return begin + at + (duration - count if later else 0), -data.energy[task] if leaves else data.energy[task]


@jit
def change_place(data, state, move, m):
    task, start, _machine = move
    return change_at(data, task, np.int64(state.place[task]), start, m)


@jit
def value_at(data, state, task, start):
    """⟨θ, energy⟩ of a task that begins there."""
    return data.energy[task] * (state.prefix[start + data.duration[task]] - state.prefix[start])


@jit
def score_place(data, theta, state, move):
    task, start, _machine = move
    return value_at(data, state, task, start) - value_at(data, state, task, np.int64(state.place[task]))


@jit
def place_fits(data, state, move):
    """On the same machine the task's own use is put back for the question: sums are exact, nothing is left of it."""
    task, start, machine = move
    old, own = np.int64(state.place[task]), np.int64(state.place[tasks_of(state) + task])
    if machine != own or abs(start - old) >= data.duration[task]:
        return fits(data, state, task, start, machine)
    take(data, state, task, old, own, -1.0)
    possible = fits(data, state, task, start, machine)
    take(data, state, task, old, own, 1.0)
    return possible


@jit
def apply_place(data, state, move):
    task, start, machine = move
    n = tasks_of(state)
    take(data, state, task, np.int64(state.place[task]), np.int64(state.place[n + task]), -1.0)
    take(data, state, task, start, machine, 1.0)
    state.place[task], state.place[n + task] = start, machine


# --- swap: two tasks exchange start and machine ----------------------------------------------------------------------------------


@jit
def propose_swap(data, state, rng):
    n = tasks_of(state)
    if n < 2:
        return (0, 0), -np.inf
    f, g = integer(rng, n), integer(rng, n - 1)
    g += g >= f
    a, b = state.place[f], state.place[g]
    same = a == b and state.place[n + f] == state.place[n + g]
    allowed = data.first[f] <= b and b <= data.last[f] and data.first[g] <= a and a <= data.last[g]
    return (f, g), 0.0 if allowed and not same else -np.inf


@jit
def changes_swap(data, state, move):
    f, g = move
    a, b = np.int64(state.place[f]), np.int64(state.place[g])
    return 2 * (changed(data, a, b, np.int64(data.duration[f])) + changed(data, b, a, np.int64(data.duration[g])))


@jit
def change_swap(data, state, move, m):
    f, g = move
    a, b = np.int64(state.place[f]), np.int64(state.place[g])
    count = 2 * changed(data, a, b, np.int64(data.duration[f]))
    if m < count:
        return change_at(data, f, a, b, m)
    return change_at(data, g, b, a, m - count)


@jit
def score_swap(data, theta, state, move):
    f, g = move
    a, b = np.int64(state.place[f]), np.int64(state.place[g])
    return value_at(data, state, f, b) - value_at(data, state, f, a) + value_at(data, state, g, a) - value_at(data, state, g, b)


@jit
def swap_fits(data, state, move):
    f, g = move
    n = tasks_of(state)
    a, b = np.int64(state.place[f]), np.int64(state.place[g])
    own, other = np.int64(state.place[n + f]), np.int64(state.place[n + g])
    take(data, state, f, a, own, -1.0)
    take(data, state, g, b, other, -1.0)
    possible = fits(data, state, f, b, other)
    if possible:
        take(data, state, f, b, other, 1.0)
        possible = fits(data, state, g, a, own)
        take(data, state, f, b, other, -1.0)
    take(data, state, f, a, own, 1.0)
    take(data, state, g, b, other, 1.0)
    return possible


@jit
def apply_swap(data, state, move):
    f, g = move
    n = tasks_of(state)
    a, b = np.int64(state.place[f]), np.int64(state.place[g])
    own, other = np.int64(state.place[n + f]), np.int64(state.place[n + g])
    apply_place(data, state, (f, b, other))
    apply_place(data, state, (g, a, own))


def _of_one(name: str, propose: Any) -> Move:
    return Move(name, propose, change_place, apply_place, changes_place, feasible=place_fits, score=score_place)


MOVES = {
    "shift": _of_one("shift", propose_shift),
    "move": _of_one("move", propose_move),
    "relocate": _of_one("relocate", propose_relocate),
    "swap": Move("swap", propose_swap, change_swap, apply_swap, changes_swap, feasible=swap_fits, score=score_swap),
    "guided shift": _of_one("guided shift", propose_guided_shift),
}


# --- the set ---------------------------------------------------------------------------------------------------------------------


@jit
def runs(data, place, task, t, machine):
    """Does a task run in slot t on this machine?"""
    return place[len(place) // 2 + task] == machine and place[task] <= t and t < place[task] + data.duration[task]


@jit
def overloaded(data, place, t, machine, task, start):
    """Is some resource of a machine exceeded in slot t, were a task there from ``start`` on? Sums are anew, without a profile."""
    for r in range(data.use.shape[1]):
        total = 0.0
        for f in range(len(place) // 2):
            if f == task:
                if start <= t and t < start + data.duration[f]:
                    total += data.use[f, r]
            elif runs(data, place, f, t, machine):
                total += data.use[f, r]
        if total > data.capacity[machine, r]:
            return True
    return False


@jit
def could_be(data, place, task, start, machine):
    """Would a task fit there? Loads are largest where some task begins."""
    n = len(place) // 2
    if overloaded(data, place, start, machine, task, start):
        return False
    for f in range(n):
        t = place[f]
        inside = f != task and place[n + f] == machine and start < t and t < start + data.duration[task]
        if inside and overloaded(data, place, t, machine, task, start):
            return False
    return True


@outline
def contains(data, place):
    n = len(place) // 2
    for f in range(n):
        if place[f] < data.first[f] or place[f] > data.last[f] or place[n + f] < 0 or place[n + f] >= len(data.capacity):
            return False
    for f in range(n):
        if overloaded(data, place, place[f], place[n + f], f, place[f]):
            return False
    return True


@jit
def statistic(data, place, out):
    for f in range(len(place) // 2):
        for t in range(place[f], place[f] + data.duration[f]):
            out[t] += data.energy[f]


@jit
def fill_room(data, state):
    """Machines without tasks."""
    machines, count = data.capacity.shape
    for m in range(machines):
        for r in range(count):
            for t in range(data.slots):
                state.room[(m * count + r) * data.slots + t] = data.capacity[m, r]


@jit
def prepare(data, guide, temperature, state):
    n = tasks_of(state)
    fill_room(data, state)
    for f in range(n):
        take(data, state, f, np.int64(state.place[f]), np.int64(state.place[n + f]), 1.0)


@jit
def prepare_guided(data, guide, temperature, state):
    """Weights e^((value − largest)/β) of the starts of each task, none below e^−30: every start can be drawn."""
    prepare(data, guide, temperature, state)
    beta = data.beta if data.beta > 0.0 else temperature
    for f in range(tasks_of(state)):
        begin, end = data.starts_at[f], data.starts_at[f + 1]
        value, high = 0.0, -np.inf
        for t in range(data.duration[f]):
            value += guide[data.first[f] + t]
        for k in range(begin, end):  # first the values themselves, of a window that slides
            state.cumulative[k] = value * data.energy[f]
            high = max(high, state.cumulative[k])
            if k + 1 < end:
                slot = data.first[f] + k - begin
                value += guide[slot + data.duration[f]] - guide[slot]
        total = 0.0
        for k in range(begin, end):
            total += exp(max((state.cumulative[k] - high) / beta, -30.0))
            state.cumulative[k] = total


@jit
def attach(data, theta, state):
    state.prefix[0] = 0.0
    for t in range(data.slots):
        state.prefix[t + 1] = state.prefix[t] + theta[t]


@outline
def random(data, rng, place):
    """The known schedule, shaken: every task in turn, four times and more, goes to a random place if it fits there."""
    n = len(place) // 2
    for i in range(2 * n):
        place[i] = data.known[i]
    shift = integer(rng, n)
    for k in range(4 * n + 32):
        f = (k + shift) % n
        start = data.first[f] + integer(rng, data.last[f] - data.first[f] + 1)
        machine = integer(rng, len(data.capacity))
        if could_be(data, place, f, start, machine):
            place[f], place[n + f] = start, machine


@jit
def cheapest(data, guide, state, task):
    """The best start and machine with room for a task; start −1 if there is none. One pass over the slots of each machine."""
    count, best, at, on = data.use.shape[1], -np.inf, -1, 0
    for machine in range(len(data.capacity)):
        free, value = 0, 0.0  # slots in a row with room, and the sum of θ over the last of them
        for t in range(data.first[task], data.last[task] + data.duration[task]):
            open_slot = True
            for r in range(count):
                open_slot = open_slot and state.room[(machine * count + r) * data.slots + t] >= data.use[task, r]
            free, value = (free + 1, value + guide[t]) if open_slot else (0, 0.0)
            if free > data.duration[task]:
                value -= guide[t - data.duration[task]]
                free -= 1
            if free == data.duration[task] and (at < 0 or value > best):
                best, at, on = value, t - data.duration[task] + 1, machine
    return at, on


@outline
def greedy(data, guide, state):
    """Tasks by falling energy, each where it is cheapest; where some task does not fit then, the known schedule."""
    n = tasks_of(state)
    fill_room(data, state)
    for f in range(n):
        state.place[f] = -1
    for _ in range(n):
        task, most = -1, -1.0
        for f in range(n):
            if state.place[f] < 0 and data.energy[f] * data.duration[f] > most:
                task, most = f, data.energy[f] * data.duration[f]
        start, machine = cheapest(data, guide, state, task)
        if start < 0:
            for i in range(2 * n):
                state.place[i] = data.known[i]
            return
        state.place[task], state.place[n + task] = start, machine
        take(data, state, task, start, machine, 1.0)


@dataclass(frozen=True, eq=False)
class Schedules:
    """Lists all schedules of a small instance."""

    data: Data

    def __call__(self) -> Iterator[np.ndarray]:
        n = len(self.data.duration)
        room = np.repeat(self.data.capacity[:, None], int(self.data.slots), axis=1)
        return self._with(np.zeros(2 * n, np.int32), 0, room)

    def _with(self, place: np.ndarray, task: int, room: np.ndarray) -> Iterator[np.ndarray]:
        """All schedules that are ``place`` before this task."""
        data, n = self.data, len(self.data.duration)
        if task == n:
            yield place.copy()
            return
        for start in range(data.first[task], data.last[task] + 1):
            for machine in range(len(data.capacity)):
                part = room[machine, start : start + data.duration[task]]
                if (part >= data.use[task]).all():
                    place[task], place[n + task] = start, machine
                    part -= data.use[task]
                    yield from self._with(place, task + 1, room)
                    part += data.use[task]


class Options(TypedDict, total=False):
    """What :meth:`EnergyScheduling.read` takes by name."""

    moves: Sequence[str]
    beta: float | None
    shares: Sequence[float] | None
    start: Start | None


class EnergyScheduling(Problem):
    """Schedules of n tasks on M machines with R resources over time slots; T(y) is the energy used in each slot.

    θ has one entry for each slot: with θ = −price, ⟨θ, T(y)⟩ is minus the cost of energy. Solutions are arrays (2n,): the start
    slots of all tasks, then their machines; where solutions are asked for, a pair (starts, machines) will do.

    Parameters
    ----------
    durations : integers (n,)
        Slots that each task takes, ≥ 1.
    releases, deadlines : integers (n,)
        A task may begin in slot ``release`` and must end before slot ``deadline`` begins.
    powers : array (n,)
        Power of each task while it runs, ≥ 0.
    uses : array (n, R), or (n,) for one resource
        What each task uses of each resource of its machine while it runs, ≥ 0.
    capacities : array (M, R), or (M,) for one resource
        What each machine has.
    slots : int
        Number of slots.
    slot_hours : float
        Length of a slot: energy in a slot is power times this.
    moves : sequence of str
        From "shift", "move", "relocate", "swap", "guided shift".
    beta : float, optional
        Temperature β of guided shifts; t by default, where all that fits is accepted.
    shares : sequence of float, optional
        Shares of the moves; equal by default.
    start : pair of integers (n,), or (2n,), optional
        A schedule to begin with. By default one is searched for: tasks with little slack first, those that did not fit before the
        others.

    Notes
    -----
    A step is O(1) unless the coin accepts; then it is O(duration·resources). Where machines are full, not all schedules need be
    connected by these moves.

    References
    ----------
    Simonis, O'Sullivan, Mehta, Hurley, De Cauwer, "Energy-cost aware scheduling/forecasting competition" (ICON challenge, 2014),
    without idle and start-up costs, as in Mandi, Demirović, Stuckey, Guns, "Smart Predict-and-Optimize for Hard Combinatorial
    Optimization Problems", AAAI 2020.

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> problem = mg.problems.EnergyScheduling([2, 1], [0, 0], [4, 4], [3.0, 5.0], [1, 1], [1, 1], slots=4)
    >>> found = mg.solve(problem, -np.array([4.0, 1.0, 2.0, 3.0]), steps=500)
    >>> found.starts.tolist(), sorted(found.machines.tolist()), float(found.objective)
    ([1, 1], [0, 1], -14.0)
    """

    cooling = (1.0, 0.01)

    def __init__(
        self,
        durations: Arrays,
        releases: Arrays,
        deadlines: Arrays,
        powers: Arrays,
        uses: Arrays,
        capacities: Arrays,
        slots: int,
        *,
        slot_hours: float = 1.0,
        moves: Sequence[str] = ("shift", "move", "relocate", "swap"),
        beta: float | None = None,
        shares: Sequence[float] | None = None,
        start: Start | None = None,
    ) -> None:
        slots = integer_in(slots, "slots", 1, MOST)
        duration = _integers(durations, "durations", 1, slots)
        n = len(duration)
        first, end = _integers(releases, "releases", 0, slots, n), _integers(deadlines, "deadlines", 0, slots, n)
        tight = np.flatnonzero(end - first < duration)
        if len(tight):
            f = int(tight[0])
            raise ValueError(
                f"deadlines must leave room for the tasks, got {end[f]} for task {f}, which takes {duration[f]} from {first[f]} on."
            )
        power, use = amounts(powers, "powers", 1), _columns(uses, "uses")
        capacity = _columns(capacities, "capacities")
        for name, array in (("powers", power), ("uses", use)):
            if len(array) != n:
                raise ValueError(f"{name} must have one entry for each of the {n} tasks, got {len(array)}.")
        if use.shape[1] != capacity.shape[1]:
            raise ValueError(f"capacities must have one column for each of the {use.shape[1]} resources, got {capacity.shape[1]}.")
        resources = [on_grid(u, c, float(u.sum())) for u, c in zip(use.T, capacity.T, strict=True)]  # in units of their own
        use, capacity = (np.stack(part, axis=1) for part in zip(*resources, strict=True))
        moves = choices(moves, "moves", tuple(MOVES))
        if not moves:
            raise ValueError("moves must name at least one move, got none.")
        guided = "guided shift" in moves
        last = end - duration
        at = np.concatenate([[0], np.cumsum(last - first + 1)])
        data = Data(
            duration=duration.astype(np.int32),
            first=first.astype(np.int32),
            last=last.astype(np.int32),
            energy=power * positive(slot_hours, "slot_hours"),
            use=use,
            capacity=capacity,
            slots=slots,
            starts_at=at,
            beta=0.0 if beta is None else positive(beta, "beta"),
            known=np.zeros(2 * n, np.int32),
        )
        known = _search(data) if start is None else _given(start, data)
        super().__init__(
            data._replace(known=known),
            State(known, np.zeros(capacity.size * slots), np.zeros(slots + 1), np.zeros(at[-1] if guided else 0)),
            weighted([MOVES[m] for m in moves], shares, "shares"),
            slots,
            prepare=prepare_guided if guided else prepare,
            statistic=statistic,
            contains=contains,
            random=random,
            uniform=False,
            greedy=greedy,
            attach=attach,
            guided=guided,
            states=Schedules(data),
            name=f"EnergyScheduling({n} tasks, {len(capacity)} machines, {slots} slots)",
        )

    @classmethod
    def read(cls, path: str | Path, **options: Unpack[Options]) -> "EnergyScheduling":
        """Read an instance of the ICON challenge; idle power and start-up costs of its machines are not used.

        The file holds the minutes of a slot; the number of resources; the number of machines and, of each, a line "id idle up
        down" and one of capacities; the number of tasks and, of each, a line "id duration release deadline power" and one of uses.

        Parameters
        ----------
        path : str or Path
            The file.
        **options : any
            ``moves``, ``beta``, ``shares`` and ``start`` of the constructor.

        Returns
        -------
        EnergyScheduling
            Of one day.
        """
        try:
            words = Path(path).read_text(encoding="utf-8").split()
        except (OSError, TypeError, UnicodeDecodeError) as error:
            raise ValueError(f"path must name a file of the ICON challenge, got {shown(path)} ({why(error)}).") from None
        arguments, hours = _parse(words, path)
        return cls(*arguments, slot_hours=hours, **options)

    def decode(self, solution: Arrays) -> tuple[np.ndarray, np.ndarray]:
        """Starts and machines of solutions.

        Parameters
        ----------
        solution : (…, 2n)
            They need not be in the set.

        Returns
        -------
        starts : array (…, n)
            First slots.
        machines : array (…, n)
            0..M−1.
        """
        array, n = array_of(solution, "solution"), len(self.data.duration)
        if array.ndim == 0 or array.shape[-1] != 2 * n:
            raise ValueError(f"solution must have a last axis of {2 * n} entries, got shape {array.shape}.")
        return array[..., :n], array[..., n:]

    def encode(self, value: Arrays) -> Any:
        """A pair of starts and machines as a solution; functions that take solutions call it.

        Parameters
        ----------
        value : pair (starts, machines), list of such tuples, or solutions
            Each (…, n). A tuple is what :meth:`decode` gives.

        Returns
        -------
        array (…, 2n)
            What is no pair stays as it is.
        """
        n = len(self.data.duration)
        if isinstance(value, list) and value and all(map(_is_schedule, value)):
            return np.stack([self.encode(schedule) for schedule in value])
        if (
            not isinstance(value, (list, tuple))
            or len(value) != 2
            or not all(isinstance(p, (list, tuple, np.ndarray)) for p in value)
        ):
            return value
        starts, machines = array_of(value[0], "starts"), array_of(value[1], "machines")
        if starts.shape == machines.shape and starts.shape[-1:] == (2 * n,):  # two solutions
            return value
        if starts.shape != machines.shape or starts.shape[-1:] != (n,):
            raise ValueError(f"starts and machines must have {n} entries each, got shapes {starts.shape} and {machines.shape}.")
        return np.concatenate([starts, machines], axis=-1)

    def describe(self, solution: np.ndarray) -> dict[str, Any]:
        """Starts and machines of the tasks.

        Parameters
        ----------
        solution : (2n,)
            In the set.

        Returns
        -------
        dict
            "starts" and "machines": arrays (n,).
        """
        starts, machines = self.decode(solution)
        return {"starts": starts, "machines": machines}

    def complaint(self, solution: np.ndarray) -> str:
        """Which window or resource is broken.

        Parameters
        ----------
        solution : (2n,)
            Not in the set.

        Returns
        -------
        str
            For error messages.
        """
        return _complaint(self.data, np.asarray(solution))


# --- arguments --------------------------------------------------------------------------------------------------------


def _is_schedule(value: Any) -> bool:
    """A tuple of starts and machines, as ``decode`` gives it for one solution."""
    return isinstance(value, tuple) and len(value) == 2 and all(map(_is_flat, value))


def _is_flat(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim == 1
    return isinstance(value, (list, tuple)) and not any(isinstance(v, (list, tuple, np.ndarray)) for v in value)


def _integers(value: Any, name: str, low: int, high: int, length: int | None = None) -> np.ndarray:
    array = array_of(value, name)
    if array.dtype.kind not in "iu" or array.ndim != 1 or len(array) == 0 or (length is not None and len(array) != length):
        count = "one for each task" if length is None else f"one for each of the {length} tasks"
        raise ValueError(f"{name} must be integers, {count}, got shape {array.shape} of {array.dtype}.")
    wrong = (array < low) | (array > high)
    if wrong.any():
        raise ValueError(f"{name} must be in {low}..{high}, got {array[wrong][0]}.")
    return array.astype(np.int64)


def _columns(value: Any, name: str) -> np.ndarray:
    """One row for each task or machine, one column for each resource."""
    array = array_of(value, name)
    return amounts(array[:, None] if array.ndim == 1 else array, name, 2)


def _parse(words: list[str], path: Any) -> tuple[tuple[Any, ...], float]:
    """The arguments of the constructor, and the hours of a slot."""
    numbers = iter(words)

    def some(count: int) -> list[float]:
        return [float(next(numbers)) for _ in range(count)]

    try:
        minutes, resources, machines = (int(next(numbers)) for _ in range(3))
        kinds = [(some(4), some(resources)) for _ in range(machines)]
        tasks = [(some(5), some(resources)) for _ in range(int(next(numbers)))]
        left = sum(1 for _ in numbers)
        if left or minutes < 1 or resources < 1 or machines < 1 or not tasks:
            raise ValueError
        rows = np.array([row for row, _ in tasks])
        durations, releases, deadlines = rows[:, 1:4].astype(np.int64).T
        uses, capacities = np.array([use for _, use in tasks]), np.array([capacity for _, capacity in kinds])
        return (durations, releases, deadlines, rows[:, 4], uses, capacities, 1440 // minutes), minutes / 60.0
    except (ValueError, StopIteration, RuntimeError):
        raise ValueError(f"path must name a file of the ICON challenge, got {shown(path)}, which is not one.") from None


def _complaint(data: Data, place: np.ndarray) -> str:
    n, (machines, count) = len(data.duration), data.capacity.shape
    starts, on = place[:n].astype(np.int64), place[n:].astype(np.int64)
    late = np.flatnonzero((starts < data.first) | (starts > data.last))
    if len(late):
        f = int(late[0])
        return f"task {f} must begin in {data.first[f]}..{data.last[f]}, and begins in {starts[f]}"
    if (on < 0).any() or (on >= machines).any():
        return f"machines are 0..{machines - 1}"
    load = np.zeros((machines, int(data.slots), count))
    for f in range(n):
        load[on[f], starts[f] : starts[f] + data.duration[f]] += data.use[f]
    over = np.argwhere(load > data.capacity[:, None])
    if len(over) == 0:
        return ""
    m, t, r = over[0]
    return f"machine {m} has {data.capacity[m, r]:g} of resource {r}, and {load[m, t, r]:g} are used in slot {t}"


def _given(start: Any, data: Data) -> np.ndarray:
    n = len(data.duration)
    array = array_of(np.concatenate([np.asarray(part) for part in start]) if isinstance(start, tuple) else start, "start")
    if array.dtype.kind not in "iu" or array.shape != (2 * n,):
        raise ValueError(f"start must be {n} start slots and {n} machines, all integers, got shape {array.shape} of {array.dtype}.")
    if reason := _complaint(data, array):
        raise ValueError(f"start must be in the set, but {reason}.")
    return array.astype(np.int32)


def _search(data: Data) -> np.ndarray:
    """A schedule: tasks with little slack and much use first, where little is left; those that did not fit come first next time."""
    n, (machines, _count) = len(data.duration), data.capacity.shape
    largest = np.maximum(data.capacity.max(0), 1e-300)
    size = (data.use / largest).max(1)
    urgency = data.duration / (data.last - data.first + data.duration) + size
    slots, rng = int(data.slots), np.random.default_rng(0)
    unfit = [f for f in range(n) if (data.use[f] > data.capacity).any(1).all()]
    if len(unfit):
        raise ValueError(f"uses must fit into some machine, got {data.use[unfit[0]].tolist()} of task {unfit[0]}.")
    for trial in range(_TRIALS):
        place, room = np.zeros(2 * n, np.int32), np.repeat(data.capacity[:, None], slots, axis=1)
        missing = []
        for f in np.argsort(-urgency, kind="stable"):
            duration, low, high = int(data.duration[f]), int(data.first[f]), int(data.last[f])
            open_slots = (room[:, low : high + duration] >= data.use[f]).all(2)
            runs = np.concatenate([np.zeros((machines, 1), np.int64), np.cumsum(open_slots, axis=1)], axis=1)
            free = runs[:, duration:] - runs[:, :-duration] == duration  # (machines, starts)
            if not free.any():
                missing.append(f)
                continue
            # Beside others rather than alone: where the least is left, at the earliest or (in every other trial) the latest time.
            left = np.where(free, room[:, low : high + duration].sum(2)[:, : free.shape[1]], np.inf)
            early = np.arange(free.shape[1]) if trial % 2 == 0 else np.arange(free.shape[1])[::-1]
            machine, shift = np.unravel_index(np.argmin(left + 1e-9 * (1.0 + left.min()) * early), free.shape)
            place[f], place[n + f] = low + shift, machine
            room[machine, low + shift : low + shift + duration] -= data.use[f]
        if not missing:
            return place
        urgency[missing] = urgency.max() + rng.random(len(missing))
        urgency += 0.05 * rng.random(n)
    raise ValueError(
        f"start must be given, since no schedule of the {n} tasks within windows and capacities was found in {_TRIALS} trials, "
        "got None."
    )
