"""The PyEPO adapter: sets read from models, gradients in the sense of the model, annealing as a solver, and what it refuses."""

import importlib
import re
import sys
from itertools import combinations, pairwise, permutations
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
try:
    import highspy  # before pyepo: ortools carries the same library, and only the first of the two loads
except ImportError:
    highspy = None
pyepo = pytest.importorskip("pyepo")

import dill  # noqa: E402 - a dependency of pyepo
from pyepo import EPO, dsl  # noqa: E402
from pyepo.data.dataset import optDataset  # noqa: E402
from pyepo.dsl.compiled import compiledBase  # noqa: E402
from pyepo.model.bases import knapsackBase, shortestPathBase, tspABBase, vrpABBase  # noqa: E402
from pyepo.model.opt import optModel  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402

import movegrad as mg  # noqa: E402
from movegrad._calls import observe  # noqa: E402
from movegrad.integrations._edges import routes, tours, triangle_edges, triangle_order  # noqa: E402
from movegrad.integrations.pyepo import (  # noqa: E402
    TESTED,
    LocalSearchFenchelYoung,
    LocalSearchSPOPlus,
    as_optmodel,
    feasible_set,
)
from movegrad.problems import BinaryProgram, Hypercube, Knapsack, ShortestPath, TopK  # noqa: E402
from movegrad.torch import FenchelYoungLoss, LocalSearchLayer  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:::(pyepo|pyomo|gurobipy|highspy|multiprocess|pathos|tqdm|sklearn)")

N = 8
WEIGHTS = np.random.default_rng(0).integers(300, 800, (3, N)) / 100
CAPACITY = WEIGHTS.sum(1) / 2
KNAPSACK = Knapsack(WEIGHTS, CAPACITY)


class PredefinedKnapsack(knapsackBase):
    """A predefined knapsack without a solver."""

    def _getModel(self):  # noqa: N802
        return None, self.items

    def setObj(self, c):  # noqa: N802
        raise NotImplementedError

    def solve(self):
        raise NotImplementedError


class HighsKnapsack(PredefinedKnapsack):
    """A predefined knapsack, solved by HiGHS."""

    def _getModel(self):  # noqa: N802
        solver, n = highspy.Highs(), len(self.items)
        solver.setOptionValue("output_flag", False)
        solver.addVars(n, np.zeros(n), np.ones(n))
        solver.changeColsIntegrality(n, np.arange(n, dtype=np.int32), np.array([highspy.HighsVarType.kInteger] * n))
        for row, bound in zip(self.weights, self.capacity, strict=True):
            solver.addRow(-highspy.kHighsInf, bound, n, np.arange(n, dtype=np.int32), row)
        solver.changeObjectiveSense(highspy.ObjSense.kMaximize)
        return solver, self.items

    def setObj(self, c):  # noqa: N802
        n = len(self.items)
        self._model.changeColsCost(n, np.arange(n, dtype=np.int32), np.asarray(c, float))

    def solve(self):
        self._model.run()
        return np.array(self._model.getSolution().col_value), self._model.getInfo().objective_function_value


class Compiled(compiledBase):
    """A model of pyepo.dsl without a solver."""

    setObj = solve = None  # noqa: N815

    def _getModel(self):  # noqa: N802
        self.modelSense = self.problem.objective.modelSense
        return None, list(range(self.problem.num_vars))


class PlainModel(optModel):
    """An optModel of which nothing is known."""

    def _getModel(self):  # noqa: N802
        return None, list(range(N))

    setObj = solve = None  # noqa: N815


class KnapsackRel(PredefinedKnapsack):
    """Named like PyEPO's linear relaxations."""


def compiled(*constraints, sense=dsl.Maximize, objective=None, **variable):
    """max or min c @ x under constraints, which are functions of x."""
    x = dsl.Variable(N, **({"vtype": EPO.BINARY} | variable))
    term = dsl.Parameter(N) @ x if objective is None else objective(x)
    return Compiled(dsl.Problem(sense(term), [c(x) for c in constraints]))


def fits(x):
    return WEIGHTS @ x <= CAPACITY


def choose(k):
    return lambda x: x.sum() == k


def costs(*shape, seed=1):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape)).requires_grad_()


def labels(problem, n, seed=2):
    """Solutions of a problem, as data sets of PyEPO hold them."""
    states = np.array(list(problem.states()))
    return torch.from_numpy(states[np.random.default_rng(seed).integers(len(states), size=n)]).float()


