"""PyEPO: learn without a solver in the loop, and use local search as a solver. Either way one line of a PyEPO program changes::

    loss = LocalSearchFenchelYoung(optmodel, steps=1000)  # was: perturbedFenchelYoung(optmodel, n_samples=10, sigma=1.0)
    loss(pred_cost, true_sol).backward()

    loss = LocalSearchSPOPlus(optmodel, steps=3000)  # was: SPOPlus(optmodel)
    loss(pred_cost, true_cost, true_sol, true_obj).backward()

    optmodel = as_optmodel(knapsack, time_limit=0.05)  # was: pyepo.model.knapsackModel(weights, capacity)
    dataset = pyepo.data.dataset.optDataset(optmodel, feats, costs)

PyEPO's losses call a solver row by row; here a batch is one call of a compiled kernel.

References
----------
Tang, Khalil, "PyEPO: a PyTorch-based end-to-end predict-then-optimize library for linear and integer programming", 2024.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor, nn

from movegrad import problems
from movegrad._calls import make_settings, observe
from movegrad._torch_autograd import to_array
from movegrad._types import Arrays
from movegrad._validate import choice, choices, finite_vectors, integer_in, shown
from movegrad.diagnostics import Info
from movegrad.integrations._backends import program_of
from movegrad.integrations._edges import routes, tours, triangle_edges, triangle_order
from movegrad.problem import Problem
from movegrad.problems import BinaryProgram, Knapsack, ShortestPath, TopK
from movegrad.problems.binary_program.structure import Infeasible
from movegrad.sampling import solve
from movegrad.torch import FenchelYoungLoss, LocalSearchLayer

__all__ = [
    "FeasibleSet",
    "LocalSearchFenchelYoung",
    "LocalSearchModel",
    "LocalSearchSPOPlus",
    "as_optmodel",
    "feasible_set",
]

TESTED = "2.2.1 to 2.2.7"  # versions of PyEPO; a few of its private names are read below

try:
    from pyepo import EPO, __version__
    from pyepo.dsl.compiled import compiledBase
    from pyepo.model.bases import knapsackBase, shortestPathBase, tspABBase, vrpABBase
    from pyepo.model.mpax import optMpaxModel
    from pyepo.model.opt import optModel
except ImportError as error:
    raise ImportError(
        f'movegrad.integrations.pyepo needs PyEPO, tested with {TESTED} (pip install "movegrad[pyepo]"): {error}.'
    ) from error

STEPS = 1000  # of a chain, where neither steps nor a time limit are given
SLACK = 1e-6  # of max(1, |b|): how far solvers let a solution violate A x ≤ b
INTEGRALITY = 1e-4  # how far from an integer a solver may leave a binary variable; Gurobi 1e-5, others less


# --- the loss ---------------------------------------------------------------------------------------------------------


class LocalSearchFenchelYoung(nn.Module):
    """Fenchel-Young loss of a PyEPO model, with chains of local search that start at the label instead of a solver.

    Let θ = c if the model maximizes and θ = −c if it minimizes, where c is the predicted cost (with the known costs of a model
    that predicts a part of them). The gradient in θ is ŷ − w, with the label w and the mean ŷ of a chain with stationary law
    ∝ exp(⟨θ, y⟩/t). The value is ⟨θ, ŷ − w⟩: no measure of progress, for which there is ``pyepo.metric.regret``.

    Parameters
    ----------
    optmodel : optModel
        Knapsack, choice of k items, path on a grid, tour, routes, another linear 0/1 program, or made by :func:`as_optmodel`; see
        :func:`feasible_set`.
    steps : int, optional
        K; 1000 if there is no time limit either.
    time_limit : float, optional
        Seconds of chain time for each example.
    temperature : float
        t > 0, on the scale of the costs.
    chains, estimator, seed : as in :class:`movegrad.torch.LocalSearchLayer`
        What chains do.
    moves, beta : as in :func:`feasible_set`
        Of the problem.
    reduction : {"mean", "sum", "none"}
        Over examples.
    processes, solve_ratio, dataset : any
        Taken so that a call of a PyEPO loss needs no other change, and without effect, since no solver is called: chains run on
        threads (:func:`movegrad.set_threads`) and not in processes, there is no solve to replace by a pool of known solutions
        (fewer steps save time), and no such pool to fill from a data set.

    References
    ----------
    Algorithm 2 of "Learning with Local Search MCMC Layers".

    Examples
    --------
    >>> import torch
    >>> import movegrad as mg
    >>> from movegrad.integrations.pyepo import LocalSearchFenchelYoung, as_optmodel
    >>> loss = LocalSearchFenchelYoung(as_optmodel(mg.problems.TopK(5, 2), steps=100), steps=20)
    >>> cost = torch.zeros(1, 5, requires_grad=True)
    >>> loss(cost, torch.tensor([[1.0, 1.0, 0.0, 0.0, 0.0]])).backward()
    >>> cost.grad.shape
    torch.Size([1, 5])
    """

    def __init__(
        self,
        optmodel: optModel,
        steps: int | None = None,
        *,
        time_limit: float | None = None,
        temperature: float = 1.0,
        chains: int = 1,
        estimator: str = "mean",
        moves: Sequence[str] | None = None,
        beta: float | None = None,
        seed: int = 0,
        reduction: str = "mean",
        processes: int = 1,
        solve_ratio: float = 1.0,
        dataset: object = None,
    ) -> None:
        super().__init__()
        integer_in(processes, "processes", 0)
        if not isinstance(solve_ratio, (int, float, np.integer, np.floating)) or not 0.0 <= solve_ratio <= 1.0:
            raise ValueError(f"solve_ratio must be in [0, 1], got {shown(solve_ratio)}.")
        self.optmodel = optmodel
        self.feasible_set, self._words = _read(optmodel, moves, beta)
        layer = LocalSearchLayer(
            self.feasible_set.problem, STEPS if steps is None and time_limit is None else steps, temperature,
            time_limit=time_limit, chains=chains, estimator=estimator, seed=seed,
        )  # fmt: skip
        self.loss = FenchelYoungLoss(layer, reduction=reduction)
        self.loss._name = "true_sol"

    @property
    def info(self) -> Info | None:
        """Diagnostics of the last call."""
        return self.loss.layer.info

    def forward(self, pred_cost: Tensor, true_sol: Tensor) -> Tensor:
        """The loss.

        Parameters
        ----------
        pred_cost : tensor (…, num_cost)
            Predicted costs.
        true_sol : tensor (…, n)
            Labels, with n the number of variables.

        Returns
        -------
        tensor
            A number; (…) with reduction "none".
        """
        _vectors(pred_cost, "pred_cost", self.optmodel.num_cost)
        _tensor(true_sol, "true_sol")
        problem, sign = self.feasible_set
        shape = (*pred_cost.shape[:-1], problem.size)
        if tuple(true_sol.shape) != shape:
            given = tuple(true_sol.shape)
            raise ValueError(f"true_sol must have shape {shape}, got {given} for pred_cost of shape {tuple(pred_cost.shape)}.")
        theta = sign * _part(self.optmodel, "_fullCost")(pred_cost)  # with the known costs
        y = self._words.solutions(_rounded(_on_cpu(true_sol, "true_sol")))
        return self.loss(self._words.costs(theta).cpu(), y).to(pred_cost.device)


class LocalSearchSPOPlus(LocalSearchFenchelYoung):
    """SPO+ with the mean of a chain in place of the solver's solution: a Fenchel-Young loss at 2ĉ − c, which sees true costs.

    The gradient in θ is 2(ŷ − w) with the mean ŷ of a chain at 2ĉ − c; it tends to that of PyEPO's ``SPOPlus`` as t → 0 and K → ∞,
    and is smooth and convex for t > 0. Arguments of a call are those of ``SPOPlus``.

    Parameters
    ----------
    optmodel, steps, time_limit, temperature, chains, estimator, seed : as in :class:`LocalSearchFenchelYoung`
        Model and chains.
    moves, beta, reduction, processes, solve_ratio, dataset : as in :class:`LocalSearchFenchelYoung`
        Moves, and what PyEPO's losses take.

    References
    ----------
    Elmachtoub, Grigas, "Smart 'Predict, then Optimize'", 2022.

    Examples
    --------
    >>> import torch
    >>> import movegrad as mg
    >>> from movegrad.integrations.pyepo import LocalSearchSPOPlus, as_optmodel
    >>> loss = LocalSearchSPOPlus(as_optmodel(mg.problems.TopK(5, 2), steps=100), steps=20)
    >>> cost = torch.zeros(1, 5, requires_grad=True)
    >>> loss(cost, torch.zeros(1, 5), torch.tensor([[1.0, 1.0, 0.0, 0.0, 0.0]])).backward()
    >>> cost.grad.shape
    torch.Size([1, 5])
    """

    def forward(self, pred_cost: Tensor, true_cost: Tensor, true_sol: Tensor, true_obj: Tensor | None = None) -> Tensor:  # type: ignore[override]
        """The loss.

        Parameters
        ----------
        pred_cost, true_cost : tensors (…, num_cost)
            Predicted costs, and those that the labels are best for.
        true_sol : tensor (…, n)
            Labels, with n the number of variables.
        true_obj : tensor, optional
            Not used; PyEPO's loss takes it.

        Returns
        -------
        tensor
            A number; (…) with reduction "none".
        """
        for value, name in ((pred_cost, "pred_cost"), (true_cost, "true_cost")):
            _vectors(value, name, self.optmodel.num_cost)
        if true_cost.shape != pred_cost.shape:
            raise ValueError(f"true_cost must have the shape {tuple(pred_cost.shape)} of pred_cost, got {tuple(true_cost.shape)}.")
        return super().forward(2.0 * pred_cost - true_cost, true_sol)


def _on_cpu(value: Any, name: str) -> np.ndarray:
    on_gpu = isinstance(value, Tensor) and value.is_cuda
    return to_array(value.cpu() if on_gpu else value, name)


def _tensor(value: Any, name: str) -> Tensor:
    if not isinstance(value, Tensor) or value.is_nested:
        raise ValueError(f"{name} must be a dense tensor, got {shown(value)}.")
    return value


def _vectors(value: Any, name: str, size: int) -> None:
    """Costs are finite tensors (…, size)."""
    finite_vectors(_on_cpu(_tensor(value, name), name), name, size)


def _rounded(y: np.ndarray) -> np.ndarray:
    """Labels without the tolerance of a solver, as integers."""
    whole = np.rint(y)
    with np.errstate(invalid="ignore"):  # of infinite entries
        bad = ~((np.abs(y - whole) <= INTEGRALITY) & (np.abs(y) < 2**31))
    if bad.any():
        raise ValueError(f"true_sol must be in the set, got the entry {y[bad][0]}.")
    return whole.astype(np.int64)


# --- the set of a model ------------------------------------------------------------------------------------------------


class FeasibleSet(NamedTuple):
    """What a model optimizes over: it maximizes ⟨θ, y⟩ over the problem's solutions, where θ = sign·cost.

    Attributes
    ----------
    problem : Problem
        The set, with moves.
    sign : int
        +1 for ``EPO.MAXIMIZE``, −1 for ``EPO.MINIMIZE``.

    Examples
    --------
    >>> import movegrad as mg
    >>> from movegrad.integrations.pyepo import as_optmodel, feasible_set
    >>> feasible_set(as_optmodel(mg.problems.TopK(5, 2), steps=100, sense="min")).sign
    -1
    """

    problem: Problem
    sign: int  # +1 for EPO.MAXIMIZE, −1 for EPO.MINIMIZE


def feasible_set(optmodel: optModel, *, moves: Sequence[str] | None = None, beta: float | None = None) -> FeasibleSet:
    """The set of a PyEPO model as a problem with moves, read from the model's description without its solver.

    ================================================================ =====================================================
    model                                                            problem
    ================================================================ =====================================================
    predefined knapsack, of any solver: ``weights``, ``capacity``    :class:`~movegrad.problems.Knapsack`
    predefined shortest path, of any solver: ``grid``                :class:`~movegrad.problems.ShortestPath`
    predefined traveling salesperson, of any solver or formulation   ``TSP``
    predefined vehicle routing, of any solver or formulation         ``CVRP``
    compiled from ``pyepo.dsl``: binary x, A x ≤ b, A ≥ 0, b ≥ 0     :class:`~movegrad.problems.Knapsack`
    compiled from ``pyepo.dsl``: binary x, Σ x = k                   :class:`~movegrad.problems.TopK`
    compiled from ``pyepo.dsl``: binary x, other linear constraints  :class:`~movegrad.problems.BinaryProgram`
    your own, of Gurobi, HiGHS, Pyomo or OR-Tools: all x binary      :class:`~movegrad.problems.BinaryProgram`
    made by :func:`as_optmodel`                                      the one that it was made from
    ================================================================ =====================================================

    Constraints of ``addConstr`` count; those that every binary x fulfills are left out. For paths, tours and routes they are
    refused. Bounds have the tolerance of solvers, 10⁻⁶·max(1, |b|), so that their solutions are in the set. What a subclass of a
    predefined model adds in its own ``_getModel`` cannot be seen. PyEPO's models of vehicle routing leave out routes of one
    customer, which ``CVRP`` has.

    Parameters
    ----------
    optmodel : optModel
        Of one of these kinds.
    moves : sequence of str, optional
        Of the problem: for a knapsack from "swap", "flip", "guided swap", "guided flip", for Σ x = k from "swap", "guided swap".
        All unguided ones by default.
    beta : float, optional
        Temperature of guided moves of knapsacks and Σ x = k; 2t by default.

    Returns
    -------
    FeasibleSet
        The problem, and the sign of costs.

    Examples
    --------
    >>> import movegrad as mg
    >>> from movegrad.integrations.pyepo import as_optmodel, feasible_set
    >>> feasible_set(as_optmodel(mg.problems.TopK(5, 2), steps=100)).problem
    TopK(5, k=2)(d=5, moves=['swap'])
    """
    return _read(optmodel, moves, beta)[0]


class _Words(NamedTuple):
    """How a model speaks of the same set: where its costs go in θ, and how its labels are read as solutions."""

    order: np.ndarray | None = None  # entry e of θ is cost order[e]
    decode: Callable[[np.ndarray], np.ndarray] | None = None  # (N, d) → (N, size of a solution)

    def costs(self, theta: Tensor) -> Tensor:
        return theta if self.order is None else theta[..., self.order]

    def solutions(self, labels: np.ndarray) -> np.ndarray:
        if self.decode is None:
            return labels
        return self.decode(labels.reshape(-1, labels.shape[-1])).reshape(*labels.shape[:-1], -1)


def _read(optmodel: Any, moves: Sequence[str] | None, beta: float | None) -> tuple[FeasibleSet, _Words]:
    """The set of a model, and its words."""
    if not isinstance(optmodel, optModel):
        raise ValueError(f"optmodel must be a pyepo.model.opt.optModel, got {type(optmodel).__name__}.")
    sign = {EPO.MAXIMIZE: 1, EPO.MINIMIZE: -1}.get(optmodel.modelSense)
    if sign is None:
        raise ValueError(f"optmodel must have the modelSense EPO.MAXIMIZE or EPO.MINIMIZE, got {optmodel.modelSense}.")
    problem, words = _problem(optmodel, moves, beta)
    return FeasibleSet(problem, sign), words


def _problem(optmodel: optModel, moves: Sequence[str] | None, beta: float | None) -> tuple[Problem, _Words]:
    if isinstance(optmodel, LocalSearchModel):
        return _own_problem(optmodel, moves, beta)
    relaxed = isinstance(optmodel, optMpaxModel) or any(c.__name__.endswith("Rel") for c in type(optmodel).__mro__)
    if relaxed and not isinstance(optmodel, shortestPathBase):  # whose relaxation is exact
        raise _unsupported(optmodel, "the variables of a linear relaxation")
    if isinstance(optmodel, (knapsackBase, compiledBase)):
        return _by_constraints(optmodel, _constraints(optmodel), moves, beta), _Words()
    if beta is not None:
        raise ValueError(f"beta must be None for a model without guided moves, got {beta}.")
    options = {} if moves is None else {"moves": moves}
    for base, read in ((shortestPathBase, _path), (tspABBase, _tour), (vrpABBase, _routing)):
        if isinstance(optmodel, base):
            if _part(optmodel, "_extra_constrs"):
                raise _unsupported(optmodel, f"{len(_part(optmodel, '_extra_constrs'))} constraints added by addConstr")
            return read(optmodel, options)
    return _program(optmodel, options), _Words()


# --- paths, tours and routes -------------------------------------------------------------------------------------------


def _path(optmodel: Any, options: dict[str, Any]) -> tuple[Problem, _Words]:
    problem = ShortestPath(optmodel.grid, **options)
    return problem, _words_of(problem)


def _tour(optmodel: Any, options: dict[str, Any]) -> tuple[Problem, _Words]:
    n, edges = optmodel.num_nodes, optmodel.edges
    problem = _made("TSP", optmodel, n, **options)
    return problem, _Words(triangle_order(edges, n), partial(tours, edges=edges, n=n, name="true_sol"))


def _routing(optmodel: Any, options: dict[str, Any]) -> tuple[Problem, _Words]:
    n, edges = optmodel.num_nodes, optmodel.edges
    limit = optmodel.capacity + SLACK * max(1.0, optmodel.capacity)
    problem = _made("CVRP", optmodel, np.asarray(optmodel.demands, float), limit, optmodel.num_vehicle, **options)
    return problem, _Words(triangle_order(edges, n), partial(_plans, problem, edges=edges, n=n))


def _plans(problem: Problem, labels: np.ndarray, edges: Sequence[tuple[int, int]], n: int) -> np.ndarray:
    """Labels as solutions of a routing problem, which encodes routes."""
    return np.stack([np.asarray(problem.encode(plan)) for plan in routes(labels, edges, n, "true_sol")])


def _made(name: str, optmodel: optModel, *arguments: Any, **options: Any) -> Problem:
    """A problem of movegrad by its name."""
    kind = getattr(problems, name, None)
    if kind is None:
        raise _unsupported(optmodel, f"a set for which movegrad has no {name}")
    return kind(*arguments, **options)


def _words_of(problem: Problem) -> _Words:
    """Of a problem of movegrad itself, with T(y) in its own order."""
    if isinstance(problem, ShortestPath):
        return _Words(decode=partial(_arcs, problem))
    if _is(problem, "TSP") and problem.size == len(problem.solution) * (len(problem.solution) - 1) // 2:
        n = len(problem.solution)
        return _Words(decode=partial(tours, edges=triangle_edges(n), n=n, name="true_sol"))
    if _is(problem, "CVRP"):
        n = len(problem.solution)
        return _Words(decode=partial(_plans, problem, edges=triangle_edges(n), n=n))
    raise ValueError(
        "optmodel must have solutions y with T(y) = y, paths on a grid, tours or routes, since chains start at labels, "
        f"got {problem}."
    )


def _is(problem: Problem, name: str) -> bool:
    kind = getattr(problems, name, None)
    return kind is not None and isinstance(problem, kind)


def _arcs(problem: ShortestPath, labels: np.ndarray) -> np.ndarray:
    try:
        return problem.from_arcs(labels)
    except ValueError as error:
        raise ValueError(f"true_sol must be in the set, but {error}") from None


# --- linear 0/1 programs ------------------------------------------------------------------------------------------------


def _program(optmodel: optModel, options: dict[str, Any]) -> BinaryProgram:
    """What the backend of a model holds."""
    try:
        program = program_of(_part(optmodel, "_model"), optmodel.x)
    except (ValueError, AttributeError, TypeError) as error:
        raise _unsupported(optmodel, str(error).removeprefix("model must have binary variables alone, got ").rstrip(".")) from None
    return _binary(program, options=options)


def _binary(*arguments: Any, options: dict[str, Any]) -> BinaryProgram:
    try:
        return BinaryProgram(*arguments, **options)
    except Infeasible as error:
        raise ValueError(f"optmodel must have a solution, but {error}") from None


def _by_constraints(optmodel: optModel, constraints: "_Constraints", moves: Any, beta: float | None) -> Problem:
    """A knapsack or a choice of k items where that is all, else a 0/1 program."""
    table, bounds, equalities = constraints
    limits = bounds + SLACK * np.maximum(1.0, np.abs(bounds))
    binding = ~(np.maximum(table, 0.0).sum(1) <= limits)
    if not equalities and (table[binding] >= 0.0).all() and (limits[binding] >= 0.0).all():
        return _knapsack(table[binding], limits[binding], ("swap", "flip") if moves is None else moves, beta)
    if len(equalities) == 1 and not binding.any():
        row, right = equalities[0]
        k = right / row[0] if row[0] else np.nan
        if (row == row[0]).all() and k in range(1, len(row)):
            return _top_k(len(row), int(k), ("swap",) if moves is None else moves, beta)
    if beta is not None:
        raise ValueError(f"beta must be None for a model without guided moves, got {beta}.")
    rows = [row for row, _ in equalities]
    fixed = np.array([right for _, right in equalities], float)
    lower, upper = np.append(np.full(len(bounds), -np.inf), fixed), np.append(bounds, fixed)
    whole = np.concatenate([table, np.reshape(rows, (len(rows), table.shape[1]))])
    return _binary(whole, lower, upper, options={} if moves is None else {"moves": moves})


class _Constraints(NamedTuple):
    """Of binary x: A x ≤ b, and equalities (row, right-hand side)."""

    table: np.ndarray  # (M, n)
    bounds: np.ndarray  # (M,)
    equalities: list[tuple[np.ndarray, float]]


def _constraints(optmodel: Any) -> _Constraints:
    tables, bounds, equalities = _predefined(optmodel) if isinstance(optmodel, knapsackBase) else _compiled(optmodel)
    for row, bound in _part(optmodel, "_extra_constrs"):
        tables.append(np.reshape(row, (1, -1)))
        bounds.append(np.reshape(bound, 1))
    return _Constraints(np.concatenate(tables).astype(float), np.concatenate(bounds).astype(float), equalities)


Parts = tuple[list[np.ndarray], list[np.ndarray], list[tuple[np.ndarray, float]]]  # tables and bounds of A x ≤ b, and equalities


def _predefined(optmodel: knapsackBase) -> Parts:
    return [optmodel.weights], [optmodel.capacity], []


def _compiled(optmodel: compiledBase) -> Parts:
    low, high, kinds, quadratic, blocks = (
        _part(optmodel, f"problem.{name}") for name in ("var_lb", "var_ub", "var_type", "obj_Q", "constrs")
    )
    for kind, lowest, highest in zip(kinds, low, high, strict=True):
        if kind == EPO.CONTINUOUS or (lowest, highest) != (0.0, 1.0):
            raise _unsupported(optmodel, f"a variable of type {kind.name} in [{lowest:g}, {highest:g}]")
    if quadratic is not None or any(block[0] is not None for block in blocks):
        raise _unsupported(optmodel, f"a quadratic {'constraint' if quadratic is None else 'objective'}")
    tables, bounds, equalities = [np.zeros((0, len(kinds)))], [np.zeros(0)], []
    for _, rows, sense, right in blocks:
        table = rows.toarray()
        if sense == "==":
            equalities += list(zip(table, right, strict=True))
        else:
            side = 1.0 if sense == "<=" else -1.0
            tables.append(side * table)
            bounds.append(side * right)
    return tables, bounds, equalities


def _knapsack(table: np.ndarray, limits: np.ndarray, moves: Sequence[str], beta: float | None) -> Knapsack:
    if not len(table):  # every binary x
        table, limits = np.zeros((1, table.shape[1])), np.zeros(1)
    return Knapsack(table, limits, moves=moves, beta=beta)


def _top_k(n: int, k: int, moves: Sequence[str], beta: float | None) -> TopK:
    moves = choices(moves, "moves", ("swap", "guided swap"))
    return TopK(n, k, 1 if "swap" in moves else (), guided="guided swap" in moves, beta=beta)


def _own_problem(optmodel: "LocalSearchModel", moves: Sequence[str] | None, beta: float | None) -> tuple[Problem, _Words]:
    problem = optmodel.search_space
    if moves is not None or beta is not None:
        raise ValueError(f"moves and beta must be those of the problem itself, {problem}, got {moves} and {beta}.")
    return problem, _Words() if problem.functions.statistic is None else _words_of(problem)


def _unsupported(optmodel: optModel, found: str) -> ValueError:
    return ValueError(
        "optmodel must be a knapsack, a path on a grid, a tour, routes, a linear program of binary x (compiled from pyepo.dsl, or "
        f"of Gurobi, HiGHS, Pyomo or OR-Tools) or made by as_optmodel, got {type(optmodel).__name__} with {found}."
    )


def _part(optmodel: optModel, path: str) -> Any:
    """An attribute that PyEPO does not promise to keep."""
    value = optmodel
    for name in path.split("."):
        if not hasattr(value, name):
            raise ValueError(f"optmodel must have the attribute {path} of PyEPO {TESTED}, got none in PyEPO {__version__}.")
        value = getattr(value, name)
    return value


# --- a problem as a model -----------------------------------------------------------------------------------------------


def as_optmodel(
    problem: Problem, *, time_limit: float | None = None, steps: int | None = None, sense: str = "max", seed: int = 0
) -> "LocalSearchModel":
    """A PyEPO model that optimizes ⟨c, T(y)⟩ by simulated annealing (:func:`movegrad.solve`).

    It does all that PyEPO asks of a model that is neither relaxed nor cut: labels (``optDataset``), decisions (``metric.regret``),
    losses, worker processes. Solutions are heuristic, and never missing: there is no solver to end without one.

    Parameters
    ----------
    problem : Problem
        Without φ, since PyEPO's objectives are linear.
    time_limit : float
        Seconds of each solve. Give this or steps.
    steps : int
        Of each solve. Then a solution depends on the costs and the seed alone, not on solves before it or on the process that it
        runs in.
    sense : {"max", "min"}
        What to do with costs.
    seed : int
        Of the chains.

    Returns
    -------
    LocalSearchModel
        Costs (d,) → T(y) (d,) as floats, and the objective.

    Examples
    --------
    >>> import movegrad as mg
    >>> from movegrad.integrations.pyepo import as_optmodel
    >>> model = as_optmodel(mg.problems.TopK(5, 2), steps=200)
    >>> model.setObj([0.1, 3.0, 0.2, 2.0, 0.3])
    >>> solution, objective = model.solve()
    >>> solution.tolist(), objective
    ([0.0, 1.0, 0.0, 1.0, 0.0], 5.0)
    """
    return LocalSearchModel(problem, time_limit=time_limit, steps=steps, sense=sense, seed=seed)


class LocalSearchModel(optModel):
    """What :func:`as_optmodel` returns.

    Parameters
    ----------
    search_space : Problem
        Without φ.
    time_limit, steps, sense, seed : as in :func:`as_optmodel`
        How it is solved.

    Examples
    --------
    >>> import movegrad as mg
    >>> from movegrad.integrations.pyepo import as_optmodel
    >>> as_optmodel(mg.problems.TopK(5, 2), steps=200).num_cost
    5
    """

    def __init__(
        self, search_space: Problem, time_limit: float | None = None, steps: int | None = None, sense: str = "max", seed: int = 0
    ) -> None:
        # Not called ``problem``: PyEPO takes an attribute of this name for one of its own.
        if not isinstance(search_space, Problem):
            raise ValueError(f"problem must be a movegrad.Problem, got {type(search_space).__name__}.")
        if search_space.functions.phi is not None:
            raise ValueError(f"problem must be without phi, since PyEPO's objectives are linear, got {search_space}.")
        make_settings(time_limit=time_limit, steps=steps, seed=seed)
        self.modelSense = EPO.MAXIMIZE if choice(sense, "sense", ("max", "min")) == "max" else EPO.MINIMIZE
        self.search_space, self.time_limit, self.steps, self.sense, self.seed = search_space, time_limit, steps, sense, seed
        self._cost: np.ndarray | None = None
        super().__init__()

    def __repr__(self) -> str:
        return f"LocalSearchModel({self.search_space}, time_limit={self.time_limit}, steps={self.steps}, sense={self.sense!r})"

    def get_config(self) -> dict[str, Any]:
        """Arguments from which PyEPO builds the model again in its worker processes."""
        return {name: getattr(self, name) for name in ("search_space", "time_limit", "steps", "sense", "seed")}

    def _getModel(self) -> tuple[None, list[int]]:  # noqa: N802 - the name is PyEPO's
        return None, list(range(self.search_space.size))

    def setObj(self, c: Arrays) -> None:  # noqa: N802 - the name is PyEPO's
        """Set the costs (d,)."""
        values = _on_cpu(c, "c")
        values = finite_vectors(values.astype(float) if values.dtype.kind in "biu" else values, "c", self.search_space.size)
        if values.ndim != 1:
            raise ValueError(f"c must have one axis, got shape {values.shape}.")
        self._cost = values

    def solve(self) -> tuple[np.ndarray, float]:
        """The best T(y) seen, and its objective."""
        if self._cost is None:
            raise ValueError("c must be set by setObj before solve, got no costs.")
        theta = self._cost if self.modelSense == EPO.MAXIMIZE else -self._cost
        found = solve(self.search_space, theta, time_limit=self.time_limit, steps=self.steps, seed=self.seed)
        statistic = observe(self.search_space, found.solution[None]).statistics[0]
        return statistic, float(self._cost @ statistic)

    def addConstr(self, coefs: Arrays, rhs: float) -> "LocalSearchModel":  # noqa: N802 - the name is PyEPO's
        """Not possible: a problem is its constraints."""
        raise NotImplementedError(f"{self.search_space.name} must be built anew to add a constraint, got one in addConstr.")
