"""Any 0/1 linear program as a problem: structure is found in the rows, moves follow from it.

``structure.py`` reduces a program and recognizes what it is made of, ``moves.py`` has the moves with their ratios, ``start.py``
finds a first solution, ``models.py`` reads files and models of solvers, ``report.py`` tells what was found.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np

from movegrad._types import Arrays, Start
from movegrad._validate import array_of, choices, finite_vectors, flag, positive, shown
from movegrad.problem import Move, Problem, stay
from movegrad.problems._binary import extra, weighted
from movegrad.problems.binary_program.models import Gurobi, Highs, Model, of_model, read
from movegrad.problems.binary_program.moves import MOVES, SWAP_ALONE, UNWATCHED, Data, State, contains, prepare
from movegrad.problems.binary_program.report import ProgramReport, connection, counted, warnings
from movegrad.problems.binary_program.start import first_solution, listing
from movegrad.problems.binary_program.structure import (
    EQUATIONS,
    Ends,
    Names,
    Reduced,
    Structure,
    bounds,
    matrix,
    recognized,
    reduced,
)

__all__ = ["BinaryProgram", "ProgramReport"]

TOLERANCE = 1e-6  # of solvers


class Options(TypedDict, total=False):
    """What :meth:`BinaryProgram.read` and :meth:`BinaryProgram.from_model` take by name."""

    start: Start | None
    moves: Sequence[str] | None
    weights: Sequence[float] | None
    tolerance: float
    extra_moves: Sequence[Move]


class BinaryProgram(Problem):
    """Y = {y ∈ {0,1}ⁿ : lower ≤ A y ≤ upper} with T(y) = y: any 0/1 linear program.

    Moves are found in the rows: flips, swaps inside groups that enter equations alike, exchanges between two rows as in assignment
    problems. Rotations of three and chains of two to four flips are added where these are not known to reach every solution.
    :meth:`report` tells which.

    Parameters
    ----------
    A : array (m, n) or sparse matrix of SciPy
        Coefficients.
    lower, upper : array (m,) or float, optional
        Bounds of A y; −∞ and ∞ where there is none, and by default.
    start : array (n,), optional
        A solution. By default one is searched for: by trivial guesses, by repair, then by HiGHS if it is installed.
    moves : sequence of str, optional
        From "flip", "swap", "exchange", "rotate", "chain", those that the program has. By default all but the last two, which are
        added where the others are not known to connect the set.
    weights : sequence of float, optional
        Shares of these moves; by default 1, ½ for rotations and ¼ for chains.
    tolerance : float
        A y may be outside of a bound b by tolerance·max(1, |b|), as solvers have it. Rows with integer coefficients have whole
        numbers, so that bounds are rounded inward to whole numbers after the tolerance alone is added.
    costs : array (n,), optional
        An objective that goes with the program, for the attributes ``costs`` and ``theta``; nothing else here reads it.
    maximize : bool
        Whether costs are maximized; else they are minimized.
    extra_moves : sequence of Move, optional
        Moves mixed in beside these.

    Attributes
    ----------
    costs : array (n,) or None
        Coefficients of the objective as they stand in the file or the model.
    theta : array (n,) or None
        θ for which the best solutions are those of the model: costs if it maximizes, −costs if it minimizes.
    offset : float
        Constant term of the objective.
    variables : tuple of str
        Names, if the file or the model has them.

    Raises
    ------
    ValueError
        In one sentence, also where the program has no solution or none was found.

    Notes
    -----
    Coefficients are rounded to a grid of a power of two, 2⁻⁵² of the sum of a row: then sums of entries are exact in any order, and
    activities that are kept by adding and subtracting never drift.

    Examples
    --------
    Three jobs, three machines:

    >>> import numpy as np
    >>> import movegrad as mg
    >>> rows, columns = np.kron(np.eye(3), np.ones(3)), np.kron(np.ones(3), np.eye(3))
    >>> problem = mg.problems.BinaryProgram(np.vstack([rows, columns]), 1, 1)
    >>> problem
    BinaryProgram(9 variables, 6 rows)(d=9, moves=['exchange'])
    >>> len(list(problem.states()))
    6
    >>> problem.report().connected
    'exchanges, since every two rows have their variable'
    """

    costs: np.ndarray | None
    theta: np.ndarray | None
    offset: float
    variables: tuple[str, ...]

    def __init__(
        self,
        A: Arrays,
        lower: Arrays | None = None,
        upper: Arrays | None = None,
        *,
        start: Start | None = None,
        moves: Sequence[str] | None = None,
        weights: Sequence[float] | None = None,
        tolerance: float = TOLERANCE,
        costs: Arrays | None = None,
        maximize: bool = True,
        extra_moves: Sequence[Move] = (),
    ) -> None:
        if isinstance(A, Model):
            model = A
        else:
            rows = matrix(A)
            low, high = bounds(lower, "lower", len(rows.lower), -np.inf), bounds(upper, "upper", len(rows.lower), np.inf)
            if (low > high).any():
                r = int(np.flatnonzero(low > high)[0])
                raise ValueError(f"lower must be at most upper, got {low[r]:g} and {high[r]:g} in row {r}.")
            given = np.zeros(0) if costs is None else finite_vectors(np.asarray(costs, float), "costs", rows.n)
            model = Model(rows._replace(lower=low, upper=high), given, flag(maximize, "maximize"), 0.0, Names())
        tolerance = positive(tolerance, "tolerance")
        program = reduced(model.rows, tolerance, model.names)
        structure = recognized(program)
        chosen, connected = _chosen(program, structure, moves)
        y = first_solution(program) if start is None else _given(start, model, program, tolerance)
        data, state = _arrays(program, structure, chosen, y)
        super().__init__(
            data,
            state,
            [*weighted(_kit(chosen, state), weights), *extra(extra_moves)],
            program.rows.n,
            prepare=prepare,
            contains=contains,
            states=listing(program),
            name=f"BinaryProgram({program.rows.n} variables, {len(model.rows.lower)} rows)",
        )
        self.costs, self.offset = (model.costs if len(model.costs) else None), model.offset
        self.theta = None if self.costs is None else (self.costs if model.maximize else -self.costs)
        self.variables = model.names.variables
        self._model, self._program, self._structure, self._connected, self._tolerance = (
            model,
            program,
            structure,
            connected,
            tolerance,
        )

    @classmethod
    def read(cls, path: str | Path, **options: Unpack[Options]) -> "BinaryProgram":
        """The program of a file in MPS or LP format, by HiGHS.

        Parameters
        ----------
        path : str or Path
            File name.
        **options : any
            What else :class:`BinaryProgram` takes by name, but for costs and maximize, which are those of the file.

        Returns
        -------
        BinaryProgram
            With ``costs`` and ``theta`` of the file, and names of variables.
        """
        return cls(read(path), **options)

    @classmethod
    def from_model(cls, model: Highs | Gurobi, **options: Unpack[Options]) -> "BinaryProgram":
        """The program of a model of HiGHS or Gurobi.

        Parameters
        ----------
        model : highspy.Highs or gurobipy.Model
            Linear, with binary variables alone.
        **options : any
            What else :class:`BinaryProgram` takes by name, but for costs and maximize, which are those of the model.

        Returns
        -------
        BinaryProgram
            With ``costs`` and ``theta`` of the model, and names of variables.
        """
        return cls(of_model(model), **options)

    def report(self) -> ProgramReport:
        """What was recognized, which moves follow from it, and what may keep them from solutions.

        Returns
        -------
        ProgramReport
            ``print`` it for the text.
        """
        program, structure = self._program, self._structure
        total = sum(m.weight for m in self.moves)
        shares = {m.name: m.weight / total for m in self.moves}
        return ProgramReport(
            variables=program.rows.n,
            rows=len(self._model.rows.lower),
            fixed=int((program.value >= 0).sum()),
            redundant=program.redundant,
            kinds=counted(structure.kinds),
            groups=len(structure.classes),
            pairs=len(structure.ends.variables),
            moves=shares,
            connected=self._connected,
            warnings=warnings(program, structure, self._model.names, shares, self._connected),
        )

    def describe(self, solution: np.ndarray) -> dict[str, Any]:
        """The variables that are one.

        Parameters
        ----------
        solution : (n,)
            In the set.

        Returns
        -------
        dict
            ``chosen``: their names, or numbers where they have none.
        """
        ones = np.flatnonzero(solution).tolist()
        return {"chosen": [self.variables[j] for j in ones] if self.variables else ones}

    def complaint(self, solution: np.ndarray) -> str:
        """The row that a vector breaks.

        Parameters
        ----------
        solution : (n,)
            Not in the set.

        Returns
        -------
        str
            With the name of the row, its activity and its bounds.
        """
        return _complaint(np.asarray(solution), self._model, self._program, self._tolerance)


# --- the start -------------------------------------------------------------------------------------------------------


def _complaint(y: np.ndarray, model: Model, program: Reduced, tolerance: float) -> str:
    rows, names = model.rows, model.names
    if y.shape != (rows.n,):
        return ""
    other = np.flatnonzero((y != 0) & (y != 1))
    if len(other):
        return f"{names.variable(int(other[0]))} must be 0 or 1"
    activity = rows.activity(y)
    with np.errstate(invalid="ignore"):
        low = activity < rows.lower - tolerance * np.maximum(1.0, np.abs(rows.lower))
        high = activity > rows.upper + tolerance * np.maximum(1.0, np.abs(rows.upper))
    for r in np.flatnonzero(low | high):
        return f"{names.row(int(r))} must be in [{rows.lower[r]:g}, {rows.upper[r]:g}] and is {activity[r]:g}"
    wrong = np.flatnonzero((program.value >= 0) & (y != program.value))
    return f"{names.variable(int(wrong[0]))} must be {program.value[wrong[0]]}" if len(wrong) else ""


def _given(start: Any, model: Model, program: Reduced, tolerance: float) -> np.ndarray:
    """The start of the user, found to be a solution."""
    array, n = array_of(start, "start"), program.rows.n
    if array.shape != (n,):
        raise ValueError(f"start must have shape ({n},), one entry for each variable, got {array.shape}.")
    reason = _complaint(array, model, program, tolerance)
    activity = program.rows.activity(array * (program.value < 0))
    if reason or not ((program.rows.lower <= activity) & (activity <= program.rows.upper)).all():
        raise ValueError(f"start must be in the set, got {shown(array)}{reason and f': {reason}'}.")
    return array.astype(np.uint8)


# --- moves and arrays ------------------------------------------------------------------------------------------------


def _chosen(program: Reduced, structure: Structure, moves: Sequence[str] | None) -> tuple[list[str], str]:
    """Names of moves, and why they connect the set if that is known."""
    there = {
        "flip": len(structure.flips) > 0,
        "swap": len(structure.classes) > 0,
        "exchange": len(structure.ends.variables) > 0,
        "rotate": _turns(structure.ends),
        "chain": bool((np.diff(program.rows.starts()) > 1).any()),
    }
    options = tuple(name for name, available in there.items() if available)
    if moves is not None:
        wanted = choices(moves, "moves", options)
        if not wanted or len(set(wanted)) < len(wanted):
            raise ValueError(f"moves must name one or more different moves, got {tuple(wanted)}.")
        return wanted, connection(program, structure, set(wanted))
    plain = [name for name in options if name not in ("rotate", "chain")]
    connected = connection(program, structure, set(plain))
    return plain if connected else list(options), connected


def _turns(ends: Ends) -> bool:
    """Whether three variables may exchange rows: three rows on either side."""
    if not ends.sides:
        return False
    parts = (np.flatnonzero(ends.component == c) for c in range(int(ends.component.max(initial=-1)) + 1))
    return any(min(len(set(ends.left[part])), len(set(ends.right[part]))) > 2 for part in parts)


def _kit(chosen: list[str], state: State) -> list[Move]:
    if not chosen:  # one solution
        return [stay()]
    if len(state.activity):
        return [MOVES[name] for name in chosen]
    return [SWAP_ALONE] if chosen == ["swap"] else [UNWATCHED[name] for name in chosen]


def _arrays(program: Reduced, structure: Structure, chosen: list[str], y: np.ndarray) -> tuple[Data, State]:
    """What kernels read; watched rows are numbered first."""
    edges = "exchange" in chosen or "rotate" in chosen
    equation = np.array([kind in EQUATIONS for kind in structure.kinds], bool)
    watched = np.ones(len(equation), bool) if "chain" in chosen else ~equation
    order = np.argsort(~watched, kind="stable")
    number = np.argsort(order)
    rows = program.rows
    n, m, row = rows.n, len(order), number[rows.row]
    by_row = np.lexsort((rows.variable, row))
    seen, count = watched[rows.row], int(watched.sum())
    beyond = np.append(row[seen], np.full(n, count))  # the end of each column
    variable, value = np.append(rows.variable[seen], np.arange(n)), np.append(rows.value[seen], np.zeros(n))
    by_column = np.lexsort((beyond, variable))
    stands = np.append(np.argsort(by_row)[seen], np.zeros(n))
    column_row, column_value, dense = beyond[by_column], value[by_column], False
    if "chain" not in chosen and 2 * seen.sum() > n * count > 0:
        dense, table = True, np.zeros((n, count + 1))
        table[rows.variable[seen], row[seen]] = rows.value[seen]
        column_row, column_value = np.tile(np.arange(count + 1), n), table.reshape(-1)
    items, class_of, class_at = _parts(structure.classes if "swap" in chosen else [], n)
    data = Data(
        fixed=program.value,
        row_at=_starts(row[by_row], m),
        row_variable=_small(rows.variable[by_row]),
        row_value=rows.value[by_row],
        lower=rows.lower[order],
        upper=rows.upper[order],
        column_at=_small(np.arange(n + 1) * (count + 1)) if dense else _starts(variable[by_column], n),
        column_row=_small(column_row),
        column_value=column_value,
        column_in_row=_small(stands[by_column] if "chain" in chosen else []),
        flips=_small(structure.flips),
        class_of=class_of,
        class_at=class_at,
        class_at_place=class_of[items],
        dense=dense,
        **_edges(structure.ends, number, m, edges),
        linked=_small(np.unique(rows.variable)),
    )
    pairs = structure.ends.variables if edges else structure.ends.variables[:0]
    state = State(
        y=y,
        activity=np.zeros(int(watched.sum())),
        items=items,
        place=np.zeros(n, np.int32),
        ones=np.zeros(len(class_at) - 1, np.int64),
        edges=_small(pairs),
        seat=np.zeros(n if len(pairs) else 0, np.int32),
        used=np.zeros(len(data.component_at) - 1, np.int64),
    )
    return data, state


def _small(array: Any) -> np.ndarray:
    return np.asarray(array, np.int32)


def _starts(sorted_keys: np.ndarray, n: int) -> np.ndarray:
    return _small(np.searchsorted(sorted_keys, np.arange(n + 1)))


def _parts(parts: list[np.ndarray], n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Members of all parts one after the other, the part of each variable or −1, and where parts begin."""
    part_of = np.full(n, -1, np.int32)
    for c, members in enumerate(parts):
        part_of[members] = c
    members = np.concatenate(parts) if parts else np.zeros(0)
    return _small(members), part_of, _small(np.cumsum([0, *map(len, parts)]))


