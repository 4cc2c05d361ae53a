"""Generalized assignment: jobs to agents of limited capacity, with reassignments, swaps and chains.

A solution is the agent of each job; an agent's jobs must fit its capacity. Three moves, all of ratio 1:

* *reassign* gives a job to another agent: a uniform job, a uniform other agent, and back alike.
* *swap* exchanges the agents of two jobs: a uniform pair. A pair of the same agent is no draw.
* *chain* gives job j to the agent b of job k, and k to any other agent c ≠ b. The way back draws k, j and the agent that j had: as
  likely. With c the agent that j had it is a swap; otherwise it makes room where a reassignment would not fit.

*Guided reassign* draws the agent with probability ∝ e^(θ/β) among all, the present one included, so that both directions have the
same normalizer: the ratio is e^((θ_old − θ_new)/β). With β = t all that fits is accepted.

Weights lie on a grid (a power of two), so that loads are exact sums, whether kept or computed anew: see ``_loads.py``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp
from typing import Any, NamedTuple

import numpy as np

from movegrad._types import Arrays, Start
from movegrad._validate import array_of, choices, positive, shown
from movegrad.engine import categorical, integer, jit
from movegrad.problem import Move, Problem
from movegrad.problems._binary import weighted
from movegrad.problems._loads import amounts, on_grid

_REPAIRS = 3000  # steps of tabu search for a first solution, at most


class Data(NamedTuple):
    """Weights lie job after job: those of one job are one stretch of memory."""

    weights: np.ndarray  # (jobs, agents)
    capacities: np.ndarray  # (agents,), with slack
    beta: float  # of guided reassignments; 0 stands for t
    start: np.ndarray  # (jobs,) a solution


class State(NamedTuple):
    agent: np.ndarray  # (jobs,) the solution
    room: np.ndarray  # (agents,) capacities less loads
    cumulative: np.ndarray  # (jobs·agents,) sums of e^(θ/β), job after job; empty unless guided


# --- reassign: a job to another agent -------------------------------------------------------------------------------------


@jit
def propose_reassign(data, state, rng):
    agents = len(state.room)
    job = integer(rng, len(state.agent))
    if agents == 1:
        return (job, np.int64(state.agent[job])), -np.inf
    to = integer(rng, agents - 1)
    return (job, to + (to >= state.agent[job])), 0.0


@jit
def propose_guided_reassign(data, state, rng):
    agents = len(state.room)
    job = integer(rng, len(state.agent))
    row = state.cumulative[job * agents : (job + 1) * agents]
    to, old = categorical(rng, row), np.int64(state.agent[job])
    if to == old:
        return (job, to), -np.inf
    new_weight = row[to] - (row[to - 1] if to > 0 else 0.0)
    old_weight = row[old] - (row[old - 1] if old > 0 else 0.0)
    return (job, to), np.log(old_weight / new_weight)


@jit
def change_reassign(data, state, move, m):
    job, to = move
    agent = to if m == 1 else np.int64(state.agent[job])
    return agent * len(state.agent) + job, 2 * m - 1


@jit
def reassign_fits(data, state, move):
    job, to = move
    return data.weights[job, to] <= state.room[to]


@jit
def put(data, state, job, to):
    """Give a job to an agent."""
    old = state.agent[job]
    state.room[old] += data.weights[job, old]
    state.room[to] -= data.weights[job, to]
    state.agent[job] = to


@jit
def apply_reassign(data, state, move):
    put(data, state, move[0], move[1])


# --- swap and chain: job j to the agent b of job k, k to an agent c -------------------------------------------------------------


@jit
def two_jobs(state, rng):
    jobs = len(state.agent)
    j = integer(rng, jobs)
    k = integer(rng, jobs - 1)
    return j, k + (k >= j)


@jit
def propose_swap(data, state, rng):
    if len(state.agent) < 2:
        return (0, 0, 0), -np.inf
    j, k = two_jobs(state, rng)
    a, b = np.int64(state.agent[j]), np.int64(state.agent[k])
    return (j, k, a), -np.inf if a == b else 0.0


@jit
def propose_chain(data, state, rng):
    if len(state.agent) < 2 or len(state.room) < 2:
        return (0, 0, 0), -np.inf
    j, k = two_jobs(state, rng)
    a, b = np.int64(state.agent[j]), np.int64(state.agent[k])
    c = integer(rng, len(state.room) - 1)
    return (j, k, c + (c >= b)), -np.inf if a == b else 0.0


@jit
def change_chain(data, state, move, m):
    j, k, c = move
    b, job = np.int64(state.agent[k]), j if m < 2 else k
    agent = (np.int64(state.agent[j]), b, b, c)[m]
    return agent * len(state.agent) + job, 2 * (m & 1) - 1


@jit
def chain_fits(data, state, move):
    j, k, c = move
    a, b = state.agent[j], state.agent[k]
    if data.weights[j, b] - data.weights[k, b] > state.room[b]:
        return False
    freed = data.weights[j, a] if c == a else 0.0
    return data.weights[k, c] - freed <= state.room[c]


@jit
def apply_chain(data, state, move):
    j, k, c = move
    put(data, state, j, state.agent[k])
    put(data, state, k, c)


MOVES = {
    "reassign": Move("reassign", propose_reassign, change_reassign, apply_reassign, changes=2, feasible=reassign_fits),
    "swap": Move("swap", propose_swap, change_chain, apply_chain, changes=4, feasible=chain_fits),
    "chain": Move("chain", propose_chain, change_chain, apply_chain, changes=4, feasible=chain_fits),
    "guided reassign": Move(
        "guided reassign", propose_guided_reassign, change_reassign, apply_reassign, changes=2, feasible=reassign_fits
    ),
}


# --- the set ---------------------------------------------------------------------------------------------------------------


@jit
def load_of(data, agent, a):
    """The load of agent a, anew: exact in any order."""
    total = 0.0
    for j in range(len(agent)):
        if agent[j] == a:
            total += data.weights[j, a]
    return total


@jit
def contains(data, agent):
    for j in range(len(agent)):
        if agent[j] < 0 or agent[j] >= len(data.capacities):
            return False
    for a in range(len(data.capacities)):
        if load_of(data, agent, a) > data.capacities[a]:
            return False
    return True


@jit
def statistic(data, agent, out):
    for j in range(len(agent)):
        out[agent[j] * len(agent) + j] = 1.0


@jit
def prepare(data, guide, temperature, state):
    for a in range(len(state.room)):
        state.room[a] = data.capacities[a]
    for j in range(len(state.agent)):
        state.room[state.agent[j]] -= data.weights[j, state.agent[j]]


@jit
def prepare_guided(data, guide, temperature, state):
    """Weights e^((θ − max θ)/β) of the agents of each job, none below e^−30: every agent can be drawn."""
    prepare(data, guide, temperature, state)
    jobs, agents = len(state.agent), len(state.room)
    beta = data.beta if data.beta > 0.0 else temperature
    for j in range(jobs):
        high, total = -np.inf, 0.0
        for a in range(agents):
            high = max(high, guide[a * jobs + j])
        for a in range(agents):
            total += exp(max((guide[a * jobs + j] - high) / beta, -30.0))
            state.cumulative[j * agents + a] = total


@jit
def random(data, rng, agent):
    """The known solution, shaken: every job in turn, twice and more, goes to a random agent if it fits there."""
    jobs, agents = len(agent), len(data.capacities)
    for j in range(jobs):
        agent[j] = data.start[j]
    shift = integer(rng, jobs)
    for n in range(2 * jobs + 32):
        j, to = (n + shift) % jobs, integer(rng, agents)
        if to != agent[j] and load_of(data, agent, to) + data.weights[j, to] <= data.capacities[to]:
            agent[j] = to


@jit
def best_two(data, guide, state, j):
    """The best agent where job j fits, −1 if there is none, and what the second best costs beside it."""
    jobs, best, first, second = len(state.agent), -1, -np.inf, -np.inf
    for a in range(len(state.room)):
        if data.weights[j, a] <= state.room[a]:
            value = guide[a * jobs + j]
            if best < 0 or value > first:
                best, first, second = a, value, first
            elif value > second:
                second = value
    return best, first - second


@jit
def greedy(data, guide, state):
    """Jobs by falling regret, each to its best agent with room; where some job does not fit then, the known solution."""
    jobs = len(state.agent)
    for a in range(len(state.room)):
        state.room[a] = data.capacities[a]
    for j in range(jobs):
        state.agent[j] = -1
    for _ in range(jobs):
        chosen, to, most = -1, -1, -np.inf
        for j in range(jobs):
            if state.agent[j] < 0:
                best, regret = best_two(data, guide, state, j)
                if best < 0:  # it fits nowhere
                    for i in range(jobs):
                        state.agent[i] = data.start[i]
                    return
                if chosen < 0 or regret > most:
                    chosen, to, most = j, best, regret
        state.agent[chosen] = to
        state.room[to] -= data.weights[chosen, to]


@dataclass(frozen=True, eq=False)
class Assignments:
    """Lists all solutions of a small instance, in lexicographic order."""

    weights: np.ndarray  # (jobs, agents)
    limits: np.ndarray  # (agents,)

    def __call__(self) -> Iterator[np.ndarray]:
        return self._with(np.zeros(len(self.weights), np.int32), 0, np.zeros(len(self.limits)))

    def _with(self, agent: np.ndarray, job: int, load: np.ndarray) -> Iterator[np.ndarray]:
        """All solutions that are ``agent`` before this job."""
        if job == len(agent):
            yield agent.copy()
            return
        for a in np.flatnonzero(load + self.weights[job] <= self.limits):
            agent[job] = a
            load[a] += self.weights[job, a]
            yield from self._with(agent, job + 1, load)
            load[a] -= self.weights[job, a]


class GeneralizedAssignment(Problem):
    """Every job to one agent, within the agents' capacities; T(y) is the matrix (agents, jobs) of zeros and ones, row by row.

    Solutions are arrays (jobs,): the agent 0..agents−1 of each job. θ has agents·jobs entries, those of the first agent first;
    with θ the profits, or costs times −1, the best solution is that of the generalized assignment problem.

    Parameters
    ----------
    weights : array (agents, jobs)
        What each job takes of each agent's capacity, ≥ 0.
    capacities : array (agents,)
        ≥ 0.
    moves : sequence of str
        From "reassign", "swap", "chain" and "guided reassign", which draws the agent ∝ e^(θ/β). Some reassignment must be there:
        the others keep a job of each pair where the other was.
    beta : float, optional
        Temperature β of guided reassignments; t by default, where all that fits is accepted.
    shares : sequence of float, optional
        Shares of the moves; equal by default.
    start : integers (jobs,), or lists of the jobs of each agent, optional
        A solution to begin with. By default one is searched for: greedy, then tabu search over the overloads.

    Notes
    -----
    A proposal that does not fit is drawn and refused, so that a step is O(1). Weights that are not integers are rounded to 2⁻⁵⁰ of
    the largest load, and capacities get a slack of 10⁻⁹. Where capacities are tight, not all solutions need be connected by these
    moves.

    Examples
    --------
    >>> import numpy as np
    >>> import movegrad as mg
    >>> problem = mg.problems.GeneralizedAssignment([[2, 3, 4], [3, 2, 2]], [5, 4])
    >>> found = mg.solve(problem, np.array([[5.0, 4.0, 1.0], [1.0, 3.0, 2.0]]).ravel(), steps=500)
    >>> found.solution.tolist(), float(found.objective)
    ([0, 0, 1], 11.0)
    """

    cooling = (0.3, 3e-3)

    def __init__(
        self,
        weights: Arrays,
        capacities: Arrays,
        *,
        moves: Sequence[str] = ("reassign", "swap", "chain"),
        beta: float | None = None,
        shares: Sequence[float] | None = None,
        start: Start | None = None,
    ) -> None:
        table, limits = amounts(weights, "weights", 2), amounts(capacities, "capacities", 1)
        agents, jobs = table.shape
        if len(limits) != agents:
            raise ValueError(f"capacities must have one entry for each of the {agents} agents, got {len(limits)}.")
        moves = choices(moves, "moves", tuple(MOVES))
        if not any("reassign" in move for move in moves):
            raise ValueError(f"moves must contain a reassignment, since swaps keep the number of jobs, got {tuple(moves)}.")
        table, limits = _exact(table, limits)
        guided = "guided reassign" in moves
        first = _search(table, limits) if start is None else _given(start, table, limits)
        super().__init__(
            Data(table, limits, 0.0 if beta is None else positive(beta, "beta"), first),
            State(first, np.zeros(agents), np.zeros(jobs * agents if guided else 0)),
            weighted([MOVES[m] for m in moves], shares, "shares"),
            agents * jobs,
            prepare=prepare_guided if guided else prepare,
            statistic=statistic,
            contains=contains,
            random=random,
            uniform=False,
            greedy=greedy,
            guided=guided,
            states=Assignments(table, limits),
            name=f"GeneralizedAssignment({agents} agents, {jobs} jobs)",
        )

    def encode(self, value: Arrays) -> Any:
        """Lists of the jobs of each agent as solutions; functions that take solutions call it.

        Parameters
        ----------
        value : list of lists of jobs, or solutions
            One list for each agent, every job once.

        Returns
        -------
        array (jobs,)
            What is no list of lists stays as it is.
        """
        return _agents(value, "jobs", len(self.data.capacities), len(self.solution))

    def describe(self, solution: np.ndarray) -> dict[str, Any]:
        """The jobs of each agent, and its load.

        Parameters
        ----------
        solution : (jobs,)
            In the set.

        Returns
        -------
        dict
            "jobs": a list for each agent; "loads": array (agents,).
        """
        agent, agents = np.asarray(solution), len(self.data.capacities)
        loads = np.bincount(agent, self.data.weights[np.arange(len(agent)), agent], agents)
        return {"jobs": [np.flatnonzero(agent == a).tolist() for a in range(agents)], "loads": loads}

    def complaint(self, solution: np.ndarray) -> str:
        """Which agent is overloaded.

        Parameters
        ----------
        solution : (jobs,)
            Not in the set.

        Returns
        -------
        str
            For error messages.
        """
        agent, agents = np.asarray(solution), len(self.data.capacities)
        if (agent < 0).any() or (agent >= agents).any():
            return f"agents are 0..{agents - 1}"
        loads = self.describe(agent)["loads"]
        over = int(np.argmax(loads - self.data.capacities))
        return f"the load {loads[over]:g} of agent {over} is above its capacity {self.data.capacities[over]:g}"


def _exact(weights: np.ndarray, capacities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights (jobs, agents) and capacities on a grid of each agent.

    What never fits is cut first: a huge weight that forbids a pair must not make the grid so coarse that other weights vanish.
    """
    table = np.minimum(weights, np.ceil(2.0 * capacities)[:, None] + 1.0)
    agents = [on_grid(row, limit, float(row.sum())) for row, limit in zip(table, capacities, strict=True)]
    return np.array([row for row, _ in agents]).T.copy(), np.array([limit for _, limit in agents], float)


