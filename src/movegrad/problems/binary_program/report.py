"""What was recognized in a 0/1 program, and whether its moves are known to reach every solution."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from movegrad.problems.binary_program.start import locks
from movegrad.problems.binary_program.structure import EQUATIONS, KINDS, Names, Reduced, Rows, Structure

SHOWN = 3  # names in a warning


@dataclass(frozen=True)
class ProgramReport:
    """What :class:`~movegrad.problems.BinaryProgram` recognized; ``print`` it for the text.

    Attributes
    ----------
    variables, rows : int
        Of the program as given.
    fixed : int
        Variables that have one value in every solution, found by looking at bounds of rows.
    redundant : int
        Rows that always hold.
    kinds : dict of str to int
        Of the rows that are left: "exactly one", "cardinality", "equation", "packing", "cover", "knapsack", "general".
    groups : int
        Sets of variables that enter equations alike, in which a one and a zero can be swapped.
    pairs : int
        Variables that lie between two rows, of which two can exchange rows.
    moves : dict of str to float
        Share of each move in the mixture.
    connected : str
        Why the moves reach every solution from any other; empty if that is not known.
    warnings : tuple of str
        What to look at.

    Examples
    --------
    >>> import movegrad as mg
    >>> report = mg.problems.BinaryProgram([[1, 1, 1]], 1, 1).report()
    >>> report.kinds, report.moves
    ({'exactly one': 1}, {'swap': 1.0})
    """

    variables: int
    rows: int
    fixed: int
    redundant: int
    kinds: Mapping[str, int]
    groups: int
    pairs: int
    moves: Mapping[str, float]
    connected: str
    warnings: tuple[str, ...]

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.kinds.items()) or "none"
        moves = ", ".join(f"{name} {share:.0%}" for name, share in self.moves.items())
        lines = [
            f"{self.variables} variables, {self.fixed} fixed; {self.rows} rows, {self.redundant} of them always hold",
            f"  rows: {kinds}",
            f"  structure: {self.groups} groups to swap in, {self.pairs} variables to exchange",
            f"  moves: {moves}",
            f"  connected: {self.connected or 'not known; movegrad.check proves it for small instances'}",
            *(f"  warning: {warning}" for warning in self.warnings),
        ]
        return "\n".join(lines)


def counted(kinds: list[str]) -> dict[str, int]:
    """How many rows of each kind there are."""
    count = Counter(kinds)
    return {kind: count[kind] for kind in KINDS if count[kind]}


def warnings(program: Reduced, structure: Structure, names: Names, moves: Mapping[str, float], connected: str) -> tuple[str, ...]:
    """What may keep chains from solutions."""
    out = []
    stuck = structure.stuck
    if len(stuck):
        some = ", ".join(names.variable(int(j)) for j in stuck[:SHOWN]) + (", …" if len(stuck) > SHOWN else "")
        how = "only chains change" if "chain" in moves else "no move changes"
        out.append(f"{how} {len(stuck)} variables, which share equations otherwise than by swaps and exchanges: {some}")
    odd = [int(program.origin[r]) for r, kind in enumerate(structure.kinds) if kind == "equation"]
    if odd:
        some = ", ".join(names.row(r) for r in odd[:SHOWN]) + (", …" if len(odd) > SHOWN else "")
        out.append(f"equations of unlike coefficients leave few ways to move: {some}")
    if not connected:
        out.append("moves may not reach every solution from the start; chains then draw from the part that they reach")
    return tuple(out)


# --- connected? ------------------------------------------------------------------------------------------------------


def connection(program: Reduced, structure: Structure, moves: set[str]) -> str:
    """A reason why moves connect the set, of those that hold for whole families of programs; empty if none applies."""
    rows, free = program.rows, program.value < 0
    equation = np.array([kind in EQUATIONS for kind in structure.kinds], bool)
    if not free.any():
        return "there is one solution"
    if not equation.any():
        return "flips, since each variable has a direction that no row minds" if _flips_connect(rows, free, moves) else ""
    if _swaps_connect(program, structure, equation, moves):
        return "flips to where no other row minds, and swaps in each group"
    if _exchanges_connect(program, structure, moves):
        return "exchanges, since every two rows have their variable"
    return ""


def _flips_connect(rows: Rows, free: np.ndarray, moves: set[str]) -> bool:
    down, up = locks(rows)
    return "flip" in moves and bool(((down == 0) | (up == 0))[free].all())


def _swaps_connect(program: Reduced, structure: Structure, equation: np.ndarray, moves: set[str]) -> bool:
    """Each variable in one even equation at most; with the others where no row minds, all other rows hold."""
    rows, free = program.rows, program.value < 0
    count = np.bincount(rows.variable[equation[rows.row]], minlength=rows.n)
    if "equation" in structure.kinds or (count > 1).any() or "swap" not in moves:
        return False
    others = rows.keep(np.ones(len(rows.row), bool), ~equation)
    down, up = locks(others)
    flips = free & (count == 0)
    if flips.any() and ("flip" not in moves or ((down > 0) & (up > 0))[flips].any()):
        return False
    hub = np.where(flips, (up == 0).astype(np.int8), np.int8(-1))[others.variable]
    low = np.bincount(others.row, np.where(hub < 0, np.minimum(others.value, 0), others.value * hub), len(others.lower))
    high = np.bincount(others.row, np.where(hub < 0, np.maximum(others.value, 0), others.value * hub), len(others.lower))
    return bool(((low >= others.lower) & (high <= others.upper)).all())


def _exchanges_connect(program: Reduced, structure: Structure, moves: set[str]) -> bool:
    """All variables between two rows, every pair of rows with one variable.

    Two equations each: 0/1 tables and graphs with given sums are connected by exchanges (Ryser 1957; Taylor 1981). One of exactly
    one and a packing row: who is not in place gets there by an exchange if the row is full, else by a swap.
    """
    rows, ends, kinds = program.rows, structure.ends, structure.kinds
    free = np.flatnonzero(program.value < 0)
    if "exchange" not in moves or len(ends.variables) != len(free) or not _all_pairs(structure):
        return False
    if len(rows.row) != 2 * len(free):  # no row beside
        return False
    if set(kinds) <= {"exactly one", "cardinality"}:
        return True
    return set(kinds) <= {"exactly one", "packing"} and "swap" in moves


def _all_pairs(structure: Structure) -> bool:
    ends = structure.ends
    for c in range(int(ends.component.max(initial=-1)) + 1):
        members = np.flatnonzero(ends.component == c)
        left, right = ends.left[members], ends.right[members]
        pairs = {(min(a, b), max(a, b)) for a, b in zip(left.tolist(), right.tolist(), strict=True)}
        nodes = len(set(left.tolist()) | set(right.tolist()))
        wanted = len(set(left.tolist())) * len(set(right.tolist())) if ends.sides else nodes * (nodes - 1) // 2
        if len(pairs) != len(members) or len(pairs) != wanted:
            return False
    return True