def complaint(call):
    """Message of a ValueError, which is one sentence."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is judged below
        call()
    message = str(caught.value)
    assert re.fullmatch(r"[^\n]*\bmust\b[^\n]*\.", message), message
    assert not re.search(r"\. [A-Z]", message), f"more than one sentence: {message}"
    return message


# --- sets -------------------------------------------------------------------------------------------------------------


def test_predefined_and_compiled_knapsacks_give_the_same_set():
    found = [feasible_set(model) for model in (PredefinedKnapsack(WEIGHTS, CAPACITY), compiled(fits))]
    for problem, sign in found:
        weights, capacities = problem.weights_and_capacities
        np.testing.assert_array_equal(weights, WEIGHTS)
        np.testing.assert_allclose(capacities, CAPACITY, rtol=1.1e-6)
        np.testing.assert_array_equal(list(problem.states()), list(KNAPSACK.states()))
        assert sign == 1
    assert feasible_set(compiled(fits, sense=dsl.Minimize)).sign == -1


@pytest.mark.parametrize(
    ("constraints", "variable"),
    [
        ([lambda x: -(WEIGHTS @ x) >= -CAPACITY], {}),
        ([lambda x: WEIGHTS @ x - CAPACITY <= 0], {}),
        ([fits, lambda x: x <= 1, lambda x: x >= 0, lambda x: x[0] - x[1] <= 1], {}),
        ([lambda x, r=r: WEIGHTS[r : r + 1] @ x <= CAPACITY[r] for r in range(3)], {}),
        ([fits], {"vtype": EPO.INTEGER, "lb": 0, "ub": 1}),
    ],
    ids=["negated", "shifted", "with rows that always hold", "row by row", "integer"],
)
def test_a_knapsack_can_be_written_in_other_ways(constraints, variable):
    weights, capacities = feasible_set(compiled(*constraints, **variable)).problem.weights_and_capacities
    np.testing.assert_array_equal(weights, WEIGHTS)
    np.testing.assert_allclose(capacities, CAPACITY, rtol=1.1e-6)


@pytest.mark.parametrize("model", [PredefinedKnapsack(WEIGHTS, CAPACITY), compiled(fits)], ids=["predefined", "compiled"])
def test_constraints_added_later_belong_to_the_set(model):
    model = model.copy()
    model._extra_constrs = [(np.ones(N), 2.0)]
    np.testing.assert_array_equal(feasible_set(model).problem.weights_and_capacities[0], [*WEIGHTS, np.ones(N)])


def test_without_constraints_every_binary_vector_is_in_the_set():
    assert len(list(feasible_set(compiled()).problem.states())) == 2**N


@pytest.mark.parametrize("constraint", [choose(3), lambda x: -2 * x.sum() == -6], ids=["plain", "scaled"])
def test_one_equation_of_equal_coefficients_is_a_choice_of_k_items(constraint):
    problem = feasible_set(compiled(constraint)).problem
    assert isinstance(problem, TopK)
    assert problem.size == N
    assert problem.solution.sum() == 3


@pytest.mark.parametrize(
    ("constraint", "moves"), [(fits, ("guided flip", "swap")), (choose(3), ("guided swap",)), (choose(3), ("swap", "guided swap"))]
)
def test_moves_are_chosen_by_name(constraint, moves):
    problem = feasible_set(compiled(constraint), moves=moves, beta=0.5).problem
    assert len(problem.moves) == len(moves)
    assert problem.guided
    assert problem.data.beta == 0.5


UNSUPPORTED = {
    "no description": (lambda: PlainModel(), "PlainModel with a model of builtins.NoneType, of which no constraints can be read"),
    "relaxation": (lambda: KnapsackRel(WEIGHTS, CAPACITY), "linear relaxation"),
    "relaxation of the dsl": (lambda: Compiled(compiled(fits).problem.relax()), r"CONTINUOUS in \[0, 1\]"),
    "integers": (lambda: compiled(fits, vtype=EPO.INTEGER, lb=0, ub=2), r"INTEGER in \[0, 2\]"),
    "quadratic constraint": (lambda: compiled(lambda x: x @ x <= 3), "quadratic constraint"),
    "quadratic objective": (lambda: compiled(fits, objective=lambda x: dsl.Parameter(N) @ x + x @ x), "quadratic objective"),
}


@pytest.mark.parametrize(("model", "found"), UNSUPPORTED.values(), ids=UNSUPPORTED)
def test_other_models_are_refused(model, found):
    message = complaint(lambda: LocalSearchFenchelYoung(model()))
    assert re.match("optmodel must be a knapsack, .* a linear program of binary x .* or made by as_optmodel, got ", message)
    assert re.search(f"got .*{found}", message), message


PROGRAMS = {  # and which of all binary vectors they hold
    "negative weights": (lambda: PredefinedKnapsack(-WEIGHTS, -CAPACITY), lambda x: (x @ WEIGHTS.T >= CAPACITY).all(1)),
    "covering": (lambda: compiled(lambda x: WEIGHTS @ x >= CAPACITY), lambda x: (x @ WEIGHTS.T >= CAPACITY).all(1)),
    "two equations": (
        lambda: compiled(choose(3), lambda x: x[0] + x[1] == 1), lambda x: (x.sum(1) == 3) & (x[:, 0] + x[:, 1] == 1),
    ),
    "equation and knapsack": (lambda: compiled(choose(4), fits), lambda x: (x.sum(1) == 4) & (x @ WEIGHTS.T <= CAPACITY).all(1)),
    "part of the items": (lambda: compiled(lambda x: x[:4].sum() == 2), lambda x: x[:, :4].sum(1) == 2),
    "all items": (lambda: compiled(choose(N)), lambda x: x.sum(1) == N),
    "precedence": (
        lambda: compiled(lambda x: x[0] - x[1] <= 0, lambda x: x[2] + x[3] >= 1),
        lambda x: (x[:, 0] <= x[:, 1]) & (x[:, 2] + x[:, 3] >= 1),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("model", "holds"), PROGRAMS.values(), ids=PROGRAMS)
def test_other_linear_constraints_are_a_binary_program(model, holds):
    problem = feasible_set(model()).problem
    assert isinstance(problem, BinaryProgram)
    every = np.array(list(Hypercube(N).states()))
    np.testing.assert_array_equal(list(problem.states()), every[holds(every)])


@pytest.mark.parametrize(
    "constraint",
    [lambda x: WEIGHTS @ x <= -CAPACITY, choose(2.5), lambda x: WEIGHTS[0] @ x == 0.5],
    ids=["bound", "half", "equation"],
)
def test_a_model_without_solutions_is_said_to_have_none(constraint):
    assert re.match("optmodel must have a solution, but A y must be", complaint(lambda: feasible_set(compiled(constraint))))


def test_a_missing_private_name_is_told_with_the_versions_that_have_it():
    model = PredefinedKnapsack(WEIGHTS, CAPACITY)
    del model._extra_constrs
    message = complaint(lambda: feasible_set(model))
    assert "_extra_constrs" in message
    assert TESTED in message
    assert pyepo.__version__ in message


# --- the loss ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize(("sense", "sign"), [(dsl.Maximize, 1), (dsl.Minimize, -1)], ids=["max", "min"])
def test_value_and_gradient_are_those_of_the_fenchel_young_loss(sense, sign, dtype):
    pred, y = costs(5, N).detach().to(dtype).requires_grad_(), labels(KNAPSACK, 5)
    loss = LocalSearchFenchelYoung(compiled(fits, sense=sense), steps=50, temperature=0.5, seed=7, reduction="sum")
    theta = (sign * pred.detach()).requires_grad_()
    expected = FenchelYoungLoss(LocalSearchLayer(KNAPSACK, steps=50, temperature=0.5, seed=7), reduction="sum")
    value, value_expected = loss(pred, y), expected(theta, y)
    value.backward()
    value_expected.backward()
    assert pred.grad.abs().max() > 0.1
    torch.testing.assert_close(value, value_expected)
    torch.testing.assert_close(pred.grad, sign * theta.grad)
    assert loss.info is not None


@pytest.mark.parametrize(("sense", "sign"), [(dsl.Maximize, 1), (dsl.Minimize, -1)], ids=["max", "min"])
def test_gradient_is_the_exact_one_in_the_long_run(sense, sign):
    pred, y = costs(N).detach().expand(64, -1).clone().requires_grad_(), labels(TopK(N, 3), 1).expand(64, -1)
    LocalSearchFenchelYoung(compiled(choose(3), sense=sense), steps=5000, reduction="sum")(pred, y).backward()
    exact = sign * (mg.exact.marginals(TopK(N, 3), sign * pred[0].detach().numpy()) - y[0].numpy())
    gradients = pred.grad.numpy()
    error = gradients.std(0, ddof=1) / 8.0 + 1e-4  # chains start at y: a bias of the order of 1/K
    assert (np.abs(gradients.mean(0) - exact) / error).max() < 6


class Enumerated(PredefinedKnapsack):
    """A predefined knapsack, solved by looking at all solutions."""

    def setObj(self, c):  # noqa: N802
        self.cost = np.asarray(c, float)

    def solve(self):
        best = max(KNAPSACK.states(), key=lambda y: self.cost @ y)
        return best.astype(float), self.cost @ best


def test_spo_plus_has_the_gradient_of_the_smooth_loss_whose_limit_is_that_of_pyepo():
    """64 chains for each of 6 examples; |z| > 6 somewhere with probability < 1e-5. They start at y: a bias of order 1/K."""
    model, pred, true, t = Enumerated(WEIGHTS, CAPACITY), costs(6, N), costs(6, N, seed=5).detach().abs(), 0.3
    solved = [(model.setObj(c), model.solve())[1] for c in true.numpy()]
    y, objective = torch.tensor(np.array([s for s, _ in solved])), torch.tensor([[o] for _, o in solved])
    pyepo.func.SPOPlus(model, reduction="sum")(pred, true, y, objective).backward()
    shifted = (2 * pred - true).detach().numpy()
    assert pred.grad.abs().max() == 2.0, "labels and solutions differ"
    np.testing.assert_allclose(2 * (mg.exact.marginals(KNAPSACK, shifted, 1e-4) - y.numpy()), pred.grad.numpy(), atol=1e-9)
    many = pred.detach().repeat(64, 1).requires_grad_()
    LocalSearchSPOPlus(model, 5000, temperature=t, reduction="sum")(many, true.repeat(64, 1), y.repeat(64, 1)).backward()
    gradients = many.grad.reshape(64, 6, N).numpy()
    error = gradients.std(0, ddof=1) / 8.0 + 2e-3
    assert (np.abs(gradients.mean(0) - 2 * (mg.exact.marginals(KNAPSACK, shifted, t) - y.numpy())) / error).max() < 6


@pytest.mark.parametrize("sense", [dsl.Maximize, dsl.Minimize], ids=["max", "min"])
def test_spo_plus_is_a_fenchel_young_loss_elsewhere(sense):
    model, pred, true, y = compiled(fits, sense=sense), costs(4, N), costs(4, N, seed=5).detach(), labels(KNAPSACK, 4)
    value = LocalSearchSPOPlus(model, steps=50, seed=3)(pred, true, y)
    value.backward()
    shifted = (2 * pred.detach() - true).requires_grad_()
    expected = LocalSearchFenchelYoung(model, steps=50, seed=3)(shifted, y)
    expected.backward()
    assert shifted.grad.abs().max() > 0
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(pred.grad, 2 * shifted.grad)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda c: c[:2], r"true_cost must have the shape \(3, 8\) of pred_cost, got \(2, 8\)"),
        (lambda c: c * np.nan, "true_cost must be finite, got nan"),
        (lambda c: c[:, 1:], r"true_cost must have a last axis of 8 entries"),
    ],
)
def test_bad_true_costs_are_named(change, found):
    loss, c = LocalSearchSPOPlus(compiled(fits), steps=5), costs(3, N).detach()
    assert re.match(found, complaint(lambda: loss(c, change(c), labels(KNAPSACK, 3))))


def test_known_costs_join_predicted_ones():
    known = np.linspace(-1.0, 1.0, N)
    model = compiled(fits, objective=lambda x: dsl.Parameter(5) @ x[:5] + known @ x)
    pred, y = costs(4, 5), labels(KNAPSACK, 4)
    LocalSearchFenchelYoung(model, steps=50, reduction="sum")(pred, y).backward()
    full = torch.from_numpy(known).expand(4, -1).clone()
    full[:, :5] += pred.detach()
    full.requires_grad_()
    FenchelYoungLoss(LocalSearchLayer(KNAPSACK, steps=50), reduction="sum")(full, y).backward()
    torch.testing.assert_close(pred.grad, full.grad[:, :5])


@pytest.mark.parametrize(("reduction", "shape"), [("mean", ()), ("sum", ()), ("none", (3,))])
def test_reductions_and_arguments_of_pyepo(reduction, shape):
    model = PredefinedKnapsack(WEIGHTS, CAPACITY)
    loss = LocalSearchFenchelYoung(model, time_limit=1e-3, reduction=reduction, processes=2, solve_ratio=0.5, dataset=object())
    assert loss(costs(3, N), labels(KNAPSACK, 3)).shape == shape


def test_labels_may_carry_the_tolerance_of_a_solver():
    loss, y = LocalSearchFenchelYoung(compiled(fits), steps=20), labels(KNAPSACK, 3)
    grads = []
    for target in y, y + 1e-5 * (0.5 - y):
        pred = costs(3, N)
        loss.loss.layer.set_extra_state({"calls": 0, "ends": None})
        loss(pred, target).backward()
        grads.append(pred.grad)
    torch.testing.assert_close(*grads)


def with_entry(y, value):
    y = y.clone()
    y[1, 2] = value
    return y


BAD_INPUT = {
    "nan cost": (lambda c, y: (with_entry(c, np.nan), y), "pred_cost must be finite, got nan"),
    "size of costs": (lambda c, y: (c[:, 1:], y), r"pred_cost must have a last axis of 8 entries, got shape \(3, 7\)"),
    "integer costs": (lambda c, y: (c.long(), y), "pred_cost must be of a floating dtype"),
    "size of labels": (lambda c, y: (c, y[:, 1:]), r"true_sol must have shape \(3, 8\), got \(3, 7\)"),
    "number of labels": (lambda c, y: (c, y[1:]), r"true_sol must have shape \(3, 8\), got \(2, 8\)"),
    "many labels": (lambda c, y: (c[0], y), r"true_sol must have shape \(8,\), got \(3, 8\)"),
    "label that does not fit": (lambda c, y: (c, torch.ones_like(y)), r"true_sol must be in the set, got \[1 1 .* in row 0"),
    "fractional label": (lambda c, y: (c, with_entry(y, 0.5)), "true_sol must be in the set, got the entry 0.5"),
    "nan label": (lambda c, y: (c, with_entry(y, np.nan)), "true_sol must be in the set, got the entry nan"),
    "huge label": (lambda c, y: (c, with_entry(y, 1e30)), r"true_sol must be in the set, got the entry 1\S*e\+30"),
}


@pytest.mark.parametrize(("change", "found"), BAD_INPUT.values(), ids=BAD_INPUT)
def test_bad_input_of_the_loss_is_told_in_the_words_of_pyepo(change, found):
    loss = LocalSearchFenchelYoung(compiled(fits), steps=5)
    arguments = change(costs(3, N).detach(), labels(KNAPSACK, 3))
    assert re.match(found, complaint(lambda: loss(*arguments)))


BAD_SETTINGS = {
    "not a model": (lambda: LocalSearchFenchelYoung(KNAPSACK), "optmodel must be a pyepo.model.opt.optModel, got Knapsack"),
    "both budgets": (lambda: LocalSearchFenchelYoung(compiled(fits), 5, time_limit=1.0), "exactly one of steps and time_limit"),
    "processes": (lambda: LocalSearchFenchelYoung(compiled(fits), processes=-1), "processes must be ≥ 0"),
    "solve_ratio": (lambda: LocalSearchFenchelYoung(compiled(fits), solve_ratio=2.0), "solve_ratio must be in"),
    "reduction": (lambda: LocalSearchFenchelYoung(compiled(fits), reduction="max"), "reduction must be one of"),
    "move of a knapsack": (lambda: feasible_set(compiled(choose(3)), moves=["flip"]), "moves must be one of 'swap', 'guided swap'"),
    "moves twice": (lambda: feasible_set(as_optmodel(KNAPSACK, steps=5), beta=1.0), "moves and beta must be those of the problem"),
}


@pytest.mark.parametrize(("call", "found"), BAD_SETTINGS.values(), ids=BAD_SETTINGS)
def test_bad_settings_of_the_loss(call, found):
    assert re.match(found, complaint(call))


# --- local search as a solver -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sense", "best"), [("max", max), ("min", min)])
def test_annealing_finds_the_best_of_a_small_set(sense, best):
    problem, c = KNAPSACK, np.random.default_rng(3).normal(size=N)
    model = as_optmodel(problem, steps=5000, sense=sense)
    model.setObj(c)
    solution, objective = model.solve()
    assert solution.dtype == np.float64
    assert objective == pytest.approx(c @ solution) == pytest.approx(best(c @ y for y in problem.states()))
    assert model.modelSense == {"max": EPO.MAXIMIZE, "min": EPO.MINIMIZE}[sense]
    assert model.num_cost == N


def test_a_solution_depends_on_costs_and_seed_alone():
    c, d = np.random.default_rng(4).normal(size=(2, 40))
    weights = np.random.default_rng(5).uniform(size=(4, 40))
    model = as_optmodel(Knapsack(weights, weights.sum(1) / 2), steps=30, seed=1)
    rebuilt = getattr(model, "rebuild", model.copy)()  # as in the worker processes of PyEPO
    sent = dill.loads(dill.dumps(model))
    model.setObj(d)
    model.solve()
    solutions = []
    for m in model, rebuilt, sent:
        m.setObj(torch.from_numpy(c))
        solutions.append(m.solve()[0])
    np.testing.assert_array_equal(solutions[0], solutions[1])
    np.testing.assert_array_equal(solutions[0], solutions[2])


def test_feasible_set_of_a_problem_made_a_model_is_the_problem():
    cube = Hypercube(4)
    assert feasible_set(as_optmodel(cube, steps=5, sense="min")) == (cube, -1)


def test_data_set_and_regret_of_pyepo_take_the_model():
    model, c = as_optmodel(KNAPSACK, steps=5000), np.random.default_rng(6).uniform(1, 5, (6, N)).astype(np.float32)
    data = optDataset(model, c, c)
    best = [max(row @ y for y in KNAPSACK.states()) for row in c]
    np.testing.assert_allclose(data.objs.numpy()[:, 0], best, rtol=1e-5)
    loader = DataLoader(data, batch_size=4)
    assert pyepo.metric.regret(torch.nn.Identity(), model, loader) == pytest.approx(0.0, abs=1e-5)
    contrary = torch.nn.Linear(N, N, bias=False)
    torch.nn.init.eye_(contrary.weight).data.neg_()
    assert pyepo.metric.regret(contrary, model, loader) == pytest.approx(1.0)  # takes nothing
    LocalSearchFenchelYoung(model, steps=5)(costs(6, N), data.sols).backward()


BAD_MODELS = {
    "no problem": (lambda: as_optmodel([KNAPSACK], steps=5), "problem must be a movegrad.Problem, got list"),
    "phi": (lambda: as_optmodel(TopK(5, 2, phi=np.ones(5)), steps=5), "problem must be without phi"),
    "no budget": (lambda: as_optmodel(KNAPSACK), "exactly one of steps and time_limit must be given"),
    "sense": (lambda: as_optmodel(KNAPSACK, steps=5, sense="up"), "sense must be one of 'max', 'min'"),
    "nan": (lambda: as_optmodel(KNAPSACK, steps=5).setObj(np.full(N, np.nan)), "c must be finite, got nan"),
    "size": (lambda: as_optmodel(KNAPSACK, steps=5).setObj(np.ones(3)), "c must have a last axis of 8 entries"),
    "axes": (lambda: as_optmodel(KNAPSACK, steps=5).setObj(np.ones((2, N))), "c must have one axis"),
    "no costs": (lambda: as_optmodel(KNAPSACK, steps=5).solve(), "c must be set by setObj"),
}


@pytest.mark.parametrize(("call", "found"), BAD_MODELS.values(), ids=BAD_MODELS)
def test_bad_input_of_the_model(call, found):
    assert re.match(found, complaint(call))


def test_the_model_takes_no_further_constraints():
    with pytest.raises(NotImplementedError, match="must be built anew to add a constraint"):
        as_optmodel(KNAPSACK, steps=5).addConstr(np.ones(N), 2.0)


# --- paths, tours and routes ---------------------------------------------------------------------------------------------


class Grid(shortestPathBase):
    """A predefined shortest path, solved by looking at all paths."""

    def _getModel(self):  # noqa: N802
        self.paths = list_statistics(ShortestPath(self.grid))
        return None, self.arcs

    def setObj(self, c):  # noqa: N802
        self.cost = np.asarray(c, float)

    def solve(self):
        best = min(self.paths, key=lambda y: self.cost @ y)
        return best, self.cost @ best


def list_statistics(problem):
    return observe(problem, np.array(list(problem.states()))).statistics


def test_arcs_of_a_grid_are_those_of_pyepo():
    problem, model = ShortestPath((3, 4)), Grid((3, 4))
    for y, used in zip(problem.states(), list_statistics(problem), strict=True):
        nodes = problem.describe(y)["nodes"]
        assert [model.arcs[e] for e in np.flatnonzero(used)] == sorted(pairwise(nodes))


def test_the_gradient_on_paths_is_the_exact_one_in_the_long_run():
    """64 chains; |z| > 6 somewhere with probability < 1e-6. They start at the label: a bias of order 1/K."""
    model = Grid((3, 4))
    problem = feasible_set(model).problem
    pred = costs(model.num_cost).detach().expand(64, -1).clone().requires_grad_()
    label = torch.from_numpy(model.paths[3]).expand(64, -1)
    LocalSearchFenchelYoung(model, steps=5000, reduction="sum")(pred, label).backward()
    exact = -(mg.exact.marginals(problem, -pred[0].detach().numpy()) - model.paths[3])
    error = pred.grad.numpy().std(0, ddof=1) / 8.0 + 1e-3
    assert (np.abs(pred.grad.numpy().mean(0) - exact) / error).max() < 6


@pytest.mark.parametrize("kind", ["Fenchel-Young", "SPO+"])
def test_training_lowers_regret_on_paths_with_the_data_of_pyepo(kind):
    grid = (4, 4)
    x, c = pyepo.data.shortestpath.genData(120, 5, grid, deg=4, noise_width=0.2, seed=0)
    model = Grid(grid)
    first, second = (optDataset(model, x[part].astype(np.float32), c[part]) for part in (slice(80), slice(80, None)))
    torch.manual_seed(0)
    net = torch.nn.Linear(5, model.num_cost)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    loss = LocalSearchSPOPlus(model, steps=300) if kind == "SPO+" else LocalSearchFenchelYoung(model, steps=300)
    loader = DataLoader(second, batch_size=40)
    before = pyepo.metric.regret(net, model, loader)
    for _ in range(15):
        for features, *observed in DataLoader(first, batch_size=16):
            optimizer.zero_grad()
            loss(net(features), *(observed if kind == "SPO+" else observed[1:2])).backward()
            optimizer.step()
    assert pyepo.metric.regret(net, model, loader) < 0.5 * before


def test_labels_that_are_no_paths_are_refused():
    loss, model = LocalSearchFenchelYoung(Grid((3, 3)), steps=5), Grid((3, 3))
    for change, found in (
        (lambda y: y * 0, "no arc from node 0 in row 1"),
        (lambda y: y * 0 + 1, "two arcs from node 0 in row 1"),
        (lambda y: np.where(np.arange(12) == 11 - 11 * y[11], 1 - y, y), "in row 1"),
    ):
        wrong = torch.from_numpy(np.stack([model.paths[0], change(model.paths[0])]))
        assert re.match(f"true_sol must be in the set, but .*{found}", complaint(lambda w=wrong: loss(costs(2, 12), w)))
    model._extra_constrs = [(np.ones(12), 3.0)]
    assert "1 constraints added by addConstr" in complaint(lambda: feasible_set(model))


def test_a_path_made_a_model_takes_its_own_labels():
    model = as_optmodel(ShortestPath((3, 3)), steps=200, sense="min")
    model.setObj(np.arange(12.0))
    best, value = model.solve()
    assert value == 14.0
    pred = costs(1, 12)
    LocalSearchFenchelYoung(model, steps=20)(pred, torch.from_numpy(best[None])).backward()
    assert pred.grad.shape == (1, 12)


def used(edges, *pairs):
    """An edge vector, edges named as often as they are driven."""
    return np.array([sum({i, j} == set(p) for p in pairs) for i, j in edges])


COMPLETE = list(combinations(range(5), 2))


def test_edges_are_put_in_the_order_of_a_triangle():
    order = triangle_order(COMPLETE, 5)
    assert [COMPLETE[k] for k in order] == triangle_edges(5)
    for e, (i, j) in enumerate(triangle_edges(5)):
        assert e == j * (j - 1) // 2 + i


def test_edges_are_read_as_tours():
    labels = [used(COMPLETE, (0, 3), (3, 1), (1, 4), (4, 2), (2, 0)), used(COMPLETE, (0, 1), (1, 2), (2, 3), (3, 4), (4, 0))]
    np.testing.assert_array_equal(tours(np.array(labels), COMPLETE, 5, "y"), [[0, 2, 4, 1, 3], [0, 1, 2, 3, 4]])
    bad = {
        "must be a tour, got 0 edges at node 0 in row 1": used(COMPLETE, (1, 2), (2, 3)),
        "must be a tour, got 1 edges at node 0 in row 1": used(COMPLETE, (0, 1), (1, 2), (2, 3), (3, 4)),
        "must be edges that are used or not, got 2 for the edge between nodes 0 and 1 in row 1": used(COMPLETE, (0, 1), (0, 1)),
    }
    for found, label in bad.items():
        assert found in complaint(lambda y=label: tours(np.array([labels[0], y]), COMPLETE, 5, "y"))
    six = list(combinations(range(6), 2))
    two = used(six, (0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3))
    assert "one of 3 nodes without node 3 in row 0" in complaint(lambda: tours(two[None], six, 6, "y"))


def test_edges_are_read_as_routes():
    plan = used(COMPLETE, (0, 1), (1, 3), (3, 0), (0, 2), (2, 4), (4, 0))
    alone = used(COMPLETE, (0, 1), (0, 1), (0, 2), (2, 3), (3, 4), (4, 0))
    assert routes(np.array([plan, alone, np.minimum(alone, 1)]), COMPLETE, 5, "y") == [[[1, 3], [2, 4]]] + 2 * [[[1], [2, 3, 4]]]
    bad = {
        "must be routes, got 0 edges at customer 4": used(COMPLETE, (0, 1), (1, 2), (2, 3), (3, 0)),
        "must be routes, got 3 edges at customer 1": used(COMPLETE, (0, 1), (1, 2), (1, 3), (3, 0), (2, 0), (4, 0)),
        "got 2 for the edge between nodes 1 and 2": used(COMPLETE, (1, 2), (1, 2)),
        "customer 2 on a tour without it": used(COMPLETE, (0, 1), (2, 3), (3, 4), (4, 2)),
    }
    for found, label in bad.items():
        assert found in complaint(lambda y=label: routes(y[None], COMPLETE, 5, "y"))


class Tours(tspABBase):
    """A predefined TSP, solved by looking at all tours."""

    def _getModel(self):  # noqa: N802
        orders = [(0, *rest) for rest in permutations(range(1, self.num_nodes))]
        self.all = np.unique([used(self.edges, *zip(y, (*y[1:], 0), strict=True)) for y in orders], axis=0)
        return None, self.edges

    def setObj(self, c):  # noqa: N802
        self.cost = np.asarray(c, float)

    def solve(self):
        best = min(self.all, key=lambda y: self.cost @ y)
        return best, self.cost @ best


class Fleet(vrpABBase):
    """A predefined vehicle routing model without a solver."""

    setObj = solve = None  # noqa: N815

    def _getModel(self):  # noqa: N802
        return None, self.edges


def law(rows, theta):
    weight = np.exp(rows @ theta - (rows @ theta).max())
    return weight @ rows / weight.sum()


@pytest.mark.skipif(not hasattr(mg.problems, "TSP"), reason="needs movegrad.problems.TSP")
def test_the_gradient_on_tours_is_the_exact_one_in_the_long_run():
    """64 chains; |z| > 6 somewhere with probability < 1e-6. They start at the label: a bias of order 1/K."""
    model = Tours(5)
    pred = costs(model.num_cost).detach().expand(64, -1).clone().requires_grad_()
    label = torch.from_numpy(model.all[3]).float().expand(64, -1)
    LocalSearchFenchelYoung(model, steps=5000, reduction="sum")(pred, label).backward()
    exact = -(law(model.all, -pred[0].detach().numpy()) - model.all[3])
    error = pred.grad.numpy().std(0, ddof=1) / 8.0 + 1e-3
    assert (np.abs(pred.grad.numpy().mean(0) - exact) / error).max() < 6
    shifted = costs(2, model.num_cost)
    LocalSearchSPOPlus(model, steps=20)(shifted, shifted.detach(), label[:2]).backward()
    assert torch.isfinite(shifted.grad).all()


@pytest.mark.skipif(not hasattr(mg.problems, "CVRP"), reason="needs movegrad.problems.CVRP")
def test_labels_of_vehicle_routing_are_read_and_costs_go_to_their_edges():
    model = Fleet(5, [1.0, 1.0, 1.0, 1.0], 2.0, 2)
    label = torch.from_numpy(used(model.edges, (0, 1), (1, 3), (3, 0), (0, 2), (2, 4), (4, 0))).float()[None]
    pred = torch.from_numpy(np.where(label[0] > 0, 0.0, 50.0))[None].requires_grad_()  # any other edge is dear
    LocalSearchFenchelYoung(model, steps=200)(pred, label).backward()
    assert pred.grad.abs().max() < 1e-9, "chains stay at the label"
    heavy = torch.from_numpy(used(model.edges, (0, 1), (1, 2), (2, 3), (3, 0), (4, 0)))[None]
    assert "true_sol must be in the set" in complaint(lambda: LocalSearchFenchelYoung(model, steps=5)(pred, heavy))


@pytest.mark.skipif(hasattr(mg.problems, "TSP"), reason="movegrad.problems.TSP is there")
def test_tours_are_refused_where_there_is_no_problem_for_them():
    assert "a set for which movegrad has no TSP" in complaint(lambda: feasible_set(Tours(4)))
    assert "a set for which movegrad has no CVRP" in complaint(lambda: feasible_set(Fleet(3, [1.0, 1.0], 2.0, 1)))


# --- programs inside of solvers -------------------------------------------------------------------------------------------


class Backed(optModel):
    """A model of one's own: two rows of exactly one over six variables and a capacity; ``backend`` is what PyEPO calls _model."""

    A = np.array([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1], [3, 1, 2, 2, 3, 1]], float)
    LOWER, UPPER = np.array([1, 1, -np.inf]), np.array([1, 1, 4.0])
    setObj = solve = None  # noqa: N815

    def __init__(self, backend, x):
        self.backend, self.variables = backend, x
        super().__init__()

    def _getModel(self):  # noqa: N802
        return self.backend, self.variables


