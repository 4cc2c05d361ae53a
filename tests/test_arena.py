"""The arena: oracles against brute force, rivals against their definitions, the clock, verdicts, and a run that is resumed."""

from itertools import pairwise, permutations, product

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

pytest.importorskip("highspy", reason="the arena solves relaxations with HiGHS")
pytest.importorskip("pyepo", reason="the arena uses PyEPO's generators")
pytest.importorskip("pyvrp", reason="the arena has PyVRP among its rivals")

import experiments.arena.train as training
import movegrad as mg
from experiments.arena import assignment, icon, notebook, paths, prices, report, summary, vertices
from experiments.arena.board import Board, Examples, Linear, Relaxation
from experiments.arena.cache import kept
from experiments.arena.cones import Cone, binding_normals
from experiments.arena.methods import METHODS, Method
from experiments.arena.oracles import Annealer, Filling, Highs, Packing
from experiments.arena.ours import expected_regret, local_search
from experiments.arena.pivots import adjacent
from experiments.arena.registry import WARM_UP, values
from experiments.arena.rivals import decomposition, spo
from experiments.arena.routes import Routes
from experiments.arena.runs import row, too_slow
from experiments.arena.searches import PlanSearch
from experiments.arena.study import DATA, OURS, RIVALS, STUDY, Settings
from experiments.arena.tours import edge_normals, full, pieces, triangle
from experiments.arena.train import FIRST, RATIO, Config, marks, train
from experiments.arena.vertices import Vertices, program
from experiments.display import markdown
from experiments.framework import main, run_part
from experiments.store import read_record, write_arrays, write_json
from experiments.verdicts import verdict

WEIGHTS, CAPACITY = np.array([3, 5, 7, 2, 4]), 10
SETS = np.array([y for y in product((0, 1), repeat=5) if WEIGHTS @ y <= CAPACITY], float)


def small_board(**changes) -> Board:
    """Five items, one capacity."""
    rng = np.random.default_rng(0)
    exact = Packing(WEIGHTS, CAPACITY)

    def examples(n: int) -> Examples:
        theta = rng.uniform(1, 10, (n, 5))
        return Examples(np.concatenate([theta, rng.standard_normal((n, 2))], 1), theta, (theta * exact(theta)).sum(1))

    train_set = examples(20)
    labels = exact(train_set.theta)
    relaxation = Relaxation(csr_matrix(WEIGHTS[None].astype(float)), np.array([float(CAPACITY)]))
    given = {
        "name": "five items", "train": train_set, "valid": examples(10), "test": examples(10), "labels": labels,
        "solutions": labels.astype(np.uint8), "problem": mg.problems.Knapsack(WEIGHTS[None], [CAPACITY]), "relaxation": relaxation,
        "model": lambda: Linear(7, 5), "decide": exact, "oracles": {"exact": exact, "lp": Filling(WEIGHTS, CAPACITY)}, "rate": 0.1,
        "batch": 8, "extra": {"vertices": lambda: adjacent(relaxation, train_set.theta),
                              "weights": np.array([WEIGHTS, WEIGHTS[::-1]]), "limits": np.array([CAPACITY, CAPACITY]),
                              "search": lambda theta, starts, iterations, seed: exact(theta)},
    }  # fmt: skip
    return Board(**{**given, **changes})


# --- oracles --------------------------------------------------------------------------------------------------------------------


def test_packing_is_the_best_of_all_sets():
    theta = np.random.default_rng(1).normal(1.0, 2.0, (50, 5))
    found = Packing(WEIGHTS, CAPACITY)(theta)
    assert (found @ WEIGHTS <= CAPACITY).all()
    np.testing.assert_allclose((theta * found).sum(1), (theta @ SETS.T).max(1))


def plans(customers: tuple[int, ...], demands: np.ndarray, capacity: float, vehicles: int, least: int):
    """Every way to visit them by routes that fit, each as a list of the orders of its customers."""
    if not customers:
        yield []
        return
    first, others = customers[0], customers[1:]
    for choice in product((0, 1), repeat=len(others)):
        group = (first, *(c for c, taken in zip(others, choice, strict=True) if taken))
        if vehicles and len(group) >= least and sum(demands[c - 1] for c in group) <= capacity:
            rest = tuple(c for c, taken in zip(others, choice, strict=True) if not taken)
            for plan in plans(rest, demands, capacity, vehicles - 1, least):
                yield [group, *plan]


def length(route: tuple[int, ...], costs: np.ndarray) -> float:
    return float(sum(costs[a, b] for a, b in zip((0, *route), (*route, 0), strict=True)))


