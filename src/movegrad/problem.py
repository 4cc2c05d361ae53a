"""The contract of a problem: what you write, and what movegrad does with it.

A problem is a finite set of solutions with an objective ⟨θ, T(y)⟩ + φ(y) to maximize. It consists of

* ``data``: a NamedTuple of arrays and numbers that describes one instance;
* ``state``: a NamedTuple of one-dimensional arrays. The first field is the *solution*; the others are derived from it by
  ``prepare`` (positions, loads, …) or are scratch space. The arrays given here hold a feasible solution: the default start;
* ``moves``: what local search does to a solution, each a few small jitted functions.

All functions are compiled with :func:`movegrad.jit` (or ``numba.njit``). They take and return numbers, allocate nothing, raise
nothing and draw only through :func:`movegrad.integer`, :func:`movegrad.coin`, :func:`movegrad.categorical` and
:func:`movegrad.leaf`. Then the same source runs on CPU threads and on CUDA, and :func:`movegrad.check` can prove it right by
running every outcome of every draw.

The signatures, where ``move`` is whatever number or tuple ``propose`` returns:

==================== ============================== =====================================================================
of a move            arguments                      returns
==================== ============================== =====================================================================
``propose``          data, state, rng               ``(move, log q(y',y) − log q(y,y'))``; −inf: this draw does not apply, the
                                                    chain stays. May write scratch fields, never what describes the solution
``change``           data, state, move, m           ``(index, difference)`` of the m-th entry of T that the move changes
``changes``          data, state, move              how many entries of T change (or a plain integer)
``gain``             data, state, move              φ(y') − φ(y); leave out if φ is 0
``feasible``         data, state, move              is y' in the set? Asked only for a proposal that the coin accepted
``apply``            data, state, move              nothing: turns the state into y'
``applicable_after`` data, state, move              the value of ``applicable`` at y'
``apply_if``         data, state, move, accepted    nothing: ``apply`` if ``accepted`` is 1, nothing at all if it is 0, without a
                                                    branch. For moves so small that a branch which cannot be predicted is most of
                                                    a step; not used beside ``feasible`` or ``score``
``score``            data, theta, state, move       ⟨θ, T(y') − T(y)⟩, without going through the changes: for moves that change
                                                    many entries and are mostly refused
``follow``           data, theta, state, move       nothing: brings the fields of ``attach`` to y', just before ``apply``
of the problem
``prepare``          data, guide, temperature,      nothing: fills the derived fields from the solution. ``guide`` is θ, or what
                     state                          stands for it if the proposal's guide is frozen
``attach``           data, theta, state             nothing: fills the fields that ``score`` and ``follow`` read and that depend
                                                    on θ (local fields, prefix sums). No other function may read them
``statistic``        data, solution, out            nothing: writes T(y) to ``out``, which holds zeros. Default: T(y) = y
``phi``              data, solution                 φ(y). Default: 0
``contains``         data, solution                 is this solution in the set? Asked of every start
``random``           data, rng, solution            nothing: writes a solution, uniformly drawn unless the problem is
                                                    declared ``uniform=False``
``greedy``           data, guide, state             nothing: writes a good solution for θ = guide to the first field, quickly; the
                                                    other fields are scratch space here. Where ``solve`` begins
``improve``          data, guide, state             nothing: turns the state, all fields of which are filled, into a better one for
                                                    θ = guide, quickly and without chance. For ``start="heuristic"``
``applicable``       data, state                    bit s is set if move s is in Q(y). Default: all moves, always
==================== ============================== =====================================================================
"""

import inspect
import warnings
from collections.abc import Callable, Iterable, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from movegrad._types import Arrays
from movegrad._validate import (
    array_of,
    finite_vectors,
    flag,
    function_of,
    instance_of,
    integer_in,
    native,
    positive,
    sequence,
    shown,
)
from movegrad.engine import HOST, RETURNS, defined_at, is_jitted, jit, phi_of, returns_nothing

if TYPE_CHECKING:
    from movegrad.exact import Oracle

__all__ = ["Functions", "Move", "Problem", "stay"]

Jitted = Callable[..., Any]