def of_highs(**options):
    solver, n = highspy.Highs(), 6
    solver.setOptionValue("output_flag", False)
    solver.addVars(n, np.zeros(n), np.ones(n))
    solver.changeColsIntegrality(n, np.arange(n, dtype=np.int32), np.array([highspy.HighsVarType.kInteger] * n))
    for row, low, high in zip(Backed.A, Backed.LOWER, Backed.UPPER, strict=True):
        solver.addRow(low, high, n, np.arange(n, dtype=np.int32), row)
    return Backed(solver, list(range(n)))


def of_gurobi(order=range(6), kind="B"):
    """What is read of gurobipy."""
    sparse = pytest.importorskip("scipy.sparse")
    variables = [SimpleNamespace(LB=0.0, UB=1.0, VType=kind, Obj=0.0, VarName=f"v{j}", index=j) for j in range(6)]
    rows = [SimpleNamespace(Sense=s, RHS=b, ConstrName=f"r{r}") for r, (s, b) in enumerate((("=", 1.0), ("=", 1.0), ("<", 4.0)))]
    model = SimpleNamespace(
        update=lambda: None,
        getA=lambda: sparse.csr_matrix(Backed.A),
        getVars=lambda: variables,
        getConstrs=lambda: rows,
        ModelSense=1,
    )
    return Backed(model, {k: variables[k] for k in order})