@pytest.mark.parametrize("least", [1, 2])
@pytest.mark.parametrize("vehicles", [2, 3, 6])
def test_routes_are_the_best_of_all_plans(vehicles, least):
    rng = np.random.default_rng([vehicles, least])
    demands = rng.uniform(1, 3, 6)
    solver = Routes(demands, 9.0, vehicles, least)
    for spread in (0.1, 1.0, 1.0, 10.0, 10.0):  # the last ones have costs of both signs, as SPO+ asks for
        costs = np.triu(1.0 + spread * rng.standard_normal((7, 7)), 1)
        costs += costs.T
        best = min(
            sum(min(length(order, costs) for order in permutations(group)) for group in plan)
            for plan in plans(tuple(range(1, 7)), demands, 9.0, vehicles, least)
        )
        found = solver.solve(costs)
        assert sorted(c for route in found for c in route) == list(range(1, 7))
        assert len(found) <= vehicles
        assert all(len(route) >= least and sum(demands[c - 1] for c in route) <= 9.0 for route in found)
        assert sum(length(tuple(route), costs) for route in found) == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("vehicles", [3, 6])
def test_a_search_from_a_plan_finds_the_best_of_few_whatever_the_signs_of_costs(vehicles):
    """With no iteration it is no worse than where it began; with many it is the best of six customers' plans."""
    rng, entry = np.random.default_rng(vehicles), triangle(7)
    demands = rng.uniform(1, 3, 6)
    problem, exact = mg.problems.CVRP(demands, 9.0, vehicles), Routes(demands, 9.0, vehicles)
    searching = PlanSearch(problem, demands, 9.0, vehicles, entry)
    theta = -1.0 - np.array([0.1, 1.0, 1.0, 10.0, 10.0])[:, None] * rng.standard_normal((5, 21))
    starts = mg.sample(problem, np.zeros((5, 21)), steps=100, seed=3, trace=0).solutions[:, 0]
    best = searching.counts([exact.solve(-np.append(one, 0.0)[entry]) for one in theta])
    began = problem.statistic(starts)
    np.testing.assert_array_equal(searching.counts([problem.decode(start) for start in starts]), began)
    begun, found = (searching(theta, starts, iterations, 0) for iterations in (0, 500))
    assert ((theta * begun).sum(1) >= (theta * began).sum(1) - 1e-3).all()
    np.testing.assert_allclose((theta * found).sum(1), (theta * best).sum(1), atol=1e-3)


def test_too_few_vehicles_are_said():
    with pytest.raises(ValueError, match="1 vehicles cannot visit all of the 3 customers"):
        Routes(np.full(3, 2.0), 5.0, 1).solve(np.ones((4, 4)) - np.eye(4))


@pytest.mark.parametrize(("n", "m"), [(2, 2), (3, 2), (3, 3)])
def test_pivots_are_right(n, m):
    problem = Vertices(*program(np.random.default_rng([n, m]), n, m))
    assert mg.check(problem).ok


def test_programs_and_relaxations_agree_with_what_is_known():
    relaxation = Relaxation(csr_matrix(WEIGHTS[None].astype(float)), np.array([float(CAPACITY)]))
    theta = np.random.default_rng(2).normal(1.0, 2.0, (20, 5))
    program = Highs(relaxation, integer=True)(theta)
    np.testing.assert_allclose((theta * program).sum(1), (theta @ SETS.T).max(1))
    linear, greedy = Highs(relaxation, integer=False)(theta), Filling(WEIGHTS, CAPACITY)(theta)
    np.testing.assert_allclose((theta * linear).sum(1), (theta * greedy).sum(1))
    assert ((theta * linear).sum(1) >= (theta * program).sum(1) - 1e-9).all()


def test_a_relaxation_without_machines_is_the_one_with_them():
    problem = mg.problems.EnergyScheduling([2, 3, 2, 4], [0, 0, 1, 0], [8, 8, 7, 8], [3.0, 1, 2, 5], [2, 3, 1, 2], [3, 4], slots=8)
    price = np.random.default_rng(3).uniform(1, 9, (10, 8))
    shared, each = (Highs(made, integer=False)(-price) for made in (icon.relaxation(problem), icon.program(problem)))
    np.testing.assert_allclose((price * shared).sum(1), (price * each).sum(1))
    program = Highs(icon.program(problem), integer=True)
    for p in price:
        schedule = icon.as_schedule(problem, program.solve(-p))
        cost = problem.statistic(schedule) @ p  # which refuses what is no schedule
        assert cost == pytest.approx(-mg.solve(problem, -p, steps=20_000, chains=4).objective)


# --- rivals ---------------------------------------------------------------------------------------------------------------------


def gradient(loss, theta: np.ndarray, index: np.ndarray) -> np.ndarray:
    predicted = torch.tensor(theta, dtype=torch.float32, requires_grad=True)
    loss(predicted, index).backward()
    return predicted.grad.numpy()


def pyepo_model():
    """The knapsack of the small board as a model of PyEPO."""
    import pyepo
    from pyepo.model.opt import optModel

    class Model(optModel):
        def __init__(self):
            self.modelSense = pyepo.EPO.MAXIMIZE
            super().__init__()

        def _getModel(self):  # noqa: N802 - the name is PyEPO's
            return None, list(range(5))

        def setObj(self, c):  # noqa: N802
            self.cost = np.asarray(c, float)

        def solve(self):
            y = Packing(WEIGHTS, CAPACITY)(self.cost[None])[0]
            return y, float(self.cost @ y)

    return Model()


