"""Tours: proposals from candidate lists are exact, θ may be a matrix, and annealing finds the shortest."""

import pickle
from itertools import permutations

import numpy as np
import pytest

import movegrad as mg
from movegrad.engine import pure
from movegrad.problems import CVRP, TSP
from movegrad.problems.tsp import nearest_first
from tests.slow import slow_but_for

LINE = np.abs(np.subtract.outer(np.arange(5.0), np.arange(5.0)))
SETTINGS = {
    "3 cities": TSP(3),
    "3 cities, uniform": TSP(3, neighbors=0),
    "4 cities": TSP(4),
    "4 cities, 1 neighbor": TSP(4, neighbors=1),
    "5 cities, 2 neighbors": TSP(5, neighbors=2),
    "5 cities, uniform": TSP(5, neighbors=0),
    "5 cities, lists": TSP(5, neighbors=TSP.nearest(LINE, 2), share=0.5),
    "5 cities, 2-opt": TSP(5, neighbors=2, moves=["2-opt"]),
    "5 cities, or-opt": TSP(5, neighbors=3, moves=["or-opt"], share=0.3),
    "6 cities": TSP(6, neighbors=2, weights=[3.0, 1.0]),
    "3 cities, arcs": TSP(3, True),
    "4 cities, arcs, 1 neighbor": TSP(4, True, neighbors=1),
    "5 cities, arcs": TSP(5, True, neighbors=2),
    "5 cities, arcs, uniform": TSP(5, True, neighbors=0),
    "5 cities, arcs, lists": TSP(5, True, neighbors=TSP.nearest(LINE, 3), moves=["exchange"]),
}
FAST = ("3 cities", "4 cities, 1 neighbor", "5 cities, 2 neighbors", "5 cities, lists", "3 cities, arcs", "5 cities, arcs")


def distances(n: int, seed: int = 0) -> np.ndarray:
    places = np.random.default_rng(seed).random((n, 2))
    return np.linalg.norm(places[:, None] - places, axis=-1)