def _edges(ends: Ends, number: np.ndarray, m: int, wanted: bool) -> dict[str, Any]:
    """The graph of variables between rows: neighbors of each row, and the variables between the two."""
    kept = ends.variables if wanted else ends.variables[:0]
    n = len(ends.left)
    left, right = np.full(n, -1), np.full(n, -1)
    left[kept], right[kept] = number[ends.left[kept]], number[ends.right[kept]]
    ways = sorted({(left[j], right[j], j) for j in kept} | {(right[j], left[j], j) for j in kept})
    pairs = [way[:2] for way in ways]
    first = [k for k, pair in enumerate(pairs) if k == 0 or pair != pairs[k - 1]]
    size = np.diff([*first, len(pairs)])
    multiplicity = np.ones(n, np.int64)
    for k, count in zip(first, size, strict=True):
        multiplicity[[j for _, _, j in ways[k : k + count]]] = count
    return {
        "left": _small(left),
        "right": _small(right),
        "component": _small(np.where(left >= 0, ends.component, -1)),
        "component_at": _small(np.searchsorted(ends.component[kept], np.arange(ends.component[kept].max(initial=-1) + 2))),
        "node_at": _starts(np.array([pairs[k][0] for k in first], np.int64), m),
        "neighbor": _small([pairs[k][1] for k in first]),
        "between_at": _small([*first, len(pairs)]),
        "between": _small([j for _, _, j in ways]),
        "multiplicity": multiplicity,
        "sides": ends.sides,
        "simple": bool((size == 1).all()),
    }
