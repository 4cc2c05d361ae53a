"""QUBO, Ising models and cuts: proved on small ones, held to brute force, and local fields that never drift."""

import pickle
from itertools import product

import numpy as np
import pytest

import movegrad as mg
from movegrad.engine import HOST, Begin, Settings, shared_batch
from movegrad.problems import QUBO, Ising, MaxCut
from movegrad.proof.pure import PureProblem
from tests.slow import slow_but_for

RNG = np.random.default_rng(0)
DENSE = RNG.normal(size=(4, 4))
SPARSE = np.triu(RNG.normal(size=(6, 6)), 1) * (np.arange(36).reshape(6, 6) % 4 == 0)
TRIANGLE_AND_TAIL = [(0, 1), (1, 2), (2, 0), (2, 3), (0, 1)]  # an edge is there twice
SPIN = np.triu(DENSE, 1)

PROBLEMS = {
    "dense": lambda: QUBO(DENSE),
    "sparse": lambda: QUBO(SPARSE),
    "one variable": lambda: QUBO([[1.5]]),
    "zero": lambda: QUBO(np.zeros((3, 3))),
    "no phi": lambda: QUBO(3),
    "on couplings": lambda: QUBO(4, pairs=[(0, 1), (3, 0)]),
    "on couplings, with phi": lambda: QUBO(DENSE, pairs=[(0, 1), (1, 2), (1, 2)]),
    "lazy": lambda: QUBO(DENSE, extra_moves=[mg.stay()]),
    "spins": lambda: Ising(SPIN, [1.0, -2.0, 0.0, 0.5]),
    "free spins": lambda: Ising(3),
    "fields alone": lambda: Ising(2, [1.0, 2.0]),
    "spins on couplings": lambda: Ising(SPIN, pairs=[(0, 1), (2, 3)]),
    "cut": lambda: MaxCut(4, TRIANGLE_AND_TAIL),
    "cut with weights": lambda: MaxCut(4, TRIANGLE_AND_TAIL, [1.0, -2.0, 0.5, 0.1, 3.0]),
    "one edge": lambda: MaxCut(2, [(0, 1)]),
    "a vertex without edges": lambda: MaxCut(3, [(2, 1)]),
}
COMPILED = ("dense", "sparse", "on couplings, with phi", "spins", "cut", "cut with weights")


@pytest.mark.parametrize("name", PROBLEMS)
def test_it_is_proved_right(name):
    report = mg.check(PROBLEMS[name](), temperatures=(0.3, 1.0, 5.0), compiled=False)
    assert report.ok, report


@pytest.mark.parametrize("name", slow_but_for(["cut with weights"], COMPILED))
def test_the_compiled_chain_is_right(name):
    report = mg.check(PROBLEMS[name]())
    assert report.ok, report


# --- brute force ------------------------------------------------------------------------------------------------------


def law(values, statistics, phis, theta, t):
    """E[T(Y)], from lists of all solutions."""
    weights = np.exp((statistics @ theta + phis) / t)
    return weights @ statistics / weights.sum()


