"""Neighborhoods that are listed once give the exact one-step loss of the moves themselves, for every problem and any θ."""

import copy
import multiprocessing
import pickle
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import movegrad as mg
from movegrad.engine import Listing
from movegrad.exact import Enumeration
from movegrad.problems import (
    CVRP,
    QUBO,
    TSP,
    Assignment,
    GeneralizedAssignment,
    Hypercube,
    Knapsack,
    PrizeCollectingVRPTW,
    ShortestPath,
    TopK,
)
from tests.routing_instances import instance
from tests.slow import slow_but_for
from tests.test_sampling import transition


@mg.jit
def crowded(y):
    return -0.1 * y.sum() ** 2


RNG = np.random.default_rng(0)
PROBLEMS = {
    "hypercube": lambda: Hypercube(6, exactly=(1, 2), weights=(1, 3)),
    "φ of the user": lambda: Hypercube(5, phi=crowded),
    "knapsack": lambda: Knapsack([[2.0, 3.0, 4.0, 5.0], [1.0, 1.0, 3.0, 2.0]], [7.0, 5.0]),
    "lazy top-k": lambda: TopK(6, 2, extra_moves=[mg.stay()]),
    "routing": lambda: PrizeCollectingVRPTW(instance(4, 1, binding=True, capacity=True)),
    "tsp": lambda: TSP(7, neighbors=0),
    "plans": lambda: CVRP([1.0, 2.0, 1.0, 2.0], 4.0),
    "assignment": lambda: Assignment(4),
    "generalized assignment": lambda: GeneralizedAssignment(RNG.integers(1, 4, (2, 4)), [6.0, 6.0]),
    "path": lambda: ShortestPath((3, 3)),
    "qubo": lambda: QUBO(RNG.standard_normal((5, 5))),
}


def visited(problem, count=6):
    """Different solutions that a hot chain comes by."""
    run = mg.sample(problem, np.zeros(problem.size), steps=400, temperature=100.0, trace=60, iterates=True, seed=1)
    return np.unique(run.iterates[0], axis=0)[:count]


