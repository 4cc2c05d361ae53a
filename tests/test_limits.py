"""Time limits and Ctrl-C are heard whatever a step costs, and when they are looked at never changes a number."""

import signal
from contextlib import contextmanager

import numpy as np
import pytest

import movegrad as mg
from movegrad import _calls
from movegrad.engine import HOST, Begin, host, shared_batch
from movegrad.problems import Hypercube, Knapsack, TopK


@mg.jit
def slow(y):
    """Some 10 ms for nothing."""
    x = np.int64(y[0] + 1)
    for _ in range(10_000_000):
        x = (x ^ (x >> 29)) * 6364136223846793005 + 1
    return 1e-30 * x


SLOW = Hypercube(4, phi=slow)


@pytest.fixture
def threads():
    before = mg.get_threads()
    yield mg.set_threads
    mg.set_threads(before)


def flat(result) -> list[np.ndarray]:
    parts = [result.mean, result.solutions, result.best, result.iterates, result.info.accepted, result.info.trace]
    return [np.asarray(row) for part in parts if part is not None for row in (part if isinstance(part, list) else [part])]


def knapsack(d: int) -> Knapsack:
    rng = np.random.default_rng(d)
    return Knapsack(rng.integers(1, 9, (2, d)), np.full(2, 2 * d))


FLAT = np.tile([1.0, 0.0, 0.0, 0.0, 0.0, 0.0], (3, 1))  # many best solutions
CALLS = {
    "trace": lambda: mg.sample(Hypercube(6), FLAT, steps=700, chains=3, best=True, iterates=True, trace=7),
    "best": lambda: mg.sample(Hypercube(6), FLAT, steps=700, chains=3, best=True, trace=0),
    "schedule": lambda: mg.sample(TopK(10, k=3), np.ones(10), steps=900, chains=5, schedule=lambda k: 1.0 + k % 7, trace=0),
    "sizes": lambda: mg.sample([knapsack(5), knapsack(9), knapsack(5)], [np.ones(5), np.ones(9), np.ones(5)], steps=500, chains=2),
}


@pytest.mark.parametrize("name", CALLS)
def test_numbers_do_not_depend_on_threads_and_blocks(name, threads, monkeypatch):
    monkeypatch.setattr(host, "_SERIAL_STEPS", 0)
    wanted = flat(CALLS[name]())
    for count, pause, stretch in ((1, 0.0, 1 << 20), (2, 0.0, 1 << 20), (3, 10.0, 64), (2, 1e-5, 100)):
        threads(count)
        monkeypatch.setattr(host, "PAUSE_TICKS", int(pause * host.TICKS))
        monkeypatch.setattr(host, "_STRETCH", stretch)
        monkeypatch.setattr(host, "_LEAST_STRETCH", 1)
        for a, b in zip(flat(CALLS[name]()), wanted, strict=True):
            np.testing.assert_array_equal(a, b)


def test_annealing_by_steps_does_not_depend_on_blocks(threads, monkeypatch):
    problem, theta = knapsack(9), np.arange(18.0).reshape(2, 9)
    wanted = mg.solve(problem, theta, steps=3000, chains=2)
    monkeypatch.setattr(host, "PAUSE_TICKS", 0)
    monkeypatch.setattr(host, "_STRETCH", 200)
    monkeypatch.setattr(host, "_LEAST_STRETCH", 1)
    found = mg.solve(problem, theta, steps=3000, chains=2)
    np.testing.assert_array_equal(found.solution, wanted.solution)
    np.testing.assert_array_equal(found.info.accepted, wanted.info.accepted)