def of_ortools(kind=True):
    """What is read of pywraplp."""
    value = lambda v: lambda *_: v  # noqa: E731
    variables = [
        SimpleNamespace(lb=value(0.0), ub=value(1.0), integer=value(kind), name=value(f"v{j}"), index=value(j)) for j in range(6)
    ]
    rows = [
        SimpleNamespace(
            lb=value(max(low, -1e300)), ub=value(high), name=value(f"r{r}"), GetCoefficient=lambda v, row=row: row[v.index()]
        )
        for r, (row, low, high) in enumerate(zip(Backed.A, Backed.LOWER, Backed.UPPER, strict=True))
    ]
    solver = SimpleNamespace(variables=value(variables), constraints=value(rows), infinity=value(1e300))
    return Backed(solver, dict(enumerate(variables)))


def of_pyomo(monkeypatch):
    """What is read of Pyomo, by modules that stand for it."""
    variables = [SimpleNamespace(lb=0, ub=1, is_binary=lambda: True, is_integer=lambda: True, name=f"v{j}") for j in range(6)]
    rows = [
        SimpleNamespace(body=row, lower=None if np.isinf(low) else low + 1.0, upper=high + 1.0, name=f"r{r}")
        for r, (row, low, high) in enumerate(zip(Backed.A, Backed.LOWER, Backed.UPPER, strict=True))
    ]

    def repn(row):
        there = np.flatnonzero(row)
        return SimpleNamespace(
            is_linear=lambda: True, linear_vars=[variables[j] for j in there], linear_coefs=row[there].tolist(), constant=1.0
        )

    environ = SimpleNamespace(Constraint="constraints", Var="variables", value=float)
    for name, module in {
        "pyomo": object(),
        "pyomo.environ": environ,
        "pyomo.repn": SimpleNamespace(generate_standard_repn=repn),
    }.items():
        monkeypatch.setitem(sys.modules, name, module)
    parts = {"constraints": rows, "variables": variables}
    model = SimpleNamespace(component_data_objects=lambda kind, active: parts[kind])
    return Backed(model, dict(enumerate(variables)))