def _agents(value: Any, name: str, agents: int, jobs: int) -> Any:
    """The agents of all jobs from lists of the jobs of each agent; solutions stay as they are."""
    if not isinstance(value, (list, tuple)) or not all(isinstance(part, (list, tuple)) for part in value):
        return value
    listed = [j for part in value for j in part]
    each_once = all(isinstance(j, (int, np.integer)) for j in listed) and sorted(listed) == list(range(jobs))
    if len(value) == agents and each_once:
        out = np.zeros(jobs, np.int32)
        for a, part in enumerate(value):
            out[list(part)] = a
        return out
    if value and all(len(part) == jobs for part in value):  # a list of solutions
        return value
    raise ValueError(
        f"{name} must be {agents} lists, one for each agent, that hold each of 0..{jobs - 1} once, got {shown(value)}."
    )


def _given(start: Any, table: np.ndarray, limits: np.ndarray) -> np.ndarray:
    agents = len(limits)
    array = array_of(_agents(start, "start", agents, len(table)), "start")
    if array.dtype.kind not in "iu" or array.shape != (len(table),) or (array < 0).any() or (array >= agents).any():
        raise ValueError(f"start must be {len(table)} integers in 0..{agents - 1}, the agents of the jobs, got {shown(start)}.")
    loads = np.bincount(array, table[np.arange(len(table)), array], agents)
    if (loads > limits).any():
        over = int(np.argmax(loads - limits))
        raise ValueError(f"start must be within capacities, got load {loads[over]:g} > {limits[over]:g} of agent {over}.")
    return array.astype(np.int32)


