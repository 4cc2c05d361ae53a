"""What :func:`movegrad.check` found, and what it says about it."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

SHOWN = 3  # examples of each kind of finding in the text
_KEPT = 50  # sentences of each kind


class WrongProblem(AssertionError):
    """Raised by :meth:`Report.raise_if_wrong`; its text is the report.

    Examples
    --------
    >>> from movegrad.check import Report, WrongProblem
    >>> report = Report("flips")
    >>> report.found("wrong ratio", "claimed 1, exact 2.")
    >>> try:
    ...     report.raise_if_wrong()
    ... except WrongProblem as error:
    ...     print(str(error).splitlines()[0])
    flips: WRONG on 0 solutions, 0 draws
    """


@dataclass
class Report:
    """What :func:`movegrad.check` found; ``print`` it, or call :meth:`raise_if_wrong`.

    Attributes
    ----------
    problem : str
        Its name.
    solutions, draws, self_loops : int
        Solutions and draws that were followed, and draws that return the same solution.
    proved : bool
        Every draw from every solution was followed; False for the local test.
    complete : bool
        The set was listed independently of the moves.
    depends_on_theta : list of str
        Names of moves whose laws depend on θ.
    worst_balance : float
        Largest |π(y)P(y,y') − π(y')P(y',y)| over the largest flow.
    worst_law : float
        Largest total variation between the stationary law and π; nan where that was not solved for.
    histories : str
        How derived fields were compared with fresh ones.
    tested : list of str
        What was tested rather than proved, and how.
    notes : list of str
        What a user should know, but is no error.
    findings : dict of str to list of str
        Kinds of errors and sentences about each; empty if the problem is right.

    Examples
    --------
    >>> import movegrad as mg
    >>> report = mg.check(mg.problems.TopK(4, 2), compiled=False)
    >>> report.ok, report.proved, report.solutions, report.findings
    (True, True, 6, {})
    """

    problem: str
    solutions: int = 0
    draws: int = 0
    self_loops: int = 0
    proved: bool = True  # every draw from every solution was followed; False for the local test
    complete: bool = False  # the set was listed independently of the moves
    depends_on_theta: list[str] = field(default_factory=list)
    worst_balance: float = 0.0  # largest |π(y)P(y,y') − π(y')P(y',y)| over the largest flow
    worst_law: float = 0.0  # largest total variation between the stationary law and π; nan where that was not solved for
    histories: str = ""  # how derived fields were compared with fresh ones
    tested: list[str] = field(default_factory=list)  # what was tested rather than proved, and how
    notes: list[str] = field(default_factory=list)  # what a user should know, but is no error
    findings: dict[str, list[str]] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)
    _known: set[tuple[str, str]] = field(default_factory=set)

    def found(self, kind: str, sentence: str) -> None:
        """Add a finding, once."""
        if (kind, sentence) in self._known:
            return
        self._known.add((kind, sentence))
        self._counts[kind] = self._counts.get(kind, 0) + 1
        kept = self.findings.setdefault(kind, [])
        if len(kept) < _KEPT:
            kept.append(sentence)

    def note(self, sentence: str) -> None:
        """Add what is no error, once."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def raise_if_wrong(self) -> "Report":
        """Raise :class:`WrongProblem` with the findings, or return the report."""
        if not self.ok:
            raise WrongProblem(str(self))
        return self

    def __str__(self) -> str:
        verdict = "WRONG" if not self.ok else "right" if self.proved else "nothing wrong found, not proved: local test"
        lines = [f"{self.problem}: {verdict} on {self.solutions} solutions, {self.draws} draws"]
        if self.proved:
            law = "follows (too many solutions to solve for it)" if np.isnan(self.worst_law) else f"to {self.worst_law:.1e}"
            lines.append(f"  detailed balance to {self.worst_balance:.1e}, stationary law {law}")
        lines.append(
            f"  proposals that return the same solution: {self.self_loops}; "
            f"moves that depend on θ: {', '.join(self.depends_on_theta) or 'none'}"
        )
        if self.histories:
            lines.append(f"  derived fields: {self.histories}")
        lines += [f"  tested: {sentence}" for sentence in self.tested]
        lines += [f"  note: {sentence}" for sentence in self.notes]
        for kind, sentences in self.findings.items():
            lines.append(f"  {kind} ({self._counts[kind]}):")
            lines += [f"    {s}" for s in sentences[:SHOWN]]
        return "\n".join(lines)

    __repr__ = __str__


def show(solution: Any) -> str:
    """A solution in a sentence; the middle of a long one is left out."""
    values = [f"{v:g}" if isinstance(v, float) else str(int(v)) for v in np.asarray(solution).tolist()]
    if len(values) > 40:
        values = [*values[:16], "…", *values[-8:]]
    return "[" + " ".join(values) + "]"