def test_cave_is_that_of_pyepo():
    """Where its solver is stopped early the point depends on how the program is written: it must be PyEPO's."""
    import pyepo

    board, index = small_board(), np.arange(6)
    theta = np.random.default_rng(4).uniform(-3, 10, (6, 5))
    ours = gradient(METHODS["cave"].make(board, 0, inner=True), theta, index)
    predicted = torch.tensor(theta, dtype=torch.float32, requires_grad=True)
    normals = [binding_normals(board, i).toarray() for i in range(6)]
    padded = torch.zeros(6, max(map(len, normals)), 5)
    for rows, found in zip(padded, normals, strict=True):
        rows[: len(found)] = torch.from_numpy(found)
    pyepo.func.coneAlignedCosine(pyepo_model())(predicted, padded).backward()
    assert np.abs(ours).max() > 1e-3
    np.testing.assert_allclose(ours, predicted.grad.numpy(), atol=1e-6)


def test_spo_is_that_of_pyepo():
    import pyepo

    board, index = small_board(), np.arange(6)
    theta = np.random.default_rng(4).uniform(1, 10, (6, 5))
    ours = gradient(spo(board, 0, "exact"), theta, index)
    predicted = torch.tensor(theta, dtype=torch.float32, requires_grad=True)
    truth = (
        torch.tensor(a, dtype=torch.float32) for a in (board.train.theta[index], board.labels[index], board.train.best[index, None])
    )
    pyepo.func.SPOPlus(pyepo_model())(predicted, *truth).backward()
    np.testing.assert_allclose(ours, predicted.grad.numpy(), atol=1e-6)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_has_as_many_configurations_and_leads_to_better_decisions(name):
    """Steps along its gradient, from predictions that know nothing, lower the mean regret; steps against it do not."""
    guided = mg.problems.Knapsack(WEIGHTS[None], [CAPACITY], moves=("guided swap", "guided flip"))
    method, board = METHODS[name], small_board(guided=guided)
    assert len({config.key for config in method.grid}) == len(method.grid)
    assert len(method.grid) in (9, 10)
    assert method.default in method.grid
    assert not method.missing(board)
    options = dict(method.default.options)
    if name.startswith("reinforce"):  # little noise changes no decision, and there is nothing to see
        options |= {"noise": 1.0, "samples": 50}
    index = np.arange(20)
    begin = np.random.default_rng(8).uniform(1, 10, (20, 5))

    def lost(sign: float) -> float:
        made, theta = method.make(board, 0, **options), begin.copy()
        for _ in range(60):
            g = gradient(made, theta, index)
            theta -= sign * 0.3 * g / max(np.abs(g).max(), 1e-12)
        return float(board.train.regret(board.decide(theta)).mean())

    assert lost(1.0) < 0.6 * board.train.regret(board.decide(begin)).mean()
    assert lost(-1.0) > lost(1.0)


def test_every_method_can_be_asked_for_and_has_a_look_of_its_own():
    assert sorted(OURS + RIVALS) == sorted(METHODS)
    looks = [report.look("", report.Entry(name, "tuned", ())) for name in OURS + RIVALS]
    assert len({(str(look["color"]), str(look.get("linestyle"))) for look in looks}) == len(METHODS)


@pytest.mark.parametrize("name", [name for name in METHODS if name.endswith("-anchored")])
def test_an_anchor_adds_the_gradient_of_least_squares(name):
    """(θ − c) / deviation of c, times its weight, in the mean over the batch, to the loss it is named after."""
    board, index, bare = small_board(), np.arange(6), METHODS[name.removesuffix("-anchored")]
    theta, true = np.random.default_rng(4).uniform(1, 10, (6, 5)), board.train.theta
    options = {key: value for key, value in METHODS[name].default.options.items() if key != "anchor"}
    found = gradient(METHODS[name].make(board, 0, **options, anchor=0.7), theta, index)
    expected = gradient(bare.make(board, 0, **options), theta, index) + 0.7 * (theta - true[index]) / true.std() / 6
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_the_regret_follows_the_warm_up_and_its_gradient_is_that_of_the_exact_mean():
    """−Cov(T, ⟨c, T⟩) / t over all knapsacks, in the mean over the batch, from the first example after the warm-up on.

    Chains have 200,000 steps on at most 32 solutions; a gradient that is off by a tenth of the norm is wrong.
    """
    board, index, theta = small_board(), np.arange(6), np.random.default_rng(4).uniform(1, 10, (6, 5))
    loss, before, t = expected_regret(board, 0, 200_000, 1.0), local_search(board, 0, 200_000, 0.5, costs=True), board.scale
    first = gradient(loss, theta, index)
    np.testing.assert_array_equal(first, gradient(before, theta, index))
    rest = np.zeros(WARM_UP * len(board.labels) - 6, int)
    loss(torch.zeros(len(rest), 5), rest)
    found = gradient(loss, theta, index)
    for i in range(6):
        weight = np.exp((SETS @ theta[i] - (SETS @ theta[i]).max()) / t)
        weight /= weight.sum()
        worth, mean = SETS @ board.train.theta[i], weight @ SETS
        expected = -(weight * (worth - weight @ worth)) @ (SETS - mean) / t / 6
        assert np.abs(found[i] - expected).max() < 0.1 * np.linalg.norm(expected)
        assert np.abs(first[i] - expected).max() > 0.1 * np.linalg.norm(expected)