def _search(table: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """A solution: the largest jobs first, each where it takes the least share of a capacity; then tabu search over overloads."""
    jobs, agents = table.shape
    agent, room = np.zeros(jobs, np.int32), limits.copy()
    share = table / np.maximum(limits, 1e-300)
    for j in np.argsort(-share.min(1), kind="stable"):
        after = room - table[j]
        a = int(np.argmin(np.where(after >= 0, share[j], np.inf))) if (after >= 0).any() else int(np.argmax(after))
        agent[j], room[a] = a, room[a] - table[j, a]
    if (room >= 0).all():
        return agent
    rng, at = np.random.default_rng(0), np.arange(jobs)
    tabu = np.zeros((jobs, agents), np.int64)
    for step in range(_REPAIRS):
        over = np.maximum(-room, 0.0)
        if not over.any():
            return agent
        own = table[at, agent]
        left = np.maximum(own - room[agent], 0.0) - over[agent]  # change of the overload of the agent that a job leaves
        moved = left[:, None] + np.maximum(table - room, 0.0) - over
        moved[at, agent] = np.inf
        moved = np.where((over[agent] > 0)[:, None] & (tabu <= step), moved, np.inf)
        j, a = divmod(int(np.argmin(moved + 1e-9 * moved[np.isfinite(moved)].max(initial=1.0) * rng.random(moved.shape))), agents)
        if not moved[j, a] < 0.0:  # an exchange of two jobs, one of them of an agent that is overloaded
            k = int(rng.choice(np.flatnonzero(over[agent] > 0)))
            mine, theirs = agent[k], agent
            gives = np.maximum(table[:, mine] - own[k] - room[mine], 0.0) - over[mine]
            takes = np.maximum(table[k, theirs] - own - room[theirs], 0.0) - over[theirs]
            total = np.where((theirs != mine) & (tabu[:, mine] <= step) & (tabu[k, theirs] <= step), gives + takes, np.inf)
            i = int(np.argmin(total))
            if total[i] < moved[j, a]:
                b = agent[i]
                room[mine] += own[k] - table[i, mine]
                room[b] += own[i] - table[k, b]
                agent[i], agent[k] = mine, b
                tabu[k, mine] = tabu[i, b] = step + 5 + rng.integers(10)
                continue
        if not np.isfinite(moved[j, a]):
            continue
        old = agent[j]
        room[old] += own[j]
        room[a] -= table[j, a]
        agent[j] = a
        tabu[j, old] = step + 5 + rng.integers(10)
    raise ValueError(
        f"start must be given, since no assignment of {jobs} jobs within capacities was found: they take at least "
        f"{table.min(1).sum():g} of {limits.sum():g}, got None."
    )
