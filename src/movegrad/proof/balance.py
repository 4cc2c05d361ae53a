"""Tests on the table of all draws: claimed ratios, reach, dependence on θ, detailed balance, the stationary law."""

from collections import defaultdict

import numpy as np

from movegrad.proof.laws import Laws, Table
from movegrad.proof.pure import LOST
from movegrad.proof.report import SHOWN, show

_SOLVED = 500  # up to so many solutions the stationary law is solved for
_SPREAD = 50.0  # of the objective over t, at most: beyond it most probabilities vanish
_TINY = 1e-280  # mass that underflows on the way back


def stationary_law(rates: np.ndarray) -> np.ndarray:
    """π with π_i Σ_j r_ij = Σ_j π_j r_ji for rates r ≥ 0 between states, which are overwritten; nan where there is more than one.

    States are taken out one after another and their traffic is led past them (Grassmann, Taksar and Heyman, 1985). Nothing is
    subtracted, so that the rarest state is as exact as the most common one.

    Parameters
    ----------
    rates : float array (n, n)
        From row to column; what is on the diagonal does not matter.

    Returns
    -------
    array (n,)
        π, whose sum is 1.

    Examples
    --------
    >>> import numpy as np
    >>> from movegrad.check import stationary_law
    >>> stationary_law(np.array([[0.0, 1.0], [3.0, 0.0]])).tolist()
    [0.75, 0.25]
    """
    n = len(rates)
    for k in range(n - 1, 0, -1):
        back = rates[k, :k]
        total = back.sum()
        rates[:k, k] /= total if total > 0 else np.nan
        rates[:k, :k] += rates[:k, k, None] * back
    law = np.ones(n)
    for k in range(1, n):
        law[k] = law[:k] @ rates[:k, k]
    return law / law.sum()


