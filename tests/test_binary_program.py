"""0/1 programs: the set, its moves and its law, what is recognized, files and models, starts, and what is refused."""

import pickle
import re
from itertools import combinations, product
from types import SimpleNamespace

import numpy as np
import pytest

import movegrad as mg
from movegrad.problems import BinaryProgram, Hypercube, Knapsack, ProgramReport, TopK
from movegrad.problems.binary_program import start as search
from movegrad.proof.pure import _reached
from tests.slow import slow_but_for

INF = np.inf


def assignment(n, m=None, upper=1):
    """n rows of exactly one over n × m variables, and m columns."""
    m = m or n
    return np.vstack([np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))])


def graph(n):
    """Rows are nodes, variables are edges of the complete graph."""
    table = np.zeros((n, n * (n - 1) // 2))
    for e, pair in enumerate(combinations(range(n), 2)):
        table[list(pair), e] = 1.0
    return table


def gap(weights, capacities):
    """Agents × jobs: each job at one agent, within capacities."""
    agents, jobs = weights.shape
    table = np.zeros((jobs + agents, agents * jobs))
    for a, j in product(range(agents), range(jobs)):
        table[j, a * jobs + j] = 1.0
        table[jobs + a, a * jobs + j] = weights[a, j]
    return table, np.append(np.ones(jobs), np.full(agents, -INF)), np.append(np.ones(jobs), capacities)


def facility(sites, clients):
    """Each client at one open site: y first, then x by site."""
    n = sites + sites * clients
    table = np.zeros((clients + sites * clients, n))
    for s, c in product(range(sites), range(clients)):
        x = sites + s * clients + c
        table[c, x] = 1.0
        table[clients + s * clients + c, [x, s]] = 1.0, -1.0
    return (
        table,
        np.append(np.ones(clients), np.full(sites * clients, -INF)),
        np.append(np.ones(clients), np.zeros(sites * clients)),
    )


CYCLE = np.array([[1, 1, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 1, 1], [1, 0, 0, 0, 1]], float)
SETS = np.array([[1, 1, 0, 0, 1], [0, 1, 1, 0, 0], [0, 0, 1, 1, 1]], float)
WEIGHTS = np.array([[3.0, 2.0, 4.0, 5.0], [1.0, 7.0, 2.0, 0.0]])
GAP = np.array([[2.0, 3.0, 1.0], [1.0, 2.0, 2.0]])
DOUBLED = assignment(2)[:, [0, 1, 2, 3, 0]]  # two variables between the same rows

BOUNDED = np.vstack([np.hstack([assignment(2), np.zeros((4, 1))]), [0, 0, 1, 0, 1]])
BOUNDED_RING = np.zeros((7, 7))
BOUNDED_RING[:6, :6] = assignment(3)[:, [0, 1, 4, 5, 6, 8]]
BOUNDED_RING[6, [1, 6]] = 1.0

PROGRAMS = {  # and the moves that they must have
    "knapsack": ((WEIGHTS, None, [7.0, 8.0]), ["flip", "swap"]),
    "knapsack, few rows each": (([[3, 2, 0, 0, 0], [0, 0, 4, 5, 1]], None, [3, 6]), ["flip", "swap"]),
    "one variable": ((np.zeros((0, 1)),), ["flip"]),
    "hypercube": ((np.zeros((2, 3)), -1.0, 1.0), ["flip"]),
    "cardinality": ((np.ones((1, 5)), 2, 2), ["swap"]),
    "scaled cardinality": ((np.full((1, 4), -0.3), -0.9, -0.9), ["swap"]),
    "two cardinality rows": (([[1, 1, 1, 0, 0, 0], [0, 0, 0, 2, 2, 2]], [1, 4], [1, 4]), ["swap"]),
    "multiple choice and a free variable": (([[1, 1, 1, 0]], 1, 1), ["flip", "swap"]),
    "assignment": ((assignment(3), 1, 1), ["exchange"]),
    "assignment of two": ((assignment(2), 1, 1), ["exchange"]),
    "assignment with packing columns": ((assignment(2, 3), [1, 1, -INF, -INF, -INF], 1), ["swap", "exchange"]),
    "table with given sums": ((assignment(2, 3), [2, 1, 1, 1, 1], [2, 1, 1, 1, 1]), ["exchange"]),
    "assignment without a pair": ((assignment(3)[:, 1:], 1, 1), ["exchange", "rotate", "chain"]),
    "assignment in a ring": ((assignment(3)[:, [0, 1, 4, 5, 6, 8]], 1, 1), ["exchange", "rotate", "chain"]),
    "doubled assignment in a ring": ((assignment(3)[:, [0, 0, 1, 4, 5, 6, 8]], 1, 1), ["swap", "exchange", "rotate", "chain"]),
    "assignment in a ring, with a bound": ((BOUNDED_RING, [1] * 6 + [-INF], 1), ["flip", "exchange", "rotate", "chain"]),
    "assignment with a bound": ((BOUNDED, [1] * 4 + [-INF], 1), ["flip", "exchange", "chain"]),
    "perfect matching": ((graph(4), 1, 1), ["exchange"]),
    "two-factor": ((graph(5), 2, 2), ["exchange"]),
    "parallel variables": ((DOUBLED, 1, 1), ["swap", "exchange", "chain"]),
    "generalized assignment": (gap(GAP, [4.0, 4.0]), ["swap", "exchange", "chain"]),
    "facility location": (facility(2, 2), ["flip", "swap"]),
    "independent set": ((CYCLE, None, 1), ["flip", "swap"]),
    "set cover": ((SETS, 1), ["flip", "swap"]),
    "packing and cover": (([[1, 1, 0], [0, 1, 1]], [-INF, 1], [1, INF]), ["flip", "swap", "chain"]),
    "other equation": (([[1, 2, 1, 2]], 3, 3), ["swap", "chain"]),
    "equation of unlike coefficients": (([[1, 2, 3]], 3, 3), ["chain"]),
    "equations that overlap otherwise": (([[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0]], 1, 1), ["chain"]),
    "fixed variables": (([[1, 0, 0, 0], [1, 1, 1, 0]], [1, -INF], [1, 2]), ["flip", "swap"]),
    "one solution": (([[1, 1]], 2), ["stay"]),
    "negative coefficients": (([[-2, 3, -1]], -2, 2), ["flip", "swap", "chain"]),
}

WITHOUT_CHAINS = {  # which take long to list
    "parallel variables": ["swap", "exchange"],  # the ratio of these is not 1
    "doubled assignment in a ring": ["swap", "rotate"],  # nor of these
    "assignment in a ring": ["rotate"],
    "assignment in a ring, with a bound": ["flip", "rotate"],
    "assignment with a bound": ["flip", "exchange"],
    "assignment without a pair": ["exchange", "rotate"],
}


def program(name):
    return BinaryProgram(*PROGRAMS[name][0], moves=WITHOUT_CHAINS.get(name))


def brute_force(A, lower=None, upper=None, tolerance=1e-6):
    """All solutions, in lexicographic order."""
    A = np.asarray(A, float)
    low = np.broadcast_to(-INF if lower is None else np.asarray(lower, float), len(A))
    high = np.broadcast_to(INF if upper is None else np.asarray(upper, float), len(A))
    ys = np.array(list(product((0, 1), repeat=A.shape[1])))
    values = ys @ A.T
    return ys[((values >= low - tolerance) & (values <= high + tolerance)).all(1)]


def law(ys, theta, temperature=1.0):
    """E[Y] of a listed set."""
    weight = np.exp(ys @ theta / temperature - (ys @ theta).max() / temperature)
    return weight @ ys / weight.sum()


def complaint(call):
    """Message of a ValueError, which is one sentence."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is judged below
        call()
    message = str(caught.value)
    assert re.fullmatch(r"[^\n]*\bmust\b[^\n]*\.", message), message
    return message


# --- the set, the moves and the law ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_set_is_that_of_brute_force_and_moves_are_those_of_its_structure(name):
    arguments, moves = PROGRAMS[name]
    problem, expected = BinaryProgram(*arguments), brute_force(*arguments)
    np.testing.assert_array_equal(list(problem.states()), expected)
    assert [m.name for m in problem.moves] == moves
    assert sorted(tuple(y) for y in _reached(problem)) == sorted(map(tuple, expected))
    theta = np.random.default_rng(1).normal(size=problem.size)
    np.testing.assert_allclose(mg.exact.marginals(problem, theta, 0.7), law(expected, theta, 0.7), atol=1e-12)


LONG = ("two-factor", "table with given sums", "knapsack, few rows each")
CHAINS = [name for name, (_, moves) in PROGRAMS.items() if "chain" in moves and name not in WITHOUT_CHAINS]
SHORT = [name for name in PROGRAMS if name not in (*LONG, *CHAINS)]
COMPILED = ["knapsack", "parallel variables", "perfect matching", "packing and cover"]


@pytest.mark.parametrize("name", slow_but_for([*SHORT, "packing and cover"], PROGRAMS))
def test_moves_have_exact_ratios_and_reach_all(name):
    report = mg.check(program(name), compiled=False).raise_if_wrong()
    assert report.complete
    assert not report.depends_on_theta


def test_rotations_among_more_than_three_are_right():
    mg.check(BinaryProgram(assignment(4), 1, 1, moves=["exchange", "rotate"]), compiled=False).raise_if_wrong()


@pytest.mark.parametrize("name", slow_but_for(["parallel variables"], COMPILED))
def test_the_compiled_chain_has_the_law(name):
    mg.check(program(name), temperatures=(0.5, 2.0)).raise_if_wrong()


def random_program(rng):
    """Small, with a solution or none; rows of every kind."""
    n, m = rng.integers(1, 7), rng.integers(0, 5)
    A = rng.integers(0, 2, (m, n)) if rng.random() < 0.5 else rng.integers(-3, 4, (m, n)) * rng.choice([0.1, 0.3, 1.0], (m, 1))
    value = A @ rng.integers(0, 2, n)
    lower = np.where(rng.random(m) < 0.4, value, np.where(rng.random(m) < 0.5, -INF, value - 0.5 * rng.integers(0, 3, m)))
    upper = np.where(rng.random(m) < 0.4, value, np.where(rng.random(m) < 0.3, INF, value + rng.integers(0, 3, m)))
    if m and rng.random() < 0.1:
        lower[0] = upper[0] = value[0] + 0.45
    return np.asarray(A, float), np.minimum(lower, upper), upper


def test_random_programs_have_the_set_of_brute_force_and_claims_of_connection_hold():
    rng, proved = np.random.default_rng(0), 0
    for _ in range(150):
        A, lower, upper = random_program(rng)
        expected = {tuple(y) for y in brute_force(A, lower, upper)}
        if not expected:
            assert "for some binary y" in complaint(lambda a=(A, lower, upper): BinaryProgram(*a))
            continue
        problem = BinaryProgram(A, lower, upper)
        assert {tuple(y) for y in problem.states()} == expected
        if problem.report().connected:
            assert {tuple(y) for y in _reached(problem)} == expected
            proved += 1
    assert proved > 50


def test_laws_are_those_of_the_problems_made_for_them():
    rng = np.random.default_rng(2)
    weights = rng.uniform(1.0, 5.0, (3, 9))
    pairs = [
        (Knapsack(weights, weights.sum(1) / 2), BinaryProgram(weights, None, weights.sum(1) / 2)),
        (TopK(9, 4), BinaryProgram(np.ones((1, 9)), 4, 4)),
        (Hypercube(9), BinaryProgram(np.zeros((0, 9)))),
    ]
    theta = rng.normal(size=9)
    for special, general in pairs:
        np.testing.assert_allclose(mg.exact.marginals(general, theta), mg.exact.marginals(special, theta), atol=1e-12)


@pytest.mark.parametrize("name", ["assignment", "generalized assignment", "facility location"])
def test_means_of_chains_tend_to_the_law(name):
    """64 chains; |z| > 6 somewhere with probability < 1e-6. They all begin at one solution: a bias of order 1/K."""
    problem = BinaryProgram(*PROGRAMS[name][0])
    theta = np.random.default_rng(3).normal(size=problem.size)
    means = mg.sample(problem, np.tile(theta, (64, 1)), steps=4000, burn_in=500).mean
    error = means.std(0, ddof=1) / 8.0 + 2e-3
    assert (np.abs(means.mean(0) - mg.exact.marginals(problem, theta)) / error).max() < 6


def test_activities_stay_exact_whatever_the_coefficients():
    """Sums of entries are the same in any order, and a chain of many steps stays in the set."""
    rng = np.random.default_rng(4)
    A = rng.uniform(-1.0, 1.0, (6, 40)) * 10.0 ** rng.integers(-3, 4, (6, 1))
    problem = BinaryProgram(A, None, np.abs(A).sum(1) / 8)
    data = problem.data
    total = sum((data.row_value[e] for e in rng.permutation(np.arange(data.row_at[0], data.row_at[1]))), 0.0)
    assert total == sum((data.row_value[e] for e in range(data.row_at[0], data.row_at[1])), 0.0)
    ys = mg.sample(problem, rng.normal(size=40), steps=20_000, temperature=5.0, iterates=True).iterates.reshape(-1, 40)
    limit = np.abs(A).sum(1) / 8
    assert len(np.unique(ys, axis=0)) > 100
    assert (ys @ A.T <= limit + 1.1e-6 * np.maximum(1.0, limit)).all()


# --- what is recognized -----------------------------------------------------------------------------------------------


def test_report_counts_kinds_fixed_variables_and_rows_that_always_hold():
    A = np.array(
        [
            [1, 1, 1, 0, 0, 0, 0],  # exactly one
            [0, 0, 0, 1, 1, 1, 0],  # cardinality
            [1, 0, 0, 1, 0, 0, 0],  # packing
            [0, 1, 0, 0, 1, 0, 0],  # cover
            [2, 0, 3, 0, 4, 0, 0],  # knapsack
            [1, -1, 0, 0, 2, 0, 0],  # general
            [1, 1, 1, 1, 1, 1, 1],  # always holds
            [0, 0, 0, 0, 0, 0, 1],  # fixes the last
        ]
    )
    lower, upper = [1, 2, -INF, 1, -INF, -1, 0, 1], [1, 2, 1, INF, 6, 1, 7, 1]
    report = BinaryProgram(A, lower, upper).report()
    assert isinstance(report, ProgramReport)
    assert report.kinds == {"exactly one": 1, "cardinality": 1, "packing": 1, "cover": 1, "knapsack": 1, "general": 1}
    assert (report.fixed, report.redundant, report.groups) == (1, 2, 2)
    assert sum(report.moves.values()) == pytest.approx(1.0)
    for words in (
        "7 variables, 1 fixed",
        "8 rows, 2 of them always hold",
        "1 knapsack",
        "swap",
        "connected: not known",
        "warning: ",
    ):
        assert words in str(report)


def test_two_inequalities_that_make_an_equation_are_one():
    report = BinaryProgram([[1, 1, 1], [-2, -2, -2]], [-INF, -INF], [1, -2]).report()
    assert report.kinds == {"exactly one": 1}


def test_equations_that_overlap_otherwise_are_named():
    table = np.zeros((6, 8))
    for j, bits in enumerate(product((0, 1), repeat=3)):
        table[[b + 2 * axis for axis, b in enumerate(bits)], j] = 1.0
    report = BinaryProgram(table, 1, 1).report()  # each variable in three equations
    assert list(report.moves) == ["chain"]
    assert "only chains change 8 variables" in report.warnings[0]
    assert "variable 0, variable 1, variable 2, …" in report.warnings[0]
    assert not report.connected


def test_moves_and_weights_are_chosen_by_name():
    problem = BinaryProgram([[1, 1, 1, 0]], 1, 1, moves=["swap", "flip"], weights=[3, 1], extra_moves=[mg.stay()])
    assert [(m.name, m.weight) for m in problem.moves] == [("swap", 3.0), ("flip", 1.0), ("stay", 1.0)]
    assert not BinaryProgram([[1, 1, 1, 0]], 1, 1, moves=["swap"]).report().connected


def test_what_no_move_reaches_is_not_claimed():
    """Two solutions that differ in a cycle of four rows and four columns, with no others."""
    ring = assignment(4)[:, [j for i in range(4) for j in (4 * i + i, 4 * i + (i + 1) % 4)]]
    problem = BinaryProgram(ring, 1, 1)
    assert len(list(problem.states())) == 2
    assert len(list(_reached(BinaryProgram(ring, 1, 1, moves=["exchange", "rotate"])))) == 1
    assert not problem.report().connected
    assert "moves may not reach every solution" in problem.report().warnings[-1]


# --- what it takes ----------------------------------------------------------------------------------------------------


def test_dense_and_sparse_matrices_are_the_same_program():
    sparse = pytest.importorskip("scipy.sparse")
    A, lower, upper = gap(GAP, [4.0, 4.0])
    for form in (sparse.csr_matrix, sparse.csc_array, sparse.coo_matrix):
        problem = BinaryProgram(form(A), lower, upper)
        for mine, other in zip(problem.data, BinaryProgram(A, lower, upper).data, strict=True):
            np.testing.assert_array_equal(mine, other)
    twice = sparse.coo_matrix(([1.0, 1.0, 2.0], ([0, 0, 0], [0, 0, 1])), (1, 2))  # 2 y₀ + 2 y₁
    assert len(list(BinaryProgram(twice, None, 2.0).states())) == 3


def test_bounds_have_the_tolerance_of_solvers_and_whole_rows_do_not_stretch():
    tenths = np.full((1, 3), 0.1)
    assert len(list(BinaryProgram(tenths, 0.3, 0.3).states())) == 1  # 0.1 + 0.1 + 0.1 ≠ 0.3 in floats
    assert len(list(BinaryProgram([[0.5, 0.7]], None, 0.7 - 5e-7).states())) == 3
    assert len(list(BinaryProgram([[0.5, 0.7]], None, 0.7 - 5e-6).states())) == 2
    assert len(list(BinaryProgram([[0.5, 0.7]], None, 0.7 - 5e-6, tolerance=1e-5).states())) == 3
    large = np.array([[3_000_001.0, 3_000_000.0]])
    assert len(list(BinaryProgram(large, None, 3_000_000.0).states())) == 2


def test_a_program_survives_pickling_and_chains_repeat():
    problem = BinaryProgram(assignment(4), 1, 1, costs=np.arange(16.0), maximize=False)
    copy = pickle.loads(pickle.dumps(problem))
    np.testing.assert_array_equal(list(copy.states()), list(problem.states()))
    np.testing.assert_array_equal(copy.theta, -np.arange(16.0))
    theta = np.random.default_rng(5).normal(size=16)
    assert (mg.sample(copy, theta, steps=200).mean == mg.sample(problem, theta, steps=200).mean).all()
    assert str(copy.report()) == str(problem.report())


# --- files and models --------------------------------------------------------------------------------------------------


def mps(A, lower, upper, costs, maximize):
    """A program in free MPS."""
    kinds = ["E" if a == b else "L" if a == -INF else "G" for a, b in zip(lower, upper, strict=True)]
    lines = ["NAME t", *(["OBJSENSE", "    MAX"] if maximize else []), "ROWS", " N cost"]
    lines += [f" {kind} r{r}" for r, kind in enumerate(kinds)]
    lines += ["COLUMNS", " MARKER 'MARKER' 'INTORG'"]
    for j in range(A.shape[1]):
        lines.append(f" x{j} cost {float(costs[j])!r}")
        lines += [f" x{j} r{r} {float(A[r, j])!r}" for r in np.flatnonzero(A[:, j])]
    lines += [" MARKER 'MARKER' 'INTEND'", "RHS"]
    lines += [f" rhs r{r} {float(upper[r] if kind != 'G' else lower[r])!r}" for r, kind in enumerate(kinds)]
    lines += ["BOUNDS", *(f" BV bnd x{j}" for j in range(A.shape[1])), "ENDATA", ""]
    return "\n".join(lines)


FILES = {
    "assignment": (assignment(3), np.ones(6), np.ones(6), False),
    "set packing": (SETS, np.full(3, -INF), np.ones(3), True),
    "set cover": (SETS, np.ones(3), np.full(3, INF), False),
    "generalized assignment": (*gap(GAP, [4.0, 4.0]), False),
    "facility location": (*facility(2, 3), False),
    "independent set": (CYCLE, np.full(5, -INF), np.ones(5), True),
    "knapsack": (WEIGHTS, np.full(2, -INF), np.array([7.0, 8.0]), True),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_gives_the_set_and_its_objective(name, tmp_path):
    """The best solution under ``theta``, by annealing, has the objective that HiGHS finds."""
    highspy = pytest.importorskip("highspy")
    A, lower, upper, maximize = FILES[name]
    costs = np.random.default_rng(6).integers(1, 20, A.shape[1]).astype(float)
    path = tmp_path / "model.mps"
    path.write_text(mps(A, lower, upper, costs, maximize))
    problem, ys = BinaryProgram.read(path), brute_force(A, lower, upper)
    np.testing.assert_array_equal(list(problem.states()), ys)
    np.testing.assert_array_equal(problem.costs, costs)
    np.testing.assert_array_equal(problem.theta, costs if maximize else -costs)
    assert problem.variables[:2] == ("x0", "x1")
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.readModel(str(path))
    np.testing.assert_array_equal(list(BinaryProgram.from_model(solver).states()), ys)
    solver.run()
    found = mg.solve(problem, problem.theta, steps=5000)
    assert problem.costs @ found.solution == pytest.approx(solver.getInfo().objective_function_value)


LP = """Maximize
 obj: 3 x + 2 y + z + 4 w
Subject To
 cap: x + y + w <= 1
 need: y + z >= 1
Bounds
 w <= 0
Binary
 x
 y
 z
General
 w
End
"""


def test_an_lp_file_with_a_fixed_variable(tmp_path):
    pytest.importorskip("highspy")
    (tmp_path / "m.lp").write_text(LP)
    problem = BinaryProgram.read(str(tmp_path / "m.lp"))
    assert problem.variables == ("x", "y", "z", "w")
    assert problem.report().fixed == 1
    assert sorted(map(tuple, problem.states())) == [(0, 0, 1, 0), (0, 1, 0, 0), (0, 1, 1, 0), (1, 0, 1, 0)]
    assert "row 'cap' must be in [-inf, 1] and is 2" in complaint(
        lambda: mg.sample(problem, np.zeros(4), steps=1, start=[1, 1, 1, 0])
    )
    assert "row 'need'" in problem.complaint(np.array([1, 0, 0, 0]))


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (("Binary\n x\n y\n z\n", "Binary\n x\n z\n"), "got variable 'y', which is continuous"),
        (("w <= 0", "w <= 5"), r"got variable 'w', an integer in \[0, 5\]"),
        (("need: y + z >= 1", "need: y + z >= 3"), "for some binary y, but row 'need' cannot be"),
    ],
)
def test_what_is_no_binary_program_is_refused_by_name(change, found, tmp_path):
    pytest.importorskip("highspy")
    (tmp_path / "m.lp").write_text(LP.replace(*change))
    assert re.search(found, complaint(lambda: BinaryProgram.read(tmp_path / "m.lp")))


def test_files_that_are_none(tmp_path):
    pytest.importorskip("highspy")
    assert "path must be a file, got" in complaint(lambda: BinaryProgram.read(tmp_path / "absent.mps"))
    assert "path must be a file name" in complaint(lambda: BinaryProgram.read(3))
    (tmp_path / "m.txt").write_text("x")
    assert "path must be a file in MPS or LP format" in complaint(lambda: BinaryProgram.read(tmp_path / "m.txt"))


def test_without_highspy_files_are_refused_with_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "highspy", None)
    with pytest.raises(ImportError, match=r"highspy must be installed to read files \(pip install \"movegrad\[highs\]\"\)"):
        BinaryProgram.read(tmp_path / "m.lp")


class LikeGurobi(SimpleNamespace):
    """What is read of a gurobipy.Model."""

    ModelSense, NumQConstrs, NumSOS, NumGenConstrs, NumQNZs, ObjCon = -1, 0, 0, 0, 0, 2.5

    def update(self):
        self.updated = True

    def getA(self):  # noqa: N802
        return pytest.importorskip("scipy.sparse").csr_matrix(np.array([[1.0, 1.0, 1.0], [0.0, 2.0, 3.0]]))

    def getVars(self):  # noqa: N802
        return [SimpleNamespace(LB=0.0, UB=1.0, VType=self.kinds[j], Obj=float(j), VarName=f"v{j}") for j in range(3)]

    def getConstrs(self):  # noqa: N802
        pairs = [("=", 1.0, "pick"), ("<", 2.0, "cap")]
        return [SimpleNamespace(Sense=s, RHS=b, ConstrName=name) for s, b, name in pairs]


def test_a_model_like_gurobis_is_read():
    problem = BinaryProgram.from_model(LikeGurobi(kinds="BIB"))
    np.testing.assert_array_equal(list(problem.states()), [[0, 1, 0], [1, 0, 0]])
    np.testing.assert_array_equal(problem.theta, [0.0, 1.0, 2.0])
    assert problem.offset == 2.5
    assert "variable 'v1', which is continuous" in complaint(lambda: BinaryProgram.from_model(LikeGurobi(kinds="BCB")))
    assert "got quadratic constraints" in complaint(lambda: BinaryProgram.from_model(LikeGurobi(kinds="BBB", NumQConstrs=1)))
    assert "must be a highspy.Highs or a gurobipy.Model, got list" in complaint(lambda: BinaryProgram.from_model([]))


def test_a_model_of_gurobi_is_read():
    gurobipy = pytest.importorskip("gurobipy")
    model = gurobipy.Model()
    x = model.addVars(3, vtype="B", obj=[1.0, 2.0, 3.0], name="x")
    model.addConstr(x.sum() == 1)
    problem = BinaryProgram.from_model(model)
    assert len(list(problem.states())) == 3
    np.testing.assert_array_equal(problem.theta, [-1.0, -2.0, -3.0])


# --- starts ------------------------------------------------------------------------------------------------------------


def test_a_start_is_taken_or_refused_with_the_row_that_it_breaks():
    y = np.eye(3)[[1, 2, 0]].reshape(-1)
    np.testing.assert_array_equal(BinaryProgram(assignment(3), 1, 1, start=y).solution, y)
    message = complaint(lambda: BinaryProgram(assignment(3), 1, 1, start=np.ones(9)))
    assert "start must be in the set" in message
    assert "row 0 must be in [1, 1] and is 3" in message
    assert "start must have shape (9,)" in complaint(lambda: BinaryProgram(assignment(3), 1, 1, start=[1, 0]))
    assert "variable 1 must be 0 or 1" in complaint(lambda: BinaryProgram(assignment(3), 1, 1, start=y / 2))


@pytest.mark.parametrize("name", ["assignment", "cover with a budget", "generalized assignment"])
def test_repair_finds_a_first_solution_without_a_solver(name, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "highspy", None)
    rng = np.random.default_rng(7)
    cover = (rng.random((40, 60)) < 0.1).astype(float)
    cover[np.arange(40), rng.integers(0, 60, 40)] = 1.0
    arguments = {
        "assignment": (assignment(12), 1, 1),
        "cover with a budget": (np.vstack([cover, np.ones(60)]), np.append(np.ones(40), -INF), np.append(np.full(40, INF), 25)),
        "generalized assignment": gap(rng.integers(5, 20, (4, 20)).astype(float), np.full(4, 75.0)),
    }[name]
    problem = BinaryProgram(*arguments)
    assert problem.complaint(problem.solution) == ""
    assert mg.sample(problem, rng.normal(size=problem.size), steps=100).mean.shape == (problem.size,)


ODD = ([[1, 1, 0], [0, 1, 1], [1, 0, 1]], 1, 1)  # no row is broken by itself


def test_a_program_without_a_solution_is_said_to_have_none(monkeypatch):
    pytest.importorskip("highspy")
    monkeypatch.setattr(search, "FLIPS", 1000)
    assert "HiGHS proved that there is none" in complaint(lambda: BinaryProgram(*ODD))
    monkeypatch.setitem(__import__("sys").modules, "highspy", None)
    message = complaint(lambda: BinaryProgram(*ODD))
    assert "start must be given, since no solution of the program was found" in message
    assert 'pip install "movegrad[highs]"' in message


def test_highs_finds_what_repair_does_not(monkeypatch):
    pytest.importorskip("highspy")
    monkeypatch.setattr(search, "_repaired", lambda program: None)
    problem = BinaryProgram(assignment(5), 1, 1)
    assert problem.complaint(problem.solution) == ""


BAD = {
    "matrix": (lambda: BinaryProgram([1, 2]), r"A must be a matrix with a column .* got shape \(2,\)"),
    "no variables": (lambda: BinaryProgram(np.zeros((2, 0))), r"A must be a matrix .* got shape \(2, 0\)"),
    "words": (lambda: BinaryProgram([["a"]]), "A must be an array of numbers"),
    "nan": (lambda: BinaryProgram([[np.nan]]), "A must have entries of at most 1e.15 in absolute value, got nan"),
    "rows": (lambda: BinaryProgram([[1, 1]], [1, 1]), r"lower must be a number or hold one for each of the 1 rows of A, got shape"),
    "nan bound": (lambda: BinaryProgram([[1, 1]], None, np.nan), "upper must be .* got nan"),
    "infinite bound": (lambda: BinaryProgram([[1, 1]], INF), "lower must be .* got inf"),
    "crossed": (lambda: BinaryProgram([[1, 1]], 2, 1), "lower must be at most upper, got 2 and 1 in row 0"),
    "infeasible": (lambda: BinaryProgram([[1, 1]], 3), "A y must be between .* but row 0 cannot be"),
    "tolerance": (lambda: BinaryProgram([[1, 1]], tolerance=0.0), "tolerance must be finite and > 0"),
    "moves": (lambda: BinaryProgram([[1, 1]], 1, 1, moves=["flip"]), "moves must be one of 'swap', 'chain', got 'flip'"),
    "no moves": (lambda: BinaryProgram([[1, 1]], 1, 1, moves=[]), "moves must name one or more"),
    "costs": (lambda: BinaryProgram([[1, 1]], costs=[1.0]), "costs must have a last axis of 2 entries"),
    "maximize": (lambda: BinaryProgram([[1, 1]], maximize="yes"), "maximize must be True or False"),
}


@pytest.mark.parametrize(("call", "found"), BAD.values(), ids=BAD)
def test_bad_input_is_told_in_one_sentence(call, found):
    assert re.match(found, complaint(call))


def test_a_program_too_hard_for_highs_asks_for_a_start_and_not_for_highs(monkeypatch):
    pytest.importorskip("highspy")
    monkeypatch.setattr(search, "PATIENCE", 0.05)
    monkeypatch.setattr(search, "_repaired", lambda program: None)
    table = np.random.default_rng(0).integers(0, 100, (5, 40))  # a market split: no solver is done with it in time
    message = complaint(lambda: BinaryProgram(table, table.sum(1) // 2, table.sum(1) // 2))
    assert message == (
        "start must be given, since neither repairing random ones nor 0.05 s of HiGHS found a solution of the program, got None."
    )