@pytest.mark.parametrize("backend", ["highs", "gurobi", "ortools", "pyomo"])
def test_a_program_is_read_from_its_backend(backend, monkeypatch):
    if backend == "highs" and highspy is None:
        pytest.skip("needs highspy")
    model = {"highs": of_highs, "gurobi": of_gurobi, "ortools": of_ortools, "pyomo": lambda: of_pyomo(monkeypatch)}[backend]()
    problem, sign = feasible_set(model)
    every = np.array(list(Hypercube(6).states()))
    value = every @ Backed.A.T
    np.testing.assert_array_equal(list(problem.states()), every[((value >= Backed.LOWER) & (value <= Backed.UPPER)).all(1)])
    assert sign == -1
    pred = costs(2, 6)
    LocalSearchFenchelYoung(model, steps=20)(pred, torch.tensor([[0, 1, 0, 0, 0, 1.0]] * 2)).backward()
    assert torch.isfinite(pred.grad).all()


def test_columns_are_in_the_order_of_the_costs():
    order = [5, 4, 3, 2, 1, 0]
    problem = feasible_set(of_gurobi(order)).problem
    np.testing.assert_array_equal(
        sorted(map(tuple, problem.states())), sorted(tuple(y[::-1]) for y in feasible_set(of_gurobi()).problem.states())
    )