@pytest.mark.parametrize("name", slow_but_for(("hypercube", "φ of the user", "knapsack", "lazy top-k"), PROBLEMS))
@pytest.mark.parametrize("temperature", [0.2, 3.0])
def test_listed_losses_are_those_of_the_moves(name, temperature):
    problem = PROBLEMS[name]()
    y, rng = visited(problem), np.random.default_rng(2)
    theta = rng.standard_normal((len(y), problem.size))
    around = mg.Neighborhoods(problem, y)
    assert len(around) == len(y)
    assert around.outcomes > 0
    values, gradients = around.one_step(theta, around.rows_of(y), temperature=temperature)
    expected = mg.one_step(problem, theta, y, temperature=temperature)
    np.testing.assert_allclose(values, expected[0], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(gradients, expected[1], rtol=1e-12, atol=1e-14)


def test_the_gradient_is_the_expected_first_step_of_the_chain():
    """Against the transition matrix of an independent enumeration."""
    problem, theta, t = TopK(6, k=2, swaps=(1, 2)), np.random.default_rng(4).standard_normal(6), 0.9
    table = Enumeration(problem)
    matrix = transition(problem, table, theta, t)
    around = mg.Neighborhoods(problem, table.solutions)
    _, gradients = around.one_step(np.tile(theta, (len(matrix), 1)), temperature=t)
    np.testing.assert_allclose(gradients, matrix @ table.statistics - table.statistics, atol=1e-12)


def test_lists_grow_and_what_is_known_is_not_listed_again():
    problem = TopK(30, 10)
    y = np.array([np.random.default_rng(s).permutation(problem.solution) for s in range(40)])
    around, theta = mg.Neighborhoods(problem, y[:3]), np.random.default_rng(0).standard_normal((40, 30))
    few = around.nbytes
    rows = around.rows_of(y)
    assert rows.tolist() == list(range(40))
    assert around.outcomes == 40 * 200  # more than there was room for
    assert around.nbytes > few
    np.testing.assert_array_equal(around.rows_of(y[::-1]), rows[::-1])
    assert len(around) == 40
    np.testing.assert_array_equal(around.solutions, y)
    values, gradients = around.one_step(theta[[5, 1]], [5, 1], temperature=[0.5, 2.0])
    expected = mg.one_step(problem, theta[[5, 1]], y[[5, 1]], temperature=[0.5, 2.0])
    np.testing.assert_allclose(values, expected[0], rtol=1e-13)
    np.testing.assert_allclose(gradients, expected[1], rtol=1e-12, atol=1e-14)


def test_results_do_not_depend_on_threads():
    problem, theta = TopK(60, 20), np.random.default_rng(0).standard_normal((400, 60))
    around, rows, before = mg.Neighborhoods(problem, problem.solution), np.zeros(400, int), mg.get_threads()
    found = []
    try:
        for threads in (1, 3):
            mg.set_threads(threads)
            found.append(around.one_step(theta, rows))
    finally:
        mg.set_threads(before)
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_solution_outside_leaves_no_trace():
    problem = TopK(5, 2)
    around = mg.Neighborhoods(problem, [[1, 1, 0, 0, 0]])
    with pytest.raises(ValueError, match=r"y must be in the set, got \[1 1 1 0 0\]"):
        around.rows_of([[0, 1, 1, 0, 0], [1, 1, 1, 0, 0]])
    assert len(around) == 1
    assert around.rows_of([[0, 1, 1, 0, 0]]).tolist() == [1]
    assert around.outcomes == 12
    theta = np.random.default_rng(0).standard_normal((2, 5))
    np.testing.assert_allclose(around.one_step(theta)[1], mg.one_step(problem, theta, around.solutions)[1], atol=1e-14)


def test_copies_and_pickles_list_anew():
    problem = TopK(5, 2)
    around, theta = mg.Neighborhoods(problem, [[1, 1, 0, 0, 0], [0, 1, 0, 1, 0]]), np.linspace(-1, 1, 10).reshape(2, 5)
    for other in (copy.deepcopy(around), pickle.loads(pickle.dumps(around)), copy.copy(around)):
        assert repr(other) == repr(around) == "Neighborhoods(TopK(5, k=2), 2 solutions, 12 outcomes)"
        np.testing.assert_array_equal(other.one_step(theta)[1], around.one_step(theta)[1])


def test_threads_may_share_one():
    problem = TopK(12, 4)
    y = np.array([np.random.default_rng(s).permutation(problem.solution) for s in range(64)])
    around, theta, wrong = mg.Neighborhoods(problem), np.random.default_rng(0).standard_normal((64, 12)), []
    expected = mg.one_step(problem, theta, y)[1]

    def work(k):
        mine = np.random.default_rng(k).permutation(64)
        for part in np.array_split(mine, 8):
            if not np.allclose(around.one_step(theta[part], around.rows_of(y[part]))[1], expected[part], atol=1e-13):
                wrong.append(part)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(around) == len(np.unique(y, axis=0))


BAD = {
    "no problem": (lambda: mg.Neighborhoods(None), "problem must be a Problem, got None"),
    "guided": (lambda: mg.Neighborhoods(TopK(5, 2, guided=True)), "problem must not be guided"),
    "too short": (lambda: mg.Neighborhoods(TopK(5, 2), np.ones((2, 4), int)), r"y must have shape \(n, 5\), got \(2, 4\)"),
    "words": (lambda: mg.Neighborhoods(TopK(5, 2), np.array([["a"] * 5])), "y must be an array of numbers"),
    "a fraction": (lambda: mg.Neighborhoods(TopK(5, 2), np.full((1, 5), 0.4)), "y must be in the set"),
    "no such row": (lambda: known().one_step(np.zeros((1, 5)), [1]), "rows must be in 0..0, got 1 to 1"),
    "nothing listed": (
        lambda: mg.Neighborhoods(TopK(5, 2)).one_step(np.zeros((1, 5))),
        "rows must be of solutions that were listed",
    ),
    "a negative row": (lambda: known().one_step(np.zeros((1, 5)), [-1]), "rows must be in 0..0, got -1 to -1"),
    "a row too many": (lambda: known().one_step(np.zeros((1, 5)), [0, 0]), "rows must be 1 integers"),
    "one θ": (lambda: known().one_step(np.zeros(5)), r"theta must have two axes, got shape \(5,\)"),
    "NaN": (lambda: known().one_step(np.full((1, 5), np.nan)), "theta must be finite"),
    "temperatures": (lambda: known().one_step(np.zeros((1, 5)), temperature=[1.0, 2.0]), "temperature must be a number or 1"),
    "a column of temperatures": (lambda: known().one_step(np.zeros((1, 5)), temperature=[[1.0]]), r"got shape \(1, 1\)"),
    "more θ than solutions": (lambda: known().one_step(np.zeros((3, 5))), "theta must have 1 rows at most where rows is not given"),
    "a row of y": (lambda: known().rows_of([[1, 1, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0]]), "in row 2"),
    "cold": (lambda: known().one_step(np.zeros((1, 5)), temperature=0.0), "temperature must be finite and > 0, got 0"),
    "infinite": (lambda: known().one_step(np.array([[0, 0, 1e300, 0, 0]]), temperature=1e-300), "infinite loss"),
}


def known():
    return mg.Neighborhoods(TopK(5, 2), [[1, 1, 0, 0, 0]])


@pytest.mark.parametrize("what", BAD)
def test_bad_input_gets_a_sentence(what):
    call, sentence = BAD[what]
    with pytest.raises(ValueError, match=sentence):
        call()


@mg.jit
def undefined(y):
    return np.nan if y.sum() > 1 else 0.0


def test_a_gain_that_is_no_number_is_not_blamed_on_theta():
    problem, y, theta = Hypercube(3, phi=undefined), np.array([[1, 0, 0]]), np.zeros((1, 3))
    for call in (lambda: mg.one_step(problem, theta, y), lambda: mg.Neighborhoods(problem, y).one_step(theta)):
        with pytest.raises(ValueError, match=r"problem must have moves whose gain .* numbers, got NaN from Hypercube"):
            call()
    assert not mg.check(problem).ok, "which the sentence sends to"


# --- the loss of PyTorch ------------------------------------------------------------------------------------------------------


def losses(problem, **options):
    torch = pytest.importorskip("torch")
    return torch, *(mg.torch.OneStepLoss(problem, 0.7, keep=keep, **options) for keep in (True, False))


@pytest.mark.parametrize("shape", [(4,), (2, 3), ()])
def test_a_loss_that_keeps_is_the_one_that_does_not(shape):
    problem = TopK(6, 2)
    torch, kept, plain = losses(problem, reduction="none")
    rng = np.random.default_rng(0)
    y = torch.from_numpy(np.array([rng.permutation(problem.solution) for _ in range(int(np.prod(shape)))])).reshape(*shape, 6)
    for _ in range(2):
        theta = torch.from_numpy(rng.standard_normal((*shape, 6))).requires_grad_()
        values = [loss(theta, y) for loss in (kept, plain)]
        torch.testing.assert_close(*values)
        torch.testing.assert_close(*(torch.autograd.grad(v.sum(), theta)[0] for v in values))


def test_one_theta_may_have_many_observations():
    problem = TopK(6, 2)
    torch, kept, plain = losses(problem)
    y = torch.from_numpy(np.array([np.random.default_rng(s).permutation(problem.solution) for s in range(5)]))
    theta = torch.linspace(-1, 1, 6, requires_grad=True)
    torch.testing.assert_close(*(torch.autograd.grad(loss(theta, y), theta)[0] for loss in (kept, plain)))


def test_a_copy_of_a_loss_that_keeps():
    problem = TopK(6, 2)
    torch, kept, _ = losses(problem)
    theta, y = torch.linspace(-1, 1, 6), torch.tensor(problem.solution)
    value = kept(theta, y)
    for other in (copy.deepcopy(kept), pickle.loads(pickle.dumps(kept))):
        torch.testing.assert_close(other(theta, y), value)
    assert not kept.state_dict()


def test_a_loss_that_keeps_in_a_compiled_graph_and_under_vmap():
    problem = TopK(6, 2)
    torch, kept, plain = losses(problem)
    theta, y = torch.randn(3, 6, generator=torch.Generator().manual_seed(0)), torch.from_numpy(np.tile(problem.solution, (3, 1)))
    compiled = torch.compile(lambda theta: kept(theta, y), backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(theta), plain(theta, y))
    torch.testing.assert_close(torch.func.vmap(kept)(theta, y), torch.func.vmap(plain)(theta, y))


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_a_guided_problem_cannot_be_kept(name):
    pytest.importorskip(name)
    loss = getattr(mg, name).OneStepLoss
    with pytest.raises(ValueError, match="problem must not be guided"):
        loss(TopK(6, 2, guided=True), keep=True)
    with pytest.raises(ValueError, match="keep must be True or False, got 'yes'"):
        loss(TopK(6, 2), keep="yes")


# --- the loss of JAX ----------------------------------------------------------------------------------------------------------


def test_a_loss_of_jax_that_keeps_is_the_one_that_does_not():
    jax = pytest.importorskip("jax")
    problem, rng = TopK(6, 2), np.random.default_rng(0)
    kept, plain = (mg.jax.OneStepLoss(problem, 0.7, keep=keep) for keep in (True, False))
    y = np.array([rng.permutation(problem.solution) for _ in range(5)])
    theta = rng.standard_normal((5, 6)).astype(np.float32)
    for wrap in (lambda f: f, jax.jit, jax.vmap, lambda f: jax.jit(jax.vmap(f))):
        found, expected = (wrap(jax.value_and_grad(loss))(theta, y) for loss in (kept, plain))
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-6)
        np.testing.assert_allclose(found[1], expected[1], rtol=1e-6, atol=1e-8)
    assert len(kept._task.kept) == len(np.unique(y, axis=0))
    other = pickle.loads(pickle.dumps(kept))
    np.testing.assert_array_equal(other(theta, y), kept(theta, y))
    with pytest.raises(Exception, match="y must be in the set"):
        kept(theta, np.ones((5, 6), int))