def brute(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All tours from 0 on, and their lengths: nothing of movegrad in it."""
    tours = np.array([(0, *rest) for rest in permutations(range(1, len(matrix)))])
    return tours, matrix[tours, np.roll(tours, -1, 1)].sum(1)


def greedy(problem: TSP, theta: np.ndarray) -> np.ndarray:
    """What it builds, in plain Python."""
    state = problem.state._make(a.copy() for a in problem.state)
    pure(problem.functions.greedy)(problem.data, theta, state)
    return state.y


@pytest.mark.parametrize("name", slow_but_for(FAST, SETTINGS))
def test_moves_are_proved(name):
    problem = SETTINGS[name]
    report = mg.check(problem, temperatures=(0.3, 2.0), compiled=False).raise_if_wrong()
    assert report.complete
    assert bool(report.depends_on_theta) <= problem.guided


@pytest.mark.parametrize("name", slow_but_for(["5 cities, 2 neighbors"], ["5 cities, 2 neighbors", "5 cities, arcs"]))
def test_the_compiled_chain_is_the_proved_one(name):
    mg.check(SETTINGS[name]).raise_if_wrong()


@pytest.mark.parametrize("asymmetric", [False, True])
def test_the_law_is_that_of_all_tours(asymmetric):
    """Against tours listed here, in which undirected edges are counted by hand."""
    rng = np.random.default_rng(3)
    matrix = rng.normal(size=(6, 6)) if asymmetric else distances(6)
    problem, t = TSP(6, asymmetric, neighbors=2), 0.7
    tours, lengths = brute(matrix)
    law = np.exp(-lengths / t)
    used = np.zeros((6, 6))
    for tour, p in zip(tours, law / law.sum(), strict=True):
        for a, b in zip(tour, np.roll(tour, -1), strict=True):
            used[a, b] += p
            used[b, a] += 0.0 if asymmetric else p
    exact = problem.matrix(mg.exact.marginals(problem, problem.theta(-matrix), t))
    np.testing.assert_allclose(exact, used, atol=1e-12)


@pytest.mark.parametrize("asymmetric", slow_but_for([False], [False, True]))
def test_chains_match_exact_marginals(asymmetric):
    problem, t, chains = TSP(7, asymmetric, neighbors=3), 0.3, 64
    rng = np.random.default_rng(1)
    theta = problem.theta(-rng.random((7, 7)) if asymmetric else -distances(7))
    means = mg.sample(problem, np.broadcast_to(theta, (chains, len(theta))), steps=20_000, temperature=t, trace=0).mean
    error = means.std(0, ddof=1) / np.sqrt(chains)
    exact = mg.exact.marginals(problem, theta, t)
    used = exact > 1e-3
    assert np.abs((means.mean(0) - exact)[used] / error[used]).max() < 6.0  # Student with 63 degrees of freedom: 1e-6 for ≤ 49


@pytest.mark.parametrize("asymmetric", [False, True])
def test_solve_finds_the_shortest_tour(asymmetric):
    for seed in range(3):
        matrix = np.random.default_rng(seed).random((7, 7)) if asymmetric else distances(7, seed)
        problem = TSP(7, asymmetric)
        found = mg.solve(problem, problem.theta(-matrix), steps=20_000)
        assert found.objective == pytest.approx(-brute(matrix)[1].min())
        assert sorted(found.tour) == list(range(7))
        assert found.tour[0] == 0


def test_greedy_goes_to_the_nearest_city_and_then_improves():
    problem, far = TSP(40), distances(40)
    state = problem.state._make(a.copy() for a in problem.state)
    pure(nearest_first)(problem.theta(-far), state, 0)
    left, tour = set(range(1, 40)), [0]
    while left:
        tour.append(min(left, key=lambda c: far[tour[-1], c]))
        left.remove(tour[-1])
    assert state.y.tolist() == tour
    built = greedy(problem, problem.theta(-far))
    assert far[built, np.roll(built, -1)].sum() < 0.95 * far[tour, np.roll(tour, -1)].sum()


@pytest.mark.parametrize("asymmetric", slow_but_for([False], [False, True]))
def test_local_search_ends_where_no_move_with_near_cities_gains(asymmetric):
    problem = TSP(12, asymmetric, neighbors=0)
    matrix = np.random.default_rng(2).random((12, 12)) if asymmetric else distances(12)
    theta = problem.theta(-matrix)
    built = greedy(problem, theta)
    cold = mg.sample(TSP(12, asymmetric, neighbors=0, moves=["or-opt"]), theta, steps=20_000, temperature=1e-9, start=built[None])
    assert matrix[cold.solutions[0], np.roll(cold.solutions[0], -1)].sum() == pytest.approx(matrix[built, np.roll(built, -1)].sum())


def test_positions_and_lists_are_kept_over_many_steps():
    from movegrad.engine import HOST, Begin, Settings, shared_batch

    problem, far = TSP(60), distances(60)
    begin = Begin(problem.solution, np.zeros(1, np.int64))
    batch = shared_batch(HOST, problem, problem.theta(-far)[None])
    result = HOST.execute(batch, Settings(steps=100_000, temperature=0.1), begin, np.arange(1))
    state = problem.state._make(result.chains.states)
    assert sorted(state.y.tolist()) == list(range(60))
    np.testing.assert_array_equal(state.pos[state.y], np.arange(60))
    np.testing.assert_array_equal(state.near.reshape(60, -1), TSP.nearest(far))
    assert result.chains.counts[0, :2, 1].min() > 1_000


def test_theta_and_matrix_are_inverse():
    far = distances(5)
    problem = TSP(5)
    np.testing.assert_array_equal(problem.matrix(problem.theta(far)), far)
    assert problem.theta(far)[3] == far[3, 0]  # row 3 of the lower triangle begins at 3
    directed, arcs = TSP(5, True), np.arange(25.0).reshape(5, 5)
    np.testing.assert_array_equal(directed.matrix(directed.theta(arcs)), arcs * ~np.eye(5, dtype=bool))  # no arc leads to itself


def test_theta_of_a_tensor_passes_gradients():
    torch = pytest.importorskip("torch")
    matrix = torch.ones(2, 5, 5, dtype=torch.float64, requires_grad=True)
    TSP(5).theta(matrix).sum().backward()
    assert matrix.grad.sum() == 2 * 10
    assert TSP(5).matrix(torch.ones(2, 10)).shape == (2, 5, 5)


def test_tours_may_begin_anywhere():
    problem = TSP(4)
    assert problem.encode([2, 3, 0, 1]).tolist() == [0, 1, 2, 3]
    assert problem.encode([[1, 0, 2, 3], [3, 2, 1, 0]]).tolist() == [[0, 2, 3, 1], [0, 3, 2, 1]]
    assert problem.decode(problem.encode([2, 3, 0, 1])) == [0, 1, 2, 3]
    same = [mg.sample(problem, np.zeros(6), steps=10, start=start).mean for start in ([2, 3, 0, 1], np.arange(4))]
    np.testing.assert_array_equal(*same)


@pytest.mark.parametrize(
    ("start", "reason"),
    [
        ([0, 1, 2, 2], "city 2 is visited 2 times"),
        ([0, 1, 2, 4], "cities must be in 0..3, got 4"),
        (np.array([1, 0, 2, 3]), "an array must begin with city 0, not 1; a list may begin anywhere"),
    ],
)
def test_what_is_no_tour_is_told(start, reason):
    with pytest.raises(ValueError, match=reason):
        mg.sample(TSP(4), np.zeros(6), steps=1, start=start)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: TSP(2), r"n must be .*3.*, got 2\."),
        (lambda: TSP(5, "yes"), r"asymmetric must be True or False, got 'yes'\."),
        (lambda: TSP(5, neighbors=-1), r"neighbors must be .*0.*, got -1\."),
        (lambda: TSP(5, neighbors=[[0]]), r"neighbors must be an integer ≥ 0 or integers of shape \(5, K\)"),
        (lambda: TSP(3, neighbors=[[1], [2], [3]]), r"neighbors must be cities in 0\.\.2, got 3\."),
        (lambda: TSP(3, neighbors=[[1], [1], [0]]), r"neighbors must list other cities, each once, got \[1\] for city 1\."),
        (lambda: TSP(5, share=1.0), r"share must be < 1, .*, got 1\.0\."),
        (lambda: TSP(5, share=0), r"share must be .*> 0.*, got 0"),
        (lambda: TSP(5, moves=["exchange"]), r"moves must be one of '2-opt', 'or-opt', got 'exchange'\."),
        (lambda: TSP(5, True, moves=["2-opt"]), r"moves must be one of 'or-opt', 'exchange', got '2-opt'\."),
        (lambda: TSP(5).theta(np.triu(np.ones((5, 5)))), "matrix must be symmetric, since edges have no direction"),
        (lambda: TSP(5).theta(np.ones((4, 4))), r"matrix must have two last axes of 5 entries, got shape \(4, 4\)\."),
        (lambda: TSP(5).theta(np.full((5, 5), np.nan)), r"matrix must be finite, got nan"),
        (lambda: TSP(5).matrix(np.ones(9)), r"edges must have a last axis of 10 entries, got shape \(9,\)\."),
        (lambda: TSP(5, True).matrix(np.ones(9)), r"edges must have a last axis of 25 entries, got shape \(9,\)\."),
        (lambda: TSP(5).encode([0, 1]), r"tour must have 5 cities, got shape \(2,\)\."),
        (lambda: TSP(5).decode([0, 1]), r"solution must have 5 entries, got shape \(2,\)\."),
        (lambda: TSP.nearest(np.ones(3)), r"distances must be square with at least 2 rows, got shape \(3,\)\."),
        (lambda: TSP.nearest(np.ones((3, 3)), 3), r"k must be .*2.*, got 3\."),
    ],
)
def test_bad_input_is_told_in_one_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


def test_problems_pickle():
    problem = pickle.loads(pickle.dumps(TSP(6, neighbors=2)))
    theta = problem.theta(-distances(6))
    out, same = (mg.sample(p, theta, steps=100, start="greedy") for p in (problem, TSP(6, neighbors=2)))
    np.testing.assert_array_equal(out.mean, same.mean)


def test_tours_of_different_sizes_run_together():
    problems = [TSP(n) for n in (4, 5, 8)]
    thetas = [p.theta(-distances(n)) for p, n in zip(problems, (4, 5, 8), strict=True)]
    found = mg.solve(problems, thetas, steps=5_000)
    for n, value in zip((4, 5, 8), found.objective, strict=True):
        assert value == pytest.approx(-brute(distances(n))[1].min())


def test_a_loss_learns_from_a_tour():
    torch = pytest.importorskip("torch")
    problem = TSP(5)
    loss = mg.torch.FenchelYoungLoss(mg.torch.LocalSearchLayer(problem, steps=200))
    theta = torch.zeros(1, 10, dtype=torch.float64, requires_grad=True)
    loss(theta, [[2, 3, 4, 0, 1]]).backward()
    used = problem.matrix(theta.grad)[0]
    assert (used[[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]] < 0).all()  # θ rises where the tour goes
    assert used.sum() == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_what_stands_on_a_diagonal_counts_for_nothing(value):
    distances = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
    odd = distances.copy()
    np.fill_diagonal(odd, value)
    for problem in (TSP(4), TSP(4, asymmetric=True), CVRP([1, 1, 1], 2)):
        np.testing.assert_array_equal(problem.theta(-odd), problem.theta(-distances))
    np.testing.assert_array_equal(TSP.nearest(odd, 2), TSP.nearest(distances, 2))
    assert np.isnan(odd[0, 0]) or np.isinf(odd[0, 0])