@pytest.mark.parametrize(
    ("model", "found"),
    [
        (lambda: of_gurobi(kind="C"), "with variable 'v0', which is continuous"),
        (lambda: of_gurobi(order=range(4)), "with 6 variables, of which costs belong to 4"),
        (lambda: of_ortools(kind=False), "with variable 'v0', which is continuous"),
        (lambda: Backed(object(), [0, 1]), "with a model of builtins.object, of which no constraints can be read"),
    ],
)
def test_backends_that_hold_something_else_are_refused(model, found):
    assert found in complaint(lambda: feasible_set(model()))


# --- together -----------------------------------------------------------------------------------------------------------


def small_task():
    """Weights, capacities, features and costs of PyEPO's own generator."""
    weights, x, c = pyepo.data.knapsack.genData(160, 6, 16, dim=3, deg=4, noise_width=0.2, seed=0)
    return weights, weights.sum(1) / 2, x.astype(np.float32), c


def train(model, x, c, epochs=8):
    """Regret on the second half of the data, before and after training on the first."""
    first, second = optDataset(model, x[:80], c[:80]), optDataset(model, x[80:], c[80:])
    torch.manual_seed(0)
    net = torch.nn.Linear(x.shape[1], c.shape[1])
    optimizer, loss = torch.optim.Adam(net.parameters(), lr=0.1), LocalSearchFenchelYoung(model, steps=500)
    loader = DataLoader(second, batch_size=80)
    before = pyepo.metric.regret(net, model, loader)
    generator = torch.Generator().manual_seed(0)
    for _ in range(epochs):
        for features, _, solutions, _ in DataLoader(first, batch_size=16, shuffle=True, generator=generator):
            optimizer.zero_grad()
            loss(net(features), solutions).backward()
            optimizer.step()
    return before, pyepo.metric.regret(net, model, loader)