class Stop(Exception):
    pass


@pytest.mark.parametrize("when", ["before", "after"])
def test_what_an_interrupted_call_has_listed_is_overwritten(when, monkeypatch):
    """Ctrl-C may come before a listing is written down or after it, when no row is known of it yet."""
    problem = TopK(6, 2)
    y = np.unique([np.random.default_rng(s).permutation(problem.solution) for s in range(40)], axis=0)
    around, theta, add = mg.Neighborhoods(problem, y[:3]), np.random.default_rng(0).standard_normal((len(y), 6)), Listing.add

    def interrupted(self, *arguments):
        if when == "after":
            add(self, *arguments)
        raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(Listing, "add", interrupted)
        with pytest.raises(Stop):
            around.rows_of(y[5:9])
    assert (len(around), around.outcomes) == (3, 24)
    rows = around.rows_of(y)
    assert rows.tolist() == list(range(len(y)))
    np.testing.assert_allclose(around.one_step(theta, rows)[1], mg.one_step(problem, theta, y)[1], atol=1e-14)


FORKS = """
import multiprocessing
import movegrad as mg

around = mg.Neighborhoods(mg.problems.TopK(6, 2), [[1, 1, 0, 0, 0, 0]])
with around._lock:  # as a thread that lists has it
    child = multiprocessing.get_context("fork").Process(target=around.rows_of, args=([[0, 0, 0, 0, 1, 1]],))
    child.start()
    child.join(60)
    exit(child.exitcode)
"""


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
def test_a_fork_does_not_wait_for_a_thread_that_it_has_not():
    """In a process without JAX, which warns of forks."""
    assert subprocess.run([sys.executable, "-c", FORKS], timeout=120, check=False).returncode == 0