def test_observations_products_and_exact_steps_do_not_depend_on_blocks(monkeypatch):
    problem, y = TopK(5, k=2), np.array([[1, 1, 0, 0, 0], [0, 1, 0, 0, 1], [0, 0, 1, 1, 0]] * 5, np.uint8)
    theta = np.linspace(-1.0, 1.0, 75).reshape(15, 5)

    def everything():
        product = mg.jacobian_product(problem, theta, theta, steps=50, chains=2)
        return [_calls.observe(problem, y)[1], *mg.one_step(problem, theta, y), product]

    wanted = everything()
    monkeypatch.setattr(host, "PAUSE_TICKS", 0)
    for a, b in zip(everything(), wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def test_progress_is_told_between_pauses(threads, monkeypatch):
    monkeypatch.setattr(host, "PAUSE_TICKS", 0)
    monkeypatch.setattr(host, "_SERIAL_STEPS", 0)
    threads(2)
    seen: list[float] = []
    mg.sample(Hypercube(6), np.zeros((8, 6)), steps=100, trace=0, progress=seen.append)
    assert len(seen) > 8
    assert seen[-1] == max(seen) == 1.0


# --- time limits -----------------------------------------------------------------------------------------------------


def test_a_time_limit_is_looked_at_after_every_slow_step():
    out = mg.sample(SLOW, np.zeros(4), time_limit=0.01)
    assert out.info.steps.max() < 64


@pytest.mark.parametrize("chains", [1, 3])
def test_burn_in_longer_than_the_time_limit_is_told_and_leaves_the_last_solution(chains):
    with pytest.warns(
        RuntimeWarning, match=r"burn_in must be < the number of steps that fit into time_limit = 0.01, got 100000000000"
    ):
        out = mg.sample(Hypercube(6), np.zeros((2, 6)), time_limit=0.01, burn_in=10**11, chains=chains)
    np.testing.assert_allclose(out.mean, out.solutions.mean(1))


def test_burn_in_longer_than_the_time_limit_is_told_by_layer_and_loss():
    import torch

    layer = mg.torch.LocalSearchLayer(Hypercube(6), time_limit=0.001, burn_in=10**11)
    theta = torch.zeros(2, 6, requires_grad=True)
    with pytest.warns(RuntimeWarning, match="burn_in must be <"):
        layer(theta).sum().backward()
    np.testing.assert_array_equal(theta.grad, 0.0)  # one solution does not vary
    with pytest.warns(RuntimeWarning, match="burn_in must be <"):
        mg.torch.FenchelYoungLoss(layer)(theta, torch.zeros(2, 6)).backward()
    assert set(torch.unique(2 * theta.grad).tolist()) <= {0.0, 1.0}


def test_the_pilot_of_annealing_is_part_of_the_time_limit(monkeypatch):
    seen = []

    execute = HOST.execute

    def spy(batch, settings, *more):
        result = execute(batch, settings, *more)
        seen.append((settings.time_limit, int(result.steps.max())))
        return result

    monkeypatch.setattr(HOST, "execute", spy, raising=False)
    mg.solve(SLOW, np.ones(4), time_limit=0.02)
    *pilots, (rest, _) = seen  # a second one from random starts, where nothing changed in the first
    assert pilots
    for limit, steps in pilots:
        assert limit == pytest.approx(0.002)
        assert steps < 64
    assert 0.002 <= rest < 0.02


# --- Ctrl-C ----------------------------------------------------------------------------------------------------------


@contextmanager
def interrupt(seconds: float):
    """Ctrl-C after some time."""

    def handler(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


FOREVER = {
    "steps": {"steps": 10**12},
    "chains on two threads": {"steps": 10**12, "chains": 2},
    "burn-in": {"steps": 10**12, "burn_in": 10**11},
    "time limit": {"time_limit": 1e9, "burn_in": 10**11},
    "starts": {"steps": 1, "chains": 10**5},
    "starts under a time limit": {"time_limit": 1e-3, "chains": 10**5},
}


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a signal after some time")
@pytest.mark.parametrize("name", FOREVER)
def test_ctrl_c_is_heard(name, threads):
    """Each of these calls would take a quarter of an hour at least, and its first native block as long."""
    threads(2)
    mg.sample(SLOW, np.zeros(4), steps=1)  # compiled
    with pytest.raises(KeyboardInterrupt), interrupt(0.1):
        mg.sample(SLOW, np.zeros(4), trace=0, **FOREVER[name])


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a signal after some time")
def test_ctrl_c_is_heard_by_the_thread_that_waits_for_others(threads):
    """The first range of chains is done at once, the other one would take hours."""
    threads(2)
    problem, theta = SLOW, np.zeros((2, 4))
    batch, begin = shared_batch(HOST, problem, theta), Begin(problem.solution, np.zeros(2, np.int64))
    settings = _calls.make_settings(steps=1)._replace(steps=np.array([1, 10**12]))
    mg.sample(SLOW, np.zeros(4), steps=1)
    with pytest.raises(KeyboardInterrupt), interrupt(0.3):
        HOST.execute(batch, settings, begin, np.arange(2))


@pytest.mark.parametrize("start", ["random", "greedy"])
def test_a_time_limit_that_the_first_step_uses_up_is_one_step(start):
    problem, theta = mg.problems.Knapsack([[1.0, 2.0, 3.0, 4.0]], [5.0]), np.arange(4.0)
    for seed in range(5):
        out = mg.sample(problem, theta, time_limit=1e-9, start=start, seed=seed)
        one = mg.sample(problem, theta, steps=1, start=start, seed=seed)
        np.testing.assert_array_equal(out.mean, one.mean)
        assert out.info.steps.tolist() == [1]
        assert out.info.drawn.sum() == 1