def test_what_a_board_lacks_is_said():
    board = small_board(oracles={}, relaxation=None, extra={})
    missing = {name for name, method in METHODS.items() if method.missing(board)}
    assert missing >= {"spo", "spo-lp", "cave", "lava", "dfl-ld", "ours-guided"}
    assert not METHODS["ours"].missing(board)


def test_a_true_cost_lies_in_the_cone_of_its_path():
    board = paths.board(0)
    for i in range(5):
        theta, cone = board.train.theta[i], Cone(binding_normals(board, i))
        np.testing.assert_allclose(cone.project(theta, inner=False), theta, atol=1e-6 * np.abs(theta).max())
        wrong = cone.project(-theta, inner=False)
        assert np.linalg.norm(wrong + theta) > 0.01 * np.linalg.norm(theta)


def plans_of(customers, demands, capacity, vehicles, least):
    """Edges (0/1) of all plans, by listing routes: nothing of the arena in it."""
    order = {(i, j): k for k, (i, j) in enumerate((i, j) for j in range(1, customers + 1) for i in range(j))}
    out = []

    def extend(left, routes):
        if not left:
            edges = np.zeros(len(order))
            for route in routes:
                for a, b in pairwise([0, *route, 0]):
                    edges[order[min(a, b), max(a, b)]] += 1
            out.append(edges)
        if left and len(routes) < vehicles:
            for size in range(least, len(left) + 1):
                for others in permutations(left[1:], size - 1):
                    for at in range(size):  # the first one that is left, anywhere in the route
                        route = [*others[:at], left[0], *others[at:]]
                        if demands[np.array(route) - 1].sum() <= capacity:
                            extend([i for i in left if i not in route], [*routes, route])

    extend(list(range(1, customers + 1)), [])
    return np.unique(out, axis=0)


@pytest.mark.parametrize("vehicles", [2, 3])
@pytest.mark.parametrize("cuts", [False, True])
def test_a_cone_of_a_plan_holds_no_cost_for_which_it_is_not_best(vehicles, cuts):
    """A sum of the normals prefers the label to every other plan; the depot is no equation where not all vehicles leave it."""
    demands = np.array([14.0, 9.0, 12.0, 8.0, 6.0, 7.0])  # 56 of 30 for each: two routes or three
    problem, every = mg.problems.CVRP(demands, 30, vehicles, singles=False), plans_of(6, demands, 30.0, vehicles, 2)
    assert len({edges[[0, 1, 3, 6, 10, 15]].sum() for edges in every}) == vehicles - 1  # routes that leave the depot
    states = np.array(list(problem.states()))
    found = problem.statistic(states)
    for label in every[np.random.default_rng(0).choice(len(every), 20, replace=False)]:
        plan = problem.routes(states[(found == label).all(1)][0])
        inside = pieces(plan) if cuts else [route for route in plan if len(route) > 1]
        normals = edge_normals(7, label, inside + full(plan, demands), vehicles)
        assert (normals @ (every - label).T).max() < 1e-9


def test_adjacent_vertices_are_feasible_and_no_better():
    rng = np.random.default_rng(5)
    rows = rng.uniform(0, 1, (3, 8))
    relaxation = Relaxation(csr_matrix(rows), rows.sum(1) / 3)
    theta = rng.uniform(0.1, 1, (6, 8))
    vertices, best = adjacent(relaxation, theta)
    for found, x, t in zip(vertices, best, theta, strict=True):
        assert len(found) == 8  # as many as there are columns beside the basis
        assert (found @ rows.T <= rows.sum(1) / 3 + 1e-9).all()
        assert ((found > -1e-9) & (found < 1 + 1e-9)).all()
        assert (found @ t <= x @ t + 1e-9).all()


def test_paths_beside_a_path_leave_it_once():
    exact = paths.AllPaths(mg.problems.ShortestPath((3, 3)))
    for k in range(6):
        beside = exact.beside(k)
        assert 0 < len(beside) < 6
        assert not (beside == exact.arcs[k]).all(1).any()


def test_relaxed_spo_compares_with_relaxed_optima():
    """Also where an example comes again, and its relaxed optimum is known."""
    board = small_board()
    solve, true = board.oracles["lp"], board.train.theta
    loss, predicted = spo(board, 0, oracle="lp"), np.random.default_rng(2).uniform(1, 10, (4, 5))
    for index in (np.arange(4), np.arange(2, 6)):
        wanted = 2.0 * (solve(2.0 * predicted - true[index]) - solve(true[index])) / len(index)
        np.testing.assert_allclose(gradient(loss, predicted, index), wanted, atol=1e-6)