def test_training_lowers_regret_with_annealing_as_the_solver():
    weights, capacities, x, c = small_task()
    before, after = train(as_optmodel(Knapsack(weights, capacities), steps=2000), x, c)
    assert after < 0.5 * before


@pytest.mark.skipif(highspy is None, reason="needs highspy")
def test_training_lowers_regret_with_labels_of_highs():
    weights, capacities, x, c = small_task()
    before, after = train(HighsKnapsack(weights, capacities), x[:100], c[:100])
    assert after < 0.5 * before


@pytest.mark.parametrize("backend", ["gurobi", "pyomo"])
def test_models_with_a_solver_are_read_as_those_without(backend):
    options = {"solver": "appsi_highs"} if backend == "pyomo" else {}
    pytest.importorskip("gurobipy" if backend == "gurobi" else "pyomo")
    problem = compiled(fits).problem
    try:
        models = [pyepo.model.knapsackModel(WEIGHTS, CAPACITY, backend=backend, **options), problem.compile(backend, **options)]
    except Exception as error:  # a solver has many ways to be absent
        pytest.skip(f"{backend} does not run here: {error}")
    for model in models:
        cut = model.addConstr(np.ones(N), 2.0)
        assert len(feasible_set(cut).problem.weights_and_capacities[1]) == 4
        assert re.search("linear relaxation|CONTINUOUS", complaint(lambda m=model: feasible_set(m.relax())))


def test_without_pyepo_the_import_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyepo", None)
    monkeypatch.delitem(sys.modules, "movegrad.integrations.pyepo")
    with pytest.raises(ImportError, match=r"needs PyEPO.*movegrad\[pyepo\]"):
        importlib.import_module("movegrad.integrations.pyepo")


def test_the_adapter_is_found_by_its_name():
    assert mg.integrations.pyepo.as_optmodel is as_optmodel
    with pytest.raises(AttributeError, match="no attribute 'other'"):
        _ = mg.integrations.other