CASES = {
    "QUBO": (QUBO(DENSE), (0, 1), lambda y: y, lambda y: y @ DENSE @ y),
    "sparse QUBO": (QUBO(SPARSE), (0, 1), lambda y: y, lambda y: y @ SPARSE @ y),
    "couplings": (QUBO(DENSE, pairs=[(0, 1), (3, 1)]), (0, 1), lambda y: y[[0, 3]] * y[[1, 1]], lambda y: y @ DENSE @ y),
    "Ising": (Ising(SPIN, [1.0, -2.0, 0.0, 0.5]), (-1, 1), lambda s: s, lambda s: s @ SPIN @ s + s @ [1.0, -2.0, 0.0, 0.5]),
    "spin products": (Ising(4, pairs=[(0, 1), (3, 1)]), (-1, 1), lambda s: s[[0, 3]] * s[[1, 1]], lambda s: 0.0),
    "cut": (
        MaxCut(4, TRIANGLE_AND_TAIL, [1.0, -2.0, 0.5, 0.1, 3.0]),
        (0, 1),
        lambda y: np.array([y[a] != y[b] for a, b in TRIANGLE_AND_TAIL], float),
        lambda y: sum(w for w, (a, b) in zip([1.0, -2.0, 0.5, 0.1, 3.0], TRIANGLE_AND_TAIL, strict=True) if y[a] != y[b]),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_laws_and_optima_are_those_of_brute_force(name):
    problem, two, statistic, phi = CASES[name]
    values = [np.array(v) for v in product(two, repeat=len(problem.solution))]
    statistics, phis = np.array([statistic(v) for v in values], float), np.array([phi(v) for v in values], float)
    theta = np.random.default_rng(1).normal(size=problem.size)
    expected = law(values, statistics, phis, theta, 0.7)
    np.testing.assert_allclose(mg.exact.marginals(problem, theta, 0.7), expected, rtol=1e-12, atol=1e-14)
    found = mg.solve(problem, theta, steps=2000)
    assert found.objective == pytest.approx((statistics @ theta + phis).max(), rel=1e-12)


def test_a_sparse_matrix_is_the_dense_one():
    sparse = pytest.importorskip("scipy.sparse")
    problems = [QUBO(SPARSE), QUBO(sparse.csr_array(SPARSE)), QUBO(sparse.coo_matrix(SPARSE)), QUBO(0.5 * (SPARSE + SPARSE.T))]
    for other in problems[1:]:
        for name, one, two in zip(problems[0].data._fields, problems[0].data, other.data, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-15, err_msg=name)


def test_y_and_its_mirror_image_cut_the_same_edges():
    pure, y = PureProblem(MaxCut(4, TRIANGLE_AND_TAIL)), np.array([0, 1, 1, 0], np.uint8)
    np.testing.assert_array_equal(pure.statistic(y), pure.statistic(1 - y))


# --- fields -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["lists", "rows", "pairs"])
def test_fields_are_exact_after_a_million_steps(kind):
    """What is kept by adding and subtracting is what a sum of the grid's numbers in any order gives: to the last bit."""
    rng, n = np.random.default_rng(2), 40
    matrix = (
        rng.normal(size=(n, n)) * np.exp(rng.normal(size=(n, n)) * 3) * (rng.random((n, n)) < (0.1 if kind == "lists" else 1.0))
    )
    edges = np.array([(i, j) for i in range(n) for j in range(i)])
    problem = MaxCut(n, edges) if kind == "pairs" else QUBO(matrix)
    assert (len(problem.data.matrix) > 0) == (kind == "rows")
    theta = rng.normal(size=problem.size) * np.exp(rng.normal(size=problem.size))
    batch, begin = shared_batch(HOST, problem, theta[None]), Begin(problem.solution, np.zeros(1, np.int64))
    chains = HOST.execute(batch, Settings(steps=1_000_000, temperature=50.0), begin, np.arange(1)).chains
    assert chains.counts[0, 0, 1] > 50_000
    kept = dict(zip(problem.state._fields, chains.states, strict=True))
    fresh = {"v": kept["v"].copy(), **{name: np.full_like(kept[name], np.nan) for name in ("field", "pair_field", "grid")}}
    if kind == "pairs":
        problem.functions.attach.py_func(problem.data, theta, type(problem.state)(**fresh))
    else:
        problem.functions.prepare.py_func(problem.data, theta, 50.0, type(problem.state)(**fresh))
    name = "pair_field" if kind == "pairs" else "field"
    np.testing.assert_array_equal(kept[name], fresh[name])


def test_integers_are_not_rounded():
    matrix = np.array([[3, -(2**40)], [0, 1]])
    np.testing.assert_array_equal(QUBO(matrix).data.linear, [3.0, 1.0])
    np.testing.assert_array_equal(QUBO(matrix).data.coupling, [-(2.0**40)] * 2)


# --- what users give and get ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: QUBO(0), r"Q must be ≥ 1, got 0\."),
        (lambda: QUBO(np.zeros((2, 3))), r"Q must be a square matrix, or the number of variables, got shape \(2, 3\)\."),
        (lambda: QUBO([1.0, 2.0]), r"Q must be a square matrix"),
        (lambda: QUBO([[np.nan]]), r"Q must be finite and at most 1e\+300 in absolute value, got nan among its entries\."),
        (lambda: QUBO("a"), r"Q must be an array of numbers"),
        (lambda: QUBO(3, pairs=[(0, 3)]), r"pairs must join two of 0\.\.2"),
        (lambda: QUBO(3, pairs=[(1, 1)]), r"pairs must join two different ones, got \[1, 1\]\."),
        (lambda: QUBO(3, pairs=[(0.5, 1)]), r"pairs must be integers of shape \(m, 2\) with m ≥ 1"),
        (lambda: QUBO(3, pairs=np.zeros((0, 2), int)), r"pairs must be integers of shape \(m, 2\) with m ≥ 1"),
        (lambda: Ising([[1.0]]), r"couplings must be 0 on the diagonal, since spins squared are 1, got 1\.0 for spin 0\."),
        (lambda: Ising(2, [1.0]), r"fields must have shape \(2,\), got \(1,\)\."),
        (lambda: MaxCut(0, [(0, 1)]), r"n must be ≥ 1, got 0\."),
        (lambda: MaxCut(3, [(0, 1)], [1.0, 2.0]), r"weights must have shape \(1,\), got \(2,\)\."),
        (lambda: MaxCut(3, [(0, 1)], [np.inf]), r"weights must be finite"),
        (lambda: QUBO(2, extra_moves=[1]), r"extra_moves must be a Move, got 1\."),
    ],
)
def test_bad_input_is_one_sentence(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.parametrize(("problem", "start"), [(QUBO(2), [0, 2]), (Ising(2), [0, 1]), (Ising(2), [-1, 2])])
def test_what_is_no_configuration_is_refused(problem, start):
    with pytest.raises(ValueError, match="start must be in the set"):
        mg.sample(problem, np.zeros(2), steps=1, start=np.array(start))


@pytest.mark.parametrize("name", ["dense", "spins on couplings", "cut with weights"])
def test_problems_pickle(name):
    problem = PROBLEMS[name]()
    copy, theta = pickle.loads(pickle.dumps(problem)), np.random.default_rng(0).normal(size=problem.size)
    np.testing.assert_array_equal(*(mg.sample(p, theta, steps=300).mean for p in (problem, copy)))


def test_a_cut_can_be_read():
    found = mg.solve(MaxCut(4, TRIANGLE_AND_TAIL), np.array([1.0, 2.0, 2.0, 1.0, 1.0]), steps=300)
    assert found.objective == 5.0
    assert found.cut.tolist() == [e for e, (a, b) in enumerate(TRIANGLE_AND_TAIL) if found.solution[a] != found.solution[b]]
    for value, side in enumerate(found.sides):
        np.testing.assert_array_equal(side, np.flatnonzero(found.solution == value))


@pytest.mark.parametrize("name", ["dense", "spins", "cut"])
def test_a_loss_learns_from_a_label(name):
    torch = pytest.importorskip("torch")
    problem = PROBLEMS[name]()
    label = np.array(problem.solution)
    label[0] = 1
    loss = mg.torch.FenchelYoungLoss(mg.torch.LocalSearchLayer(problem, steps=200))
    theta = torch.zeros(1, problem.size, dtype=torch.float64, requires_grad=True)
    loss(theta, torch.from_numpy(label[None])).backward()
    assert theta.grad is not None
    assert theta.grad.abs().sum() > 0


def test_matrices_of_any_density_are_one_batch():
    """Also one that is all zeros: what a batch may hold does not depend on the numbers."""
    ring = np.roll(np.eye(12), 1, axis=1)
    matrices = [ring, DENSE, np.zeros((3, 3)), np.ones((1, 1))]
    problems, thetas = [QUBO(q) for q in matrices], [RNG.normal(size=len(q)) for q in matrices]
    together = mg.sample(problems, thetas, steps=50, seed=1)
    for i, (problem, theta) in enumerate(zip(problems, thetas, strict=True)):
        np.testing.assert_array_equal(together.mean[i], mg.sample(problem, theta[None], steps=50, seed=1, index=[i]).mean[0])
    graphs = [MaxCut(12, [(i, (i + 1) % 12) for i in range(12)], np.ones(12)), MaxCut(3, [(0, 1), (1, 2)], np.zeros(2))]
    assert len(mg.sample(graphs, [np.zeros(12), np.zeros(2)], steps=10).mean) == 2