def test_multipliers_bound_the_best_value_from_above():
    """The decomposition's first knapsack, with multipliers, is worth at least what both together can be."""
    board = small_board()
    loss = decomposition(board, 0, iterations=50)
    g = gradient(loss, board.train.theta[:4], np.arange(4))
    np.testing.assert_allclose(g, 0.0, atol=1e-6)  # at the true values the first knapsack is solved right


# --- training -------------------------------------------------------------------------------------------------------------------


def test_marks_grow_by_a_ratio_and_end_at_the_limit():
    found = marks(1.0)
    assert found[0] == FIRST
    assert found[-1] == 1.0
    np.testing.assert_allclose(np.diff(np.log(found[:-1])), np.log(RATIO))
    assert marks(FIRST) == [FIRST]


def steps_of_a_fifth_of_a_second(monkeypatch):
    """Least squares on a clock of our own."""
    now = [0.0]
    monkeypatch.setattr(training, "process_time", lambda: now[0])

    def make(board, seed):
        def loss(predicted, index):
            now[0] += 0.2
            return torch.nn.functional.mse_loss(predicted, torch.from_numpy(board.train.theta[index]).float())

        return loss

    return make


def test_what_is_shown_at_a_time_was_there_at_that_time(monkeypatch):
    """Before the first step ends, the model is the one that it began with."""
    board = small_board()
    run = train(board, steps_of_a_fifth_of_a_second(monkeypatch), Config(), 0, 1.0)
    for seconds, epochs in zip(run.seconds, run.epochs, strict=True):
        steps = round(epochs * 20 / 8 * 1e6) / 1e6
        assert (steps > 0) == (seconds > 0.2 + 1e-9)
    torch.manual_seed(0)
    first = board.model().state_dict()
    assert all(torch.equal(run.models[0][name], first[name]) for name in first)


def test_who_ends_no_step_in_a_tenth_of_the_time_is_tuned_with_all_of_it(monkeypatch):
    """In a tenth of a second both rates look alike, in a second the one that learns is chosen."""
    make = steps_of_a_fifth_of_a_second(monkeypatch)
    slow = Method("slow", "slow", make, Config(1.0), (Config(1e-6), Config(10.0)))
    settings = Settings(("b",), ("slow",), 1, 1.0, 0.1, (1.0,), False, ())
    found = row(lambda name: small_board(), "b", slow, settings)
    assert found["chosen"] == "rate=10"
    assert len(set(found["grid"].values())) == 2


def test_ours_learns_on_a_small_board():
    board = small_board()
    run = train(board, METHODS["ours"].make, METHODS["ours"].default, 0, 0.5)
    torch.manual_seed(0)
    assert run.valid[run.best[-1]] < 0.5 * board.validated(board.model())  # not the first checkpoint, which may have learned all
    assert run.best[-1] == int(np.argmin(run.valid))


# --- boards ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda tmp: prices.board(None, 60, 0), id="prices"),
        pytest.param(lambda tmp: paths.board(1), id="path"),
        pytest.param(lambda tmp: vertices.board(0), id="lp", marks=pytest.mark.slow),
        pytest.param(lambda tmp: assignment.one_machine(1, 0, tmp), id="machine", marks=pytest.mark.slow),
        pytest.param(lambda tmp: assignment.generalized(1, 0, tmp), id="gap", marks=pytest.mark.slow),
        pytest.param(lambda tmp: icon.board(None, 1, 0, tmp), id="icon", marks=pytest.mark.slow),
    ],
)
def test_labels_are_solutions_and_nothing_is_better(make, tmp_path):
    board = make(tmp_path)
    np.testing.assert_allclose(board.problem.statistic(board.solutions), board.labels)
    assert np.allclose(board.train.regret(board.labels), 0.0, atol=1e-9)
    assert board.scale > 0
    found = board.decide(board.test.theta[:5])
    part = Examples(board.test.features[:5], board.test.theta[:5], board.test.best[:5])
    assert (part.regret(found) > -2e-4).all()
    assert board.model()(torch.from_numpy(board.train.features[:2].astype(np.float32))).shape == (2, board.size)


@pytest.mark.slow
@pytest.mark.parametrize(("make", "times"), [(assignment.one_machine, 10), (assignment.generalized, 100)])
def test_larger_boards_are_judged_by_relaxed_optima(make, times, tmp_path, monkeypatch):
    """Labels have integers and are near the bound; decisions at true θ lose nothing where they are relaxed."""
    monkeypatch.setitem(assignment.COUNTS, times, (2, 1, 2))
    board = make(times, 0, tmp_path)
    np.testing.assert_allclose(board.problem.statistic(board.solutions), board.labels)
    bound = (board.oracles["lp"](board.train.theta) * board.train.theta).sum(1)
    assert (board.train.best <= bound + 1e-6 * np.abs(bound)).all()
    assert (board.train.best >= bound - 0.02 * np.abs(bound)).all()
    regret = board.test.regret(board.decide(board.test.theta))
    assert (np.abs(regret) < (1e-6 if times == 100 else 1e-2)).all()