@dataclass(frozen=True)
class Move:
    """A neighborhood system with its proposal, of functions compiled by :func:`movegrad.jit`.

    What each function takes and returns is in the table at the top of :mod:`movegrad.problem`.

    Parameters
    ----------
    name : str
        For messages and ``info``.
    propose : jitted function
        Draws a move and gives the logarithm of its ratio q(y', y)/q(y, y').
    change : jitted function
        What the move does to T, entry by entry.
    apply : jitted function
        Makes the move.
    changes : int or jitted function
        How many entries of T change.
    gain : jitted function, optional
        What the move does to φ; 0 by default.
    feasible : jitted function, optional
        Whether the move stays in the set; by default it always does.
    applicable_after : jitted function, optional
        Which moves apply after it; needed if the problem has ``applicable``.
    weight : float
        Share in a mixture: a move is drawn with probability proportional to its weight among those in Q(y).
    apply_if : jitted function, optional
        ``apply`` without a branch, for moves so small that one which cannot be predicted is most of a step.
    score : jitted function, optional
        What the move does to ⟨θ, T(y)⟩, as one number in O(1), for moves that change many entries of T.
    follow : jitted function, optional
        Keeps what ``attach`` of the problem has filled; goes with ``score``.

    Examples
    --------
    >>> import movegrad as mg
    >>> @mg.jit
    ... def propose(data, state, rng):
    ...     return mg.integer(rng, len(state.y)), 0.0
    >>> @mg.jit
    ... def change(data, state, i, m):
    ...     return i, 1 - 2 * state.y[i]
    >>> @mg.jit
    ... def apply(data, state, i):
    ...     state.y[i] = 1 - state.y[i]
    >>> mg.Move("flip", propose, change, apply).weight
    1.0
    """

    name: str
    propose: Jitted
    change: Jitted
    apply: Jitted
    changes: int | Jitted = 1
    gain: Jitted | None = None
    feasible: Jitted | None = None
    applicable_after: Jitted | None = None
    weight: float = 1.0
    apply_if: Jitted | None = None
    score: Jitted | None = None
    follow: Jitted | None = None

    def __post_init__(self) -> None:
        instance_of(self.name, "name of a move", str)
        for name, arity in _MOVE_ARITY.items():
            owner, function = f"move {self.name!r}", getattr(self, name)
            if name == "changes" and isinstance(function, (int, np.integer)):
                object.__setattr__(self, "changes", integer_in(function, f"{name} of {owner}", 0))
            else:
                _check_function(function, name, owner, arity, required=name in ("propose", "change", "changes", "apply"))
        positive(self.weight, f"weight of move {self.name!r}")
        if self.follow is not None and self.score is None:
            raise ValueError(f"score of move {self.name!r} must be given, since it has follow, got None.")


class Functions(NamedTuple):
    """The jitted functions of a problem that belong to no move; None where it has none. ``Problem.functions`` holds them.

    Attributes
    ----------
    prepare, statistic, phi, contains, random, greedy, improve, applicable, attach : jitted function or None
        See the table at the top of :mod:`movegrad.problem`.

    Examples
    --------
    >>> import movegrad as mg
    >>> functions = mg.problems.TopK(5, 2).functions
    >>> [name for name, function in functions._asdict().items() if function is not None]
    ['prepare', 'contains', 'random']
    """

    prepare: Jitted | None = None
    statistic: Jitted | None = None
    phi: Jitted | None = None
    contains: Jitted | None = None
    random: Jitted | None = None
    greedy: Jitted | None = None
    improve: Jitted | None = None
    applicable: Jitted | None = None
    attach: Jitted | None = None


_MOVE_ARITY = {
    "propose": 3, "change": 4, "apply": 3, "changes": 3, "gain": 3, "feasible": 3, "applicable_after": 3, "apply_if": 4, "score": 4,
    "follow": 4,
}  # fmt: skip
_LASTING = ("data", "state", "solution", "moves", "size", "functions")
_ARITY = {
    "prepare": 4,
    "statistic": 3,
    "phi": 2,
    "contains": 2,
    "random": 3,
    "greedy": 3,
    "improve": 3,
    "applicable": 2,
    "attach": 3,
}


_ORACLE = ("log_partition", "marginals", "sample")