def test_no_room_is_said(monkeypatch):
    around = mg.Neighborhoods(TopK(5, 2), [[1, 1, 0, 0, 0]])
    monkeypatch.setattr(Listing, "_write", lambda *_: np.zeros(1 << 55))
    with pytest.raises(MemoryError, match="y must have neighborhoods that fit into memory, got 6 outcomes of 1 solutions"):
        around.rows_of([[0, 0, 0, 1, 1]])


def test_only_what_is_full_grows():
    """Half a million entries of few outcomes, and the other way around."""
    few = mg.Neighborhoods(TSP(300, neighbors=0), np.arange(300)[None])
    many = mg.Neighborhoods(TopK(300, 150), TopK(300, 150).solution)
    for around in (few, many):
        lists = around._listing._lists
        assert len(lists.ends) < 2 * around.outcomes
        assert len(lists.entries) < max(2 * lists.used[1], 2000)


def test_a_replaced_problem_or_temperature_is_seen():
    torch, kept, _ = losses(TopK(6, 2))
    jax = pytest.importorskip("jax")
    theta, y = np.linspace(-1, 2, 6), TopK(6, 2).solution
    other = TopK(6, 2, swaps=(2,))
    ours = mg.jax.OneStepLoss(TopK(6, 2), 0.7, keep=True)
    for loss, array in ((kept, torch.from_numpy), (ours, jax.numpy.asarray)):
        loss(array(theta), y)
        loss.problem, loss.temperature = other, 2.0
        assert abs(float(loss(array(theta), y)) - mg.one_step(other, theta, y, temperature=2.0)[0]) < 1e-6
    with pytest.raises(AttributeError):
        kept._kept.problem = other


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
def test_ctrl_c_while_listing_leaves_no_trace():
    """Large neighborhoods of many solutions take seconds to list; what was begun is forgotten."""
    problem = TopK(300, 150)
    y = np.array([np.random.default_rng(s).permutation(problem.solution) for s in range(200)])
    around = mg.Neighborhoods(problem, y[:1])

    def interrupt(*_):
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            around.rows_of(y)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert (len(around), around.outcomes) == (1, 22_500)
    theta = np.random.default_rng(0).standard_normal((2, 300))
    np.testing.assert_allclose(
        around.one_step(theta, around.rows_of(y[:2]))[1], mg.one_step(problem, theta, y[:2])[1], rtol=1e-12, atol=1e-14
    )