def test_generated_knapsacks_are_those_of_the_authors():
    """DFL-LD's set with 10 constraints and 100 items, bit for bit."""
    from pyepo.data.knapsack import genData

    path = DATA / "dfl-ld" / "mkp_c10_n100_deg4.npz"
    if not path.exists():
        pytest.skip("the authors' files are not here")
    weights, features, values = genData(1300, 12, 100, 10, deg=4, noise_width=0.5, seed=42)
    with np.load(path) as file:
        np.testing.assert_array_equal(weights.astype(int), file["weights"])
        np.testing.assert_array_equal(features[:200], file["train_Z"])
        np.testing.assert_array_equal(values[300:].astype(int), file["test_c"])
        assert (0.5 * weights.astype(int).sum(1)).astype(int).tolist() == file["capacities"].tolist()


# --- reports --------------------------------------------------------------------------------------------------------------------


def made_up(level: float, spread: float, rng: np.random.Generator, first: float | None = 0.05) -> dict:
    test = {"1": (level + spread * rng.standard_normal((5, 40))).tolist()}
    ran = {"prepared": 0.0, "seconds": [[0.05, 1.0]] * 5, "valid": [[level + 0.1, level]] * 5, "epochs": [1.0] * 5}
    ran |= {"first": [first] * 5, "test": test}
    return {"title": "a board", "grid": {}, "chosen": "tuned", "default": ran, "tuned": ran}


def outcome(rows: dict) -> str:
    """The verdict of the summary on ours against the rival, both chosen on validation."""
    found = report.entries(rows, "b")
    mine, rival = (report.best([entry for entry in found if entry.ours == side], 1.0) for side in (True, False))
    return summary.judged(mine, rival, 1.0)[1]


def test_verdicts_follow_the_intervals():
    rng = np.random.default_rng(6)
    rows = {"b ours": made_up(0.05, 0.01, rng), "b spo": made_up(0.10, 0.01, rng), "b mse": made_up(0.2, 0.01, rng)}
    assert outcome(rows) == "ahead"
    rows["b spo"] = made_up(0.05, 0.01, rng)
    assert outcome(rows) == "undecided"
    rows["b spo"] = made_up(0.01, 0.01, rng)
    assert outcome(rows) == "behind"


def test_a_rival_may_have_more_time():
    """Ours after 1 s against the rival after 3 s, when it has 0.01 instead of 0.10; who is made of our moves does not count."""
    rng = np.random.default_rng(6)
    rows = {"b ours": made_up(0.05, 0.01, rng), "b spo": made_up(0.10, 0.01, rng), "b spo-warm": made_up(0.001, 0.001, rng)}
    for made in rows.values():
        made["tuned"]["test"]["3"] = made["tuned"]["test"]["1"]
    rows["b spo"]["tuned"]["test"]["3"] = made_up(0.01, 0.01, rng)["tuned"]["test"]["1"]
    kind = summary.Kind("a board", (1.0, 3.0), 5, ["b"], rows)
    mean, _, word, median, rival = summary.handicapped(kind, 1.0, 3.0).split(" ")
    assert (word, rival) == ("behind,", "(SPO+)")
    assert abs(float(mean) - 4.0) < 0.5
    assert abs(float(median) - 4.0) < 0.5
    assert summary.handicapped(kind, 1.0, 1.0).split(" ")[2] == "ahead,"


def test_a_rival_that_has_not_trained_is_not_beaten():
    rng = np.random.default_rng(7)
    rows = {"b ours": made_up(0.05, 0.01, rng), "b spo": made_up(0.9, 0.01, rng, first=None)}
    assert outcome(rows) == "alone"


def test_a_rival_that_has_not_learned_is_not_beaten():
    """It began with 1.05 and has 0.95 after its first step at 1 s: above nine tenths; one with 0.5 has learned."""
    rng = np.random.default_rng(7)
    rows = {"b ours": made_up(0.05, 0.01, rng), "b spo": made_up(0.95, 0.01, rng, first=1.0)}
    assert outcome(rows) == "alone"
    kind = summary.Kind("a board", (1.0,), 5, ["b"], rows)
    assert summary.duel(kind, "spo") == report.NOTHING
    rows["b spo"] = made_up(0.5, 0.01, rng, first=1.0)
    assert outcome(rows) == "ahead"
    assert summary.duel(kind, "spo").endswith("ahead")
    assert summary.duel(kind, "mse") == "–"


def test_a_rival_whose_first_step_takes_too_long_is_not_trained():
    def slow(theta):
        begin = training.process_time()
        while training.process_time() < begin + 0.05:
            pass
        return np.zeros(theta.shape)

    board = small_board(oracles={"exact": slow})
    assert too_slow(board, METHODS["spo"], 0.1) == "its first step takes about 0 s"
    assert too_slow(board, METHODS["spo"], 10.0) == ""
    assert too_slow(board, METHODS["ours"], 0.1) == ""
    assert too_slow(board, METHODS["nce"], 0.1) == "", "it solves for one batch of twenty"