class Balance:
    """Tests of one table; findings go to the report of the laws."""

    def __init__(self, laws: Laws, tolerance: float) -> None:
        self.laws, self.report, self.tolerance = laws, laws.report, tolerance

    # --- ratios ------------------------------------------------------------------------------------------------------

    def test_ratios(self) -> None:
        """For each pair of solutions, draws that claim ρ and have mass f need draws back that claim 1/ρ and have mass ρ·f.

        A mass is the probability of a draw times the weight of its move, summed over moves: what adds may be undone by what drops.
        The condition holds for all pairs if and only if detailed balance holds for every objective and temperature.
        """
        table, weights = self.laws.table, self.laws.weights
        mass: dict[tuple[int, int], list[tuple]] = defaultdict(list)
        for row in np.flatnonzero((table.target >= 0) & (table.target != table.source)).tolist():
            entry = (float(table.log_ratio[row]), float(table.probability[row] * weights[table.move[row]]))
            mass[int(table.source[row]), int(table.target[row])].append((*entry, float(table.slack[row]), int(table.move[row])))
        for (i, j), forward in mass.items():
            self._test_pair(i, j, forward, mass.get((j, i), []))

    def _test_pair(self, i: int, j: int, forward: list[tuple], backward: list[tuple]) -> None:
        name = " or ".join(sorted({repr(self.laws.problem.moves[s].name) for *_, s in forward}))
        pair = f"{show(self.laws.solutions[i])} → {show(self.laws.solutions[j])}"
        there, back = sum(p for _, p, *_ in forward), sum(p for _, p, *_ in backward)
        if not backward:
            if any(np.exp(r) * p > LOST for r, p, *_ in forward):  # else the way back is rarer than draws can be
                self.report.found("one-way move", f"{name} goes {pair} and never back.")
            return
        for ratio, *_ in forward:  # equal ratios may differ in their last bits
            f, f_slack = _mass_near(forward, ratio, self.tolerance)
            b, b_slack = _mass_near(backward, -ratio, self.tolerance)
            with np.errstate(over="ignore"):
                wanted = float(np.exp(ratio)) * f
            vanishes = LOST if b == 0.0 else _TINY
            if abs(b - wanted) <= (self.tolerance + f_slack + b_slack) * max(b, wanted) or max(b, wanted) < vanishes:
                continue
            exact, claimed = back / there, f"claimed {np.exp(ratio):.8g}"
            if abs(np.exp(ratio) - exact) <= 1e-7 * exact:
                returns = ", ".join(f"{np.exp(r):.8g}" for r in sorted({round(r, 9) for r, *_ in backward}))
                claimed += f" is right, but the way back claims {returns} instead of {1 / exact:.8g}"
                self.report.found("wrong ratio", f"{name} {pair}: {claimed}.")
            else:
                together = " for both together; check each alone" if " or " in name else ""
                self.report.found("wrong ratio", f"{name} {pair}: {claimed}, exact {exact:.8g}{together}.")
            return

    # --- reach and dependence ------------------------------------------------------------------------------------------

    def test_reach(self) -> None:
        """Every solution is reached from the first by moves that apply."""
        table, n = self.laws.table, len(self.laws.solutions)
        neighbors = defaultdict(set)
        edges = table.target >= 0
        for i, j in zip(table.source[edges].tolist(), table.target[edges].tolist(), strict=True):
            neighbors[i].add(j)
        seen, queue = {0}, [0]
        while queue:
            for j in neighbors[queue.pop()] - seen:
                seen.add(j)
                queue.append(j)
        for i in sorted(set(range(n)) - seen)[:SHOWN]:
            self.report.found(
                "unreachable",
                f"{n - len(seen)} of {n} solutions cannot be reached from {show(self.laws.solutions[0])}, "
                f"such as {show(self.laws.solutions[i])}.",
            )

    def test_dependence(self, before: Table) -> None:
        """Moves whose law changes with θ or t, and whether the problem says so."""
        for s, move in enumerate(self.laws.problem.moves):
            then, now = (_law_of(table, s) for table in (before, self.laws.table))
            if then.keys() == now.keys() and all(abs(then[k] - now[k]) < 1e-12 for k in then):
                continue
            if move.name not in self.report.depends_on_theta:
                self.report.depends_on_theta.append(move.name)
            if not self.laws.problem.guided:
                self.report.found(
                    "depends on θ", f"the law of {move.name!r} changes with θ, but the problem is not declared guided."
                )

    # --- the chain ---------------------------------------------------------------------------------------------------

    def logits(self, theta: np.ndarray, temperature: float) -> tuple[np.ndarray, float]:
        """The objective over t, and t: raised where the objective differs by more than 50 t."""
        values = self.laws.statistics @ theta + self.laws.phi
        temperature = temperature * max(1.0, float(np.ptp(values)) / (_SPREAD * temperature))
        return values / temperature, temperature

    def rates(self, logits: np.ndarray, gains: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(source, target, probability) of the steps of Algorithm 2 that lead elsewhere, one for each draw.

        ``gains`` are added to differences of logits, one for each draw: where φ is huge, differences of it are rounded away.
        """
        table, weights = self.laws.table, self.laws.weights
        in_mask = (table.masks[:, None] >> np.arange(len(weights))) & 1
        total = in_mask @ weights
        use = (table.target >= 0) & (table.target != table.source)
        i, j, s = table.source[use], table.target[use], table.move[use]
        with np.errstate(divide="ignore"):  # where no move applies
            rise = logits[j] - logits[i] if gains is None else logits[j] - logits[i] + gains[use]
            log_p = table.log_ratio[use] + rise + np.log(total[i] / total[j])
        return i, j, table.probability[use] * weights[s] / total[i] * np.exp(np.minimum(log_p, 0.0))

    def compare_with_gibbs(self, theta: np.ndarray, temperature: float) -> None:
        """Detailed balance and the stationary law for one θ and t."""
        n = len(self.laws.solutions)
        logits, temperature = self.logits(theta, temperature)
        gibbs = np.exp(logits - np.logaddexp.reduce(logits))
        i, j, rate = self.rates(logits)
        flow: dict[tuple, float] = defaultdict(float)
        for a, b, f in zip(i.tolist(), j.tolist(), (gibbs[i] * rate).tolist(), strict=True):
            flow[a, b] += f
        largest = max(flow.values(), default=1.0)
        for (a, b), f in flow.items():
            error = abs(f - flow.get((b, a), 0.0)) / largest
            if error > self.tolerance:
                a, b = min(a, b), max(a, b)
                self.report.found(
                    "detailed balance",
                    f"{show(self.laws.solutions[a])} ↔ {show(self.laws.solutions[b])} at t={temperature:.6g}: "
                    f"relative error {error:.2g}.",
                )
            self.report.worst_balance = max(self.report.worst_balance, error)
        if n > _SOLVED:
            self.report.worst_law = np.nan  # it follows from detailed balance and reach
        elif "unreachable" not in self.report.findings:
            kernel = np.zeros((n, n))
            np.add.at(kernel, (i, j), rate)
            distance = 0.5 * float(np.abs(stationary_law(kernel) - gibbs).sum())
            self.report.worst_law = max(self.report.worst_law, distance)
            if not distance <= self.tolerance:
                self.report.found("stationary law", f"total variation to the Gibbs law is {distance:.3g} at t={temperature:.6g}.")


def _mass_near(rows: list[tuple], log_ratio: float, tolerance: float) -> tuple[float, float]:
    """Mass of the draws that claim a ratio, and the relative error it may have."""
    near = [(p, slack) for r, p, slack, _ in rows if abs(r - log_ratio) <= tolerance * max(1.0, abs(log_ratio)) + slack]
    return sum(p for p, _ in near), max((slack for _, slack in near), default=0.0)


def _law_of(table: Table, s: int) -> dict[tuple, float]:
    law: dict[tuple, float] = defaultdict(float)
    for row in np.flatnonzero(table.move == s).tolist():
        law[int(table.source[row]), int(table.target[row]), round(float(table.log_ratio[row]), 9)] += table.probability[row]
    return law