class Problem:
    """Maximize ⟨θ, T(y)⟩ + φ(y) over a finite set, by local search.

    To use one, take it from :mod:`movegrad.problems`. To write one, give its data, a feasible state and its moves, then let
    :func:`movegrad.check` prove it right on a small instance. What each function takes and returns is in the table at the top of
    :mod:`movegrad.problem`; ``examples/template.py`` is there to be copied.

    Parameters
    ----------
    data : NamedTuple of arrays and numbers
        The instance. It is copied, like the state: what is done to these arrays later changes nothing here.
    state : NamedTuple of one-dimensional arrays
        A feasible state; its first field is the solution.
    moves : sequence of Move
        At least one.
    size : int
        d, the number of entries of θ and of T(y).
    prepare, statistic, phi, contains, random, greedy, improve, applicable, attach : jitted functions, optional
        See the table at the top of :mod:`movegrad.problem`.
    guided : bool
        Whether proposals depend on θ, through the guide given to ``prepare``.
    uniform : bool
        Whether ``random`` draws uniformly, so that ``check`` can hold it to that. False where it only makes some solution.
    states : callable, optional
        Returns every solution of a small instance. Lets ``check`` prove that all of them are reached. It may have an attribute
        ``at_least``, a number of solutions that there are for sure, lest too many be listed. Pickles of a problem have it if it is
        an object or a ``functools.partial`` of a function of a module, not if it is a lambda.
    oracle : object, optional
        Closed forms with the methods of :class:`movegrad.exact.Oracle`.
    name : str, optional
        For messages.

    Attributes
    ----------
    solution : (m,) array
        The first field of ``state``: the default start where ``random`` is not given. Its length m need not be d, that of T.
    cooling : (float, float)
        Where annealing begins and ends in :func:`movegrad.solve`, as shares of the mean change of the objective under random moves.

    Examples
    --------
    All binary vectors of three entries, with a move that flips one of them:

    >>> from typing import NamedTuple
    >>> import numpy as np
    >>> import movegrad as mg
    >>> class Data(NamedTuple):
    ...     length: int
    >>> class State(NamedTuple):
    ...     y: np.ndarray
    >>> @mg.jit
    ... def propose(data, state, rng):
    ...     return mg.integer(rng, len(state.y)), 0.0
    >>> @mg.jit
    ... def change(data, state, i, m):
    ...     return i, 1 - 2 * state.y[i]
    >>> @mg.jit
    ... def apply(data, state, i):
    ...     state.y[i] = 1 - state.y[i]
    >>> flips = mg.Problem(Data(3), State(np.zeros(3, np.int64)), [mg.Move("flip", propose, change, apply)], 3, name="flips")
    >>> flips
    flips(d=3, moves=['flip'])
    >>> mg.check(flips, compiled=False).ok
    True
    """

    cooling: tuple[float, float] = (1.0, 1e-3)

    def __init__(
        self,
        data: tuple[Any, ...],
        state: tuple[np.ndarray, ...],
        moves: Sequence[Move],
        size: int,
        *,
        prepare: Jitted | None = None,
        statistic: Jitted | None = None,
        phi: Jitted | None = None,
        contains: Jitted | None = None,
        random: Jitted | None = None,
        greedy: Jitted | None = None,
        improve: Jitted | None = None,
        applicable: Jitted | None = None,
        attach: Jitted | None = None,
        guided: bool = False,
        uniform: bool = True,
        states: Callable[[], Iterable[np.ndarray]] | None = None,
        oracle: "Oracle | None" = None,
        name: str = "",
    ) -> None:
        self.name = instance_of(name, "name", str) or type(self).__name__
        self.data = _record(data, f"data of {self.name}", one_dimensional=False)
        self.state = _record(state, f"state of {self.name}", one_dimensional=True)
        self.solution: np.ndarray = self.state[0]
        self.moves = tuple(sequence(moves, f"moves of {self.name}", "one or more movegrad.Move"))
        self.size = integer_in(size, f"size of {self.name}", 1)
        self.functions = Functions(prepare, statistic, phi, contains, random, greedy, improve, applicable, attach)
        self.guided = flag(guided, f"guided of {self.name}")
        self.uniform = flag(uniform, f"uniform of {self.name}")
        self.states = None if states is None else function_of(states, f"states of {self.name}", 0, "no arguments")
        self.oracle = oracle
        self._validate()

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _LASTING and name in vars(self):
            raise AttributeError(
                f"{name} of {self.name} must stay what it is, since kernels hold a copy of it: make a new problem."
            )
        super().__setattr__(name, value)

    def __getstate__(self) -> dict[str, Any]:
        """For pickles: without what the engine keeps here; ``states`` that cannot be pickled are missed when they are asked for."""
        state = self._lasting()
        if _is_local(self.states):
            state["states"] = _LeftBehind(self.name, getattr(self.states, "at_least", None))
        return state

    def _lasting(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_layout", "_enumeration")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Copies and pickles of arrays can be written to, whatever they were made from."""
        vars(self).update(state, solution=state["state"][0])
        for array in (*self.data, *self.state):
            array.setflags(write=False)

    def __copy__(self) -> "Problem":
        return self._made_of(self._lasting())

    def __deepcopy__(self, memo: dict[int, Any]) -> "Problem":
        return self._made_of({n: copy(v) if n == "states" else deepcopy(v, memo) for n, v in self._lasting().items()})

    def _made_of(self, state: dict[str, Any]) -> "Problem":
        made: Problem = object.__new__(type(self))
        made.__setstate__(state)
        return made

    def __repr__(self) -> str:
        return f"{self.name}(d={self.size}, moves={[m.name for m in self.moves]})"

    def encode(self, value: Arrays) -> Any:
        """What a user may give for solutions, such as routes, as arrays. To be overridden; functions that take solutions call it.

        Parameters
        ----------
        value : any
            Solutions in the user's words.

        Returns
        -------
        array (…, m)
            Arrays stay as they are.
        """
        return value

    def decode(self, solution: np.ndarray) -> Any:
        """A solution in the user's words: the way back of ``encode``. To be overridden.

        Parameters
        ----------
        solution : (m,)
            In the set.

        Returns
        -------
        any
            The array itself, unless the problem has other words.
        """
        return solution

    def statistic(self, y: Arrays) -> np.ndarray:
        """T(y) of solutions, which must be in the set.

        Parameters
        ----------
        y : (…, m), or what ``encode`` takes
            Solutions.

        Returns
        -------
        (…, d) array
            What θ is multiplied with.

        Examples
        --------
        >>> import movegrad as mg
        >>> mg.problems.TopK(3, 2).statistic([1, 0, 1])
        array([1., 0., 1.])
        """
        return self._statistics(y)[1]

    def objective(self, theta: Arrays, y: Arrays) -> Any:
        """⟨θ, T(y)⟩ + φ(y) of solutions, which must be in the set.

        Parameters
        ----------
        theta : (…, d)
            One θ, or one for each solution.
        y : (…, m), or what ``encode`` takes
            Solutions.

        Returns
        -------
        float or (…) array
            What chains prefer to be large.

        Examples
        --------
        >>> import numpy as np
        >>> import movegrad as mg
        >>> float(mg.problems.TopK(3, 2).objective(np.array([1.0, 2.0, 3.0]), [1, 0, 1]))
        4.0
        """
        solutions, statistics = self._statistics(y)
        vectors = finite_vectors(theta, "theta", self.size)
        if vectors.ndim > 1 and vectors.shape[:-1] != statistics.shape[:-1]:
            raise ValueError(f"theta must have the leading axes {statistics.shape[:-1]} of y, got shape {vectors.shape}.")
        phi = phi_of(self, solutions.reshape(-1, solutions.shape[-1])).reshape(solutions.shape[:-1])
        return (vectors * statistics).sum(-1) + phi

    def _statistics(self, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Solutions and their T(y), with the same leading axes."""
        given = array_of(self.encode(y), "y")
        if given.ndim == 0 or given.shape[-1] != len(self.solution):
            raise ValueError(f"y must have a last axis of {len(self.solution)} entries, got shape {given.shape}.")
        rows = HOST.solutions(given.reshape(-1, given.shape[-1]), self, "y")
        return rows.reshape(given.shape), HOST.observe(self, rows, "y").reshape(*given.shape[:-1], self.size)

    def complaint(self, solution: np.ndarray) -> str:
        """Why a solution is not in the set, for error messages. To be overridden.

        Parameters
        ----------
        solution : (m,)
            Not in the set.

        Returns
        -------
        str
            Empty where the problem has no words for it.
        """
        return ""

    def describe(self, solution: np.ndarray) -> dict[str, Any]:
        """What a user wants to read of a solution beside its array. To be overridden.

        Parameters
        ----------
        solution : (m,)
            In the set.

        Returns
        -------
        dict of str to any
            Attributes of the result of :func:`movegrad.solve`.
        """
        old = getattr(self, "read", None)
        if old is None:
            return {}
        warnings.warn(f"read of {self.name} is called describe now.", DeprecationWarning, stacklevel=2)
        return old(solution)

    def _validate(self) -> None:
        if not self.moves or not all(isinstance(m, Move) for m in self.moves):
            raise ValueError(f"moves of {self.name} must be a sequence of one or more movegrad.Move, got {shown(self.moves)}.")
        if len(self.moves) > 62:
            raise ValueError(f"moves of {self.name} must be at most 62, got {len(self.moves)}.")
        for name, arity in _ARITY.items():
            _check_function(getattr(self.functions, name), name, self.name, arity)
        derived = [name for name, a in zip(self.state._fields[1:], self.state[1:], strict=True) if len(a)]
        if self.functions.prepare is None and self.functions.attach is None and derived:
            raise ValueError(f"prepare of {self.name} must be given to fill the field {derived[0]!r} of its state, got None.")
        if self.functions.statistic is None and len(self.solution) != self.size:
            raise ValueError(
                f"size of {self.name} must be {len(self.solution)}, the length of the solution, unless a statistic is given, "
                f"got {self.size}."
            )
        absent = [name for name in _ORACLE if self.oracle is not None and not _has(self.oracle, name)]
        if absent:
            raise ValueError(f"oracle of {self.name} must have the methods {', '.join(_ORACLE)}, got one without {absent[0]}.")
        scored = [m.name for m in self.moves if m.score is not None]
        if self.functions.attach is not None and not scored:
            raise ValueError(f"score of a move of {self.name} must be given, since nothing else reads what attach fills, got None.")
        if self.functions.attach is None and any(m.follow is not None for m in self.moves):
            raise ValueError(f"attach of {self.name} must be given, since its moves have follow, got None.")
        asking = [m.name for m in self.moves if m.applicable_after is not None]
        if self.functions.applicable is None and asking:
            raise ValueError(f"applicable of {self.name} must be given, since move {asking[0]!r} has applicable_after.")
        if self.functions.applicable is not None and len(asking) < len(self.moves):
            missing = next(m.name for m in self.moves if m.applicable_after is None)
            raise ValueError(f"applicable_after of move {missing!r} must be given, since {self.name} has applicable.")


class _LeftBehind:
    """Stands for ``states`` of a pickled problem, if they are a function that cannot be pickled: who lists solutions misses it."""

    def __init__(self, name: str, at_least: Any) -> None:
        self.name = name
        if at_least is not None:
            self.at_least = at_least

    def __call__(self) -> Any:
        raise ValueError(
            f"states of {self.name} must be an object that can be pickled, such as a functools.partial of a function of a module, "
            "to be there in another process, got a lambda or a function of a function."
        )


def _is_local(function: Any) -> bool:
    """Is this a lambda, or a function made in a function? Pickles hold names, and such a one has none."""
    while isinstance(function, partial):
        function = function.func
    return "<" in getattr(function, "__qualname__", "")


def _check_function(function: Any, name: str, owner: str, arity: int, required: bool = False) -> None:
    if function is None and not required:
        return
    what = f"{name} of {owner}"
    if not is_jitted(function):
        raise ValueError(f"{what} must be a function compiled with movegrad.jit or numba.njit, got {type(function).__name__}.")
    found = len(inspect.signature(function.py_func).parameters)
    if found != arity:
        raise ValueError(f"{what} must take {arity} arguments, got one that takes {found}.")
    if name in RETURNS and returns_nothing(function.py_func):
        raise ValueError(f"{what} must return {RETURNS[name].text}, got a function without a return ({defined_at(function)}).")


def _record(record: Any, what: str, one_dimensional: bool) -> Any:
    """The NamedTuple with its fields as arrays of its own, read-only: kernels and ``check`` see the same, whoever writes where."""
    if not (isinstance(record, tuple) and hasattr(record, "_fields") and len(record) > 0):
        raise ValueError(f"{what} must be a NamedTuple with at least one field, got {type(record).__name__}.")
    arrays = []
    for name, value in zip(record._fields, record, strict=True):
        array = array_of(value, what, f" in field {name!r}")
        if one_dimensional and array.ndim != 1:
            raise ValueError(f"{what} must hold one-dimensional arrays, got {array.ndim} axes in field {name!r}.")
        if array.dtype.kind == "f" and array.itemsize not in (4, 8):
            raise ValueError(f"{what} must hold floats of 32 or 64 bits, got {array.dtype} in field {name!r}.")
        arrays.append(np.array(native(array)))
        arrays[-1].setflags(write=False)
    return type(record)(*arrays)


def _has(value: Any, name: str) -> bool:
    try:
        return callable(getattr(value, name, None))
    except Exception:  # of the value's own
        return False


def _stay(data, state, rng):
    return 0, -np.inf


def _stay_change(data, state, move, m):
    return 0, 0


def _stay_apply(data, state, move):
    pass


def stay(weight: float = 1.0) -> Move:
    """A move that does nothing: makes a chain lazy (the paper's convergence theorem proposes to stay half of the time).

    Parameters
    ----------
    weight : float
        Its share in the mixture.

    Returns
    -------
    Move
        For ``extra_moves`` of a problem that comes with movegrad, or among the moves of one of your own.

    Examples
    --------
    >>> import movegrad as mg
    >>> mg.problems.TopK(5, 2, extra_moves=[mg.stay()])
    TopK(5, k=2)(d=5, moves=['swap', 'stay'])
    """
    return Move("stay", *_STAY, changes=0, weight=weight)


_STAY = (jit(_stay), jit(_stay_change), jit(_stay_apply))