def test_data_sets_of_one_kind_are_judged_together():
    """What is ahead on one and behind on the other is undecided on both; who trained on one alone is not among those on both."""
    rng = np.random.default_rng(8)
    rows = {f"{b} {method}": made_up(level, 0.01, rng) for b, method, level in
            [("b", "ours", 0.05), ("b", "spo", 0.10), ("c", "ours", 0.10), ("c", "spo", 0.05), ("c", "mse", 0.01)]}  # fmt: skip
    found = report.entries(rows, "b", "c")
    mine, spo = found[0], next(entry for entry in found if entry.method == "spo")
    assert "mse" not in {entry.method for entry in found}
    assert mine.regrets(1.0).shape == (5, 80)
    assert mine.validated(1.0) == pytest.approx(0.075)
    assert verdict(report.compared(mine, spo, 1.0)) == "undecided"
    one = report.entries(rows, "b")
    assert verdict(report.compared(one[0], next(e for e in one if e.method == "spo"), 1.0)) == "ahead"


def test_growth_tells_the_work_of_an_example_or_why_there_is_none():
    rng = np.random.default_rng(9)
    rows = {"gap-10-0 ours": made_up(0.05, 0.0, rng), "gap-10-0 mse": made_up(0.05, 0.0, rng, first=None)}
    rows["gap-10-0 spo"] = {"title": "GAP", "missing": "its first step takes about 99 s"}
    kind = summary.Kind("GAP", (1.0,), 5, ["gap-10-0"], rows)
    assert summary.grown(kind, "ours") == "5 ms; 5.00 %"  # an epoch of 200 examples in the second that a run lasts
    assert summary.grown(kind, "mse") == report.NOTHING
    assert summary.grown(kind, "spo") == "its first step takes about 99 s"
    assert summary.grown(kind, "cave") == "–"
    assert [summary.epoch(kind, method) for method in ("ours", "mse", "spo", "cave")] == ["1", "–", "–", "–"]


def test_files_of_a_part_are_summed_up_together(tmp_path):
    words = ["--only", "linear", "--methods", "ours", "mse", "--seeds", "2", "--limit", "0.1", "--data", "generated"]
    main(STUDY, [*words, "--boards", "path-0", "--out", str(tmp_path / "results")])
    main(STUDY, [*words, "--boards", "path-1", "--out", str(tmp_path / "results" / "more")])
    (kind,) = summary.kinds(tmp_path / "results")
    assert kind.name == "shortest path 5 × 5, 2 data sets"
    assert kind.boards == ["path-0", "path-1"]
    assert kind.entries[0].regrets(0.1).shape == (2, 2 * paths.TEST)


def test_what_cannot_be_summed_up_is_said_in_a_sentence(tmp_path):
    with pytest.raises(SystemExit, match="holds no results of icon, cvrp"):
        summary.main([str(tmp_path)])
    words = ["--only", "linear", "--methods", "dfl-ld", "--seeds", "2", "--limit", "0.1", "--data", "generated"]
    main(STUDY, [*words, "--boards", "path-0", "--out", str(tmp_path)])  # nothing but why it is not there
    with pytest.raises(SystemExit, match="holds no results of icon, cvrp"):
        summary.main([str(tmp_path)])
    for settings in ({}, {"boards": 3}):
        write_json(tmp_path / "linear.json", {"settings": settings, "rows": {}})
        with pytest.raises(SystemExit, match=r"linear\.json is damaged"):
            summary.main([str(tmp_path)])


def test_a_run_is_resumed_and_shown(tmp_path, capsys):
    words = ["--only", "prices", "--methods", "ours", "mse", "--seeds", "2", "--limit", "0.1", "--out", str(tmp_path / "out")]
    words += ["--data", "generated"]
    main(STUDY, words)
    first = (tmp_path / "out" / "prices.json").read_text()
    assert "movegrad, labels, default" in capsys.readouterr().out
    main(STUDY, words)
    assert (tmp_path / "out" / "prices.json").read_text() == first
    assert (tmp_path / "out" / "prices.png").exists()


def test_rows_of_several_parts_are_computed_in_processes(tmp_path):
    words = ["--only", "prices", "linear", "--boards", "prices-120-0", "path-0", "--methods", "mse", "--seeds", "1"]
    main(STUDY, [*words, "--limit", "0.1", "--workers", "2", "--data", "generated", "--out", str(tmp_path / "out")])
    for part, board in (("prices", "prices-120-0"), ("linear", "path-0")):
        record = read_record(tmp_path / "out" / f"{part}.json")
        assert list(record.rows) == [f"{board} mse"]
        assert record.rows[f"{board} mse"]["seconds"] > 0
    before = (tmp_path / "out" / "linear.json").read_text()
    main(STUDY, [*words, "--limit", "0.1", "--workers", "1", "--data", "generated", "--out", str(tmp_path / "out")])
    assert (tmp_path / "out" / "linear.json").read_text() == before


def test_the_notebook_sees_each_example_once_an_epoch_and_tests_the_last_model(monkeypatch, tmp_path, capsys):
    seen, board = [], small_board()

    def make(board: Board, seed: int):
        def at(predicted, index):
            seen.extend(index.tolist())
            return -(predicted * torch.from_numpy(board.labels[index]).float()).sum(1).mean()

        return at

    plan = notebook.Plan("one", (1, 3))
    monkeypatch.setitem(METHODS, "one", Method("one", "one", make, Config(), ()))
    made = notebook.learned(board, plan, 0, board.test)
    assert np.bincount(seen[2:]).tolist() == [3] * 20, "two more outside the clock"
    assert 0 < made["clock"]["1"] < made["clock"]["3"]
    assert np.mean(made["test"]["3"]) < np.mean(made["test"]["1"])
    assert notebook.learned(board, plan, 0, board.test)["test"] == made["test"]
    assert len(notebook.learned(board, plan, 0, board.valid)["test"]["3"]) == len(board.valid.theta)

    monkeypatch.setattr(notebook, "PLANS", {"movegrad": plan, "rival": plan})
    monkeypatch.setattr(notebook, "OURS", ("movegrad",))
    monkeypatch.setattr(notebook, "RIVALS", ("rival",))
    monkeypatch.setattr(notebook, "NOTEBOOKS", 1)
    monkeypatch.setattr(notebook.tours, "cvrp", lambda *_, **__: board)
    for seeds in (1, 3):  # rows of more seeds join those of the first
        run_part(notebook.part(tmp_path, ("one",), range(seeds)), tmp_path, show=lambda table: print(markdown(table)))
    printed = capsys.readouterr().out
    assert "| movegrad | rival | 1, 1 | 3 | 0.00 ±0.00 | undecided |" in printed
    assert "| movegrad | 3 * | 3 |" in printed, "the more epochs, the better, on those left out, too"
    assert "| movegrad | rival | 3, 3 | 3 | 0.00 ±0.00 | undecided |" in printed
    assert len(read_record(tmp_path / "notebook.json").rows) == 12


WRONG = {"--boards": "nowhere", "--methods": "magic", "--limit": "-1", "--seeds": "0", "--workers": "0", "--data": "nowhere"}


@pytest.mark.parametrize("option", WRONG)
def test_what_makes_no_sense_is_refused_in_a_sentence(option, tmp_path):
    with pytest.raises(SystemExit, match=f"{option} must .*, got {WRONG[option]}"):
        main(STUDY, [option, WRONG[option], "--out", str(tmp_path)])


def test_any_data_set_can_be_named_and_seeds_begin_where_they_are_told_to(tmp_path):
    words = ["--methods", "mse", "--seeds", "1", "--limit", "0.1", "--boards", "prices-120-5", "--data", "generated"]
    for seed in ("0", "7"):
        main(STUDY, [*words, "--seed", seed, "--only", "prices", "--out", str(tmp_path / seed)])
    first, other = (read_record(tmp_path / seed / "prices.json").rows["prices-120-5 mse"] for seed in ("0", "7"))
    assert first["tuned"]["valid"] != other["tuned"]["valid"]
    for other in ("icon", "notebook"):
        with pytest.raises(SystemExit, match=f"Nothing of {other} is left to compute"):
            main(STUDY, [*words, "--only", other, "--out", str(tmp_path / "none")])
    with pytest.raises(SystemExit, match=r"knapsack48\.npz is missing"):
        main(STUDY, [*words[:-1], str(tmp_path), "--only", "prices", "--out", str(tmp_path / "none")])


def test_labels_of_other_data_are_not_taken(tmp_path):
    calls = []

    def label(theta: np.ndarray) -> np.ndarray:
        calls.append(len(theta))
        return theta > 0

    one, path = np.array([1.0, -1.0]), tmp_path / "labels.npz"
    for theta in (one, one, -one, -one):
        np.testing.assert_array_equal(kept(path, "y", theta, lambda theta=theta: label(theta)), theta > 0)
    assert calls == [2, 2], "once for each"
    write_arrays(path, {"x": one})
    with pytest.raises(ValueError, match="has no 'y'"):
        kept(path, "y", one, lambda: label(one))


def test_all_methods_are_listed():
    assert set(OURS) | set(RIVALS) == set(METHODS)
    assert values(torch.ones(2, 3)).dtype == np.float64
    assert Annealer(mg.problems.TopK(4, 2), 100)(np.eye(4)).shape == (4, 4)


def test_the_picture_has_two_lines_of_ours():
    """What validation chooses and what a user gets; rivals as ever."""
    kind = summary.kinds(summary.FOLDER)[0]
    time, found = kind.times[-1], kind.entries
    lines = report.two_of_ours(found, time)
    assert [title for title, entry in lines.items() if entry.ours] == [report.DEFAULT, report.CHOSEN]
    assert lines[report.CHOSEN].validated(time) == min(entry.validated(time) for entry in found if entry.ours)
    assert (lines[report.DEFAULT].method, lines[report.DEFAULT].variant) == ("ours", "default")
    assert {entry.method for entry in lines.values() if not entry.ours} == {entry.method for entry in found if not entry.ours}
    assert report.look(report.CHOSEN, lines[report.CHOSEN]) != report.look(report.DEFAULT, lines[report.DEFAULT])
