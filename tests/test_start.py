"""Where chains begin, how long they run, and what is found on the way."""

import pickle
from typing import NamedTuple

import numpy as np
import pytest

import movegrad as mg
from movegrad.problems import Hypercube, TopK
from movegrad.problems.hypercube import apply_flip, change_flip, propose_flip

TOP = TopK(8, 3)
CUBE = Hypercube(4)
LAZY = Hypercube(4, extra_moves=[mg.stay(1e9)])  # a chain of a few steps ends where it began
FROZEN = 1e9  # θ of this size holds a solution whose entries it agrees with


def hold(solutions):
    """θ under which chains that begin at these solutions of a hypercube stay there: where they end is where they began."""
    return FROZEN * (2.0 * np.asarray(solutions, float) - 1.0)


def began(out):
    """Starts of chains that were held."""
    assert out.info.accepted.sum() == 0
    return out.solutions


# --- random ----------------------------------------------------------------------------------------------------------

# Quantiles of the chi-square law with 5, 9 and 15 degrees of freedom that are passed once in 10⁶.
ONCE_IN_A_MILLION = {5: 35.89, 6: 38.26, 9: 44.81, 15: 56.49}


def assert_uniform(counts):
    counts = np.asarray(counts)
    expected = counts.sum() / len(counts)
    assert ((counts - expected) ** 2 / expected).sum() < ONCE_IN_A_MILLION[len(counts) - 1]


@pytest.mark.parametrize(("problem", "solutions"), [(TopK(5, 2), 10), (TopK(4, 2), 6), (Hypercube(4), 16)])
def test_random_starts_are_uniform(problem, solutions):
    # One step at θ = 0 keeps the uniform law, and is the least that a chain makes.
    state = mg.sample(problem, np.zeros(problem.size), steps=1, chains=20_000).solutions
    _, counts = np.unique(state, axis=0, return_counts=True)
    assert len(counts) == solutions
    assert_uniform(counts)


def test_random_is_the_default_start():
    theta = np.random.default_rng(0).normal(size=(2, 8))
    one, other = mg.sample(TOP, theta, steps=30), mg.sample(TOP, theta, steps=30, start="random")
    np.testing.assert_array_equal(one.mean, other.mean)


class Data(NamedTuple):
    unused: np.ndarray


class State(NamedTuple):
    y: np.ndarray


def test_random_is_the_problems_own_solution_where_it_cannot_draw():
    own = np.array([1, 0, 1], np.uint8)
    problem = mg.Problem(Data(np.zeros(1)), State(own), [mg.Move("flip", propose_flip, change_flip, apply_flip)], 3)
    out = mg.sample(problem, hold(own), steps=5, chains=3)
    np.testing.assert_array_equal(began(out), [own] * 3)
    np.testing.assert_array_equal(problem.solution, [1, 0, 1])


# --- heuristic -------------------------------------------------------------------------------------------------------


@mg.jit
def climb(data, guide, state):
    """The best solution for θ, but for the last bit."""
    for i in range(len(guide) - 1):
        state.y[i] = guide[i] > 0


CLIMBER = mg.Problem(Data(np.zeros(1)), State(np.zeros(3, np.uint8)), [mg.stay()], 3, improve=climb)


def test_heuristic_improves_given_solutions_for_their_theta():
    theta = np.array([[1.0, -1.0, 1.0], [-1.0, 2.0, 1.0]])
    out = mg.sample(CLIMBER, theta, steps=1, chains=2, start=mg.start.Heuristic([[0, 1, 1], [1, 1, 0]]))
    np.testing.assert_array_equal(out.solutions, [[[1, 0, 1]] * 2, [[0, 1, 0]] * 2])
    np.testing.assert_array_equal(out.mean, out.solutions[:, 0])


def test_heuristic_in_the_loss_improves_the_target():
    torch = pytest.importorskip("torch")
    loss = mg.torch.FenchelYoungLoss(mg.torch.LocalSearchLayer(CLIMBER, steps=1), start="heuristic")
    theta = torch.tensor([3.0, -1.0, 1.0], requires_grad=True)
    loss(theta, torch.tensor([0, 1, 1], dtype=torch.uint8)).backward()
    np.testing.assert_array_equal(theta.grad, [1.0, -1.0, 0.0])  # E[T(Y)] − T(y)


def test_heuristic_needs_a_problem_that_can_improve():
    with pytest.raises(ValueError, match=r"start must not be 'heuristic' where the problem has no improve, got TopK"):
        mg.sample(TOP, np.zeros(8), steps=1, start=mg.start.Heuristic(TOP.solution))


def test_heuristic_of_the_target_needs_one():
    with pytest.raises(ValueError, match=r"start must not be 'target' where no observations are given"):
        mg.sample(CLIMBER, np.zeros(3), steps=1, start="heuristic")


@mg.jit
def one_up(data, guide, state):
    """The first 0 becomes a 1: each call improves by one bit."""
    for i in range(len(guide)):
        if state.y[i] == 0:
            state.y[i] = 1
            break


@mg.jit
def all_zero(data, rng, y):
    for i in range(len(y)):
        y[i] = 0


@mg.jit
def last_bit(data, guide, state):
    for i in range(len(guide)):
        state.y[i] = i == len(guide) - 1


RISER = mg.Problem(
    Data(np.zeros(1)), State(np.zeros(3, np.uint8)), [mg.stay()], 3, improve=one_up, random=all_zero, greedy=last_bit
)
NESTED = {
    "heuristic of persistent": (lambda: mg.start.Heuristic(mg.start.Persistent()), [[1, 0, 0], [1, 1, 0], [1, 1, 1]]),
    "heuristic of the word": (lambda: mg.start.Heuristic("persistent"), [[1, 0, 0], [1, 1, 0], [1, 1, 1]]),
    "heuristic of heuristic": (
        lambda: mg.start.Heuristic(mg.start.Heuristic(mg.start.Persistent())),
        [[1, 0, 0], [1, 1, 0], [1, 1, 1]],
    ),
    "persistent after a heuristic": (lambda: mg.start.Persistent(mg.start.Heuristic("random")), [[1, 0, 0]] * 3),
    "persistent after a word": (lambda: mg.start.Persistent("greedy"), [[0, 0, 1]] * 3),
    "persistent after solutions": (lambda: mg.start.Persistent([0, 1, 0]), [[0, 1, 0]] * 3),
    "heuristic of a draw": (lambda: mg.start.Heuristic("random"), [[1, 0, 0]] * 3),
    "heuristic of what is built": (lambda: mg.start.Heuristic("greedy"), [[1, 0, 1]] * 3),
}


@pytest.mark.parametrize("name", NESTED)
def test_nested_starts_remember_and_improve(name):
    make, wanted = NESTED[name]
    start = make()
    states = [mg.sample(RISER, np.zeros(3), steps=1, chains=2, start=start, call=c).solutions for c in range(3)]
    np.testing.assert_array_equal(states, np.repeat(np.array(wanted)[:, None], 2, axis=1))


@pytest.mark.parametrize("name", NESTED)
def test_layers_with_nested_starts_go_on_after_saving_and_pickling(name):
    torch = pytest.importorskip("torch")
    make, wanted = NESTED[name]

    def fresh():
        return mg.torch.LocalSearchLayer(RISER, steps=1, start=make())

    layer, loaded = fresh(), fresh()
    layer(torch.zeros(3))
    loaded.load_state_dict(layer.state_dict())
    for copy in (loaded, pickle.loads(pickle.dumps(layer))):
        np.testing.assert_array_equal(copy(torch.zeros(3)), wanted[1])
        np.testing.assert_array_equal(copy(torch.zeros(3)), wanted[2])


def test_a_loss_saves_nested_starts():
    torch = pytest.importorskip("torch")
    loss, loaded = (
        mg.torch.FenchelYoungLoss(mg.torch.LocalSearchLayer(RISER, steps=1), start=mg.start.Heuristic("persistent"))
        for _ in range(2)
    )
    y = torch.tensor([0, 0, 0])
    loss(torch.ones(3), y)
    loaded.load_state_dict(loss.state_dict())
    assert loaded(torch.ones(3), y) == 2.0


def test_persistent_chains_that_begin_at_the_target_see_labels_of_floats():
    torch = pytest.importorskip("torch")
    start = mg.start.Persistent(mg.start.Heuristic())
    loss = mg.torch.FenchelYoungLoss(mg.torch.LocalSearchLayer(RISER, steps=1), start=start)
    assert loss(torch.ones(3), torch.tensor([1.0, 0.0, 0.0])) == 1.0
    np.testing.assert_array_equal(start.ends[0], [[1, 1, 0]])


@pytest.mark.parametrize(("saved", "start"), [("persistent", "random"), ("random", "persistent")])
def test_a_state_is_loaded_into_the_start_that_it_was_saved_with(saved, start):
    torch = pytest.importorskip("torch")
    layers = [mg.torch.LocalSearchLayer(TOP, steps=1, start=s) for s in (saved, start)]
    layers[0](torch.zeros(8))
    with pytest.raises(ValueError, match=r"start must be the one that the loaded state was saved with, got a state .*\."):
        layers[1].load_state_dict(layers[0].state_dict())


def test_a_state_with_other_chains_is_refused():
    torch = pytest.importorskip("torch")
    layers = [mg.torch.LocalSearchLayer(TOP, steps=1, start="persistent", chains=c) for c in (2, 3)]
    layers[0](torch.zeros(8))
    with pytest.raises(ValueError, match=r"chains must be 2 as in the loaded state, got 3\."):
        layers[1].load_state_dict(layers[0].state_dict())


# --- target and data -------------------------------------------------------------------------------------------------


def request(problem, targets, *, examples=1, chains=1, seed=0, call=0, index=None):
    keys = np.arange(examples) if index is None else np.asarray(index)
    return mg.start.Request([problem] * examples, chains, keys, targets, seed, call)


def test_target_starts_every_chain_of_an_example_at_its_observation():
    targets = np.eye(8, dtype=np.uint8)[:2]
    starts = mg.start.target(request(TOP, targets, examples=2, chains=3))
    np.testing.assert_array_equal(np.broadcast_to(starts, (2, 3, 8)), np.repeat(targets[:, None], 3, axis=1))


def test_target_needs_one_observation_for_each_example():
    with pytest.raises(ValueError, match=r"start must not be 'target' where 3 observations meet 2 rows of theta\."):
        mg.start.target(request(TOP, np.eye(8, dtype=np.uint8)[:3], examples=2))


@pytest.mark.parametrize("along", ["chains", "examples", "calls", "seeds"])
def test_data_draws_observations_uniformly(along):
    n, targets = 14_000, np.eye(7, dtype=np.uint8)
    if along == "chains":
        starts = mg.start.data(request(TOP, targets, chains=n))[0]
    elif along == "examples":
        starts = np.concatenate(mg.start.data(request(TOP, targets, examples=n, index=np.arange(n) - n // 2)))
    else:
        key = {"calls": "call", "seeds": "seed"}[along]
        starts = np.concatenate([mg.start.data(request(TOP, targets, **{key: k}))[0] for k in range(n)])
    assert starts.shape == (n, 7)
    assert (starts.sum(1) == 1).all()
    assert_uniform(starts.sum(0))


def test_data_draws_are_those_of_the_chain_alone():
    targets = np.eye(7, dtype=np.uint8)
    whole = mg.start.data(request(TOP, targets, examples=5, chains=3, seed=4, call=2))
    part = mg.start.data(request(TOP, targets, examples=2, chains=3, seed=4, call=2, index=[3, 1]))
    np.testing.assert_array_equal(part, [whole[3], whole[1]])


def test_the_loss_starts_at_the_target():
    torch = pytest.importorskip("torch")
    y = np.array([[1, 0, 1, 1], [0, 0, 1, 0]], np.uint8)
    loss = mg.torch.FenchelYoungLoss(mg.torch.LocalSearchLayer(Hypercube(4), steps=5, chains=2))
    value = loss(torch.tensor(hold(y)), torch.tensor(y))
    assert loss.layer.info.accepted.sum() == 0
    assert value == 0.0


@pytest.mark.parametrize("start", ["target", "data", "random", "persistent"])
def test_the_loss_takes_every_word(start):
    torch = pytest.importorskip("torch")
    y = np.array([[1, 0, 1, 1], [0, 0, 1, 0]], np.uint8)
    theta = torch.tensor(hold(y), requires_grad=True)
    loss = mg.torch.FenchelYoungLoss(mg.torch.LocalSearchLayer(Hypercube(4), steps=500, chains=2), start=start)
    # θ leads every chain to the observation within 500 steps of 4 bits (not so with probability 4·(3/4)⁵⁰⁰), whatever its start.
    for _ in range(2):
        loss(theta, torch.tensor(y), index=[0, 1]).backward()
    assert torch.isfinite(theta.grad).all()
    assert (theta.grad.abs() <= 0.5).all()


def test_many_observations_of_one_theta_start_at_data():
    """Chains that stay where they began: their average holds each of the three observations, and nothing else."""
    torch = pytest.importorskip("torch")
    y, theta = np.eye(4, dtype=np.uint8)[:3], torch.zeros(4, dtype=torch.float64, requires_grad=True)
    layer = mg.torch.LocalSearchLayer(LAZY, steps=1, chains=300)
    mg.torch.FenchelYoungLoss(layer, start="data")(theta, torch.tensor(y)).backward()
    mean = theta.grad.numpy() + y.mean(0)
    assert mean[:3].min() > 0.2
    assert mean[3] == 0.0
    assert np.isclose(mean.sum(), 1.0)


# --- given solutions -------------------------------------------------------------------------------------------------

A, B = np.array([1, 0, 1, 1]), np.array([0, 0, 1, 0])


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float32, bool])
def test_a_start_may_have_any_dtype_that_holds_the_solution(dtype):
    out = mg.sample(CUBE, hold(A), steps=5, start=A.astype(dtype))
    np.testing.assert_array_equal(began(out), [A])


def test_a_start_may_be_a_list():
    np.testing.assert_array_equal(began(mg.sample(CUBE, hold(A), steps=5, start=A.tolist())), [A])


def test_one_solution_starts_all_chains_of_all_examples():
    out = mg.sample(CUBE, np.stack([hold(A)] * 3), steps=5, chains=2, start=A)
    np.testing.assert_array_equal(began(out), np.broadcast_to(A, (3, 2, 4)))


def test_one_solution_for_each_example_starts_all_of_its_chains():
    out = mg.sample(CUBE, hold([A, B]), steps=5, chains=3, start=np.stack([A, B]))
    np.testing.assert_array_equal(began(out), np.stack([[A] * 3, [B] * 3]))


def test_one_solution_for_each_chain_of_one_example():
    state = mg.sample(LAZY, np.zeros(4), steps=1, chains=2, start=np.stack([A, B])).solutions
    np.testing.assert_array_equal(state, [A, B])


def test_one_solution_for_each_chain_of_each_example():
    starts = np.stack([[A, B, A], [B, B, A]])
    np.testing.assert_array_equal(mg.sample(LAZY, np.zeros((2, 4)), steps=1, chains=3, start=starts).solutions, starts)


def test_the_ends_of_a_run_are_starts_of_the_next_for_every_shape_of_theta():
    for shape in ((), (3,), (2, 3)):
        ends = mg.sample(CUBE, np.zeros((*shape, 4)), steps=50, chains=2).solutions
        again = mg.sample(LAZY, np.zeros((*shape, 4)), steps=1, chains=2, start=ends).solutions
        np.testing.assert_array_equal(again, ends)


def test_observations_have_the_shape_of_theta_for_one_step():
    theta = np.random.default_rng(0).normal(size=(2, 3, 4))
    y = (np.random.default_rng(1).random((2, 3, 4)) < 0.5).astype(np.uint8)
    loss, gradient = mg.one_step(CUBE, theta, y)
    assert loss.shape == (2, 3)
    assert gradient.shape == (2, 3, 4)
    flat, flat_gradient = mg.one_step(CUBE, theta.reshape(6, 4), y.reshape(6, 4))
    np.testing.assert_array_equal(loss.reshape(6), flat)
    np.testing.assert_array_equal(gradient.reshape(6, 4), flat_gradient)


def test_a_list_of_problems_takes_a_list_of_starts():
    problems, starts = [Hypercube(2), Hypercube(4)], [np.array([1, 0]), B]
    out = mg.sample(problems, [hold(s) for s in starts], steps=5, chains=2, start=starts)
    for state, start in zip(out.solutions, starts, strict=True):
        np.testing.assert_array_equal(state, [start] * 2)


# --- callables -------------------------------------------------------------------------------------------------------


def test_a_callable_is_asked_once_and_told_everything():
    seen = []

    def start(asked):
        seen.append(asked)
        return [np.stack([A, B])] * 2

    out = mg.sample(LAZY, np.zeros((2, 4)), steps=1, chains=2, start=start, index=[7, 5], seed=3, call=9)
    np.testing.assert_array_equal(out.solutions, [[A, B]] * 2)
    (asked,) = seen
    assert asked.problems == [LAZY, LAZY]
    assert asked.chains == 2
    assert asked.targets is None
    assert asked.indices.tolist() == [7, 5]
    assert asked.seed == 3
    assert asked.call == 9


def test_a_callable_may_leave_examples_to_a_uniform_draw():
    theta = np.stack([hold(A), np.zeros(4)])
    mixed = mg.sample(CUBE, theta, steps=20, chains=2, start=lambda asked: [np.stack([A, A]), None])
    drawn = mg.sample(CUBE, theta, steps=20, chains=2)
    np.testing.assert_array_equal(mixed.solutions[0], [A, A])
    np.testing.assert_array_equal(mixed.solutions[1], drawn.solutions[1])


def test_a_heuristic_start_is_as_good_as_its_solution():
    theta = np.random.default_rng(0).normal(size=(3, 8))

    def greedy(asked):
        return [np.isin(np.arange(8), np.argsort(row)[-3:])[None] for row in theta]

    found = mg.solve(TOP, theta, steps=1, start=greedy)
    np.testing.assert_allclose(found.objective, np.sort(theta, -1)[:, -3:].sum(-1), rtol=1e-12)


def test_a_bad_start_of_one_example_stops_the_others_soon():
    """Whichever thread finds it: nobody waits for hours to read about a wrong start."""
    before, calls, starts = mg.get_threads(), [], np.stack([TOP.solution, np.zeros(8, np.uint8)])
    mg.set_threads(2)
    try:
        with pytest.raises(ValueError, match="start must be in the set"):
            mg.sample(TOP, np.zeros((2, 8)), steps=60 << 20, trace=0, start=starts, progress=calls.append)
    finally:
        mg.set_threads(before)
    assert len(calls) < 60  # blocks of steps


# --- persistent chains -----------------------------------------------------------------------------------------------


def test_a_persistent_chain_begins_with_a_uniform_draw():
    theta = np.random.default_rng(0).normal(size=(3, 8))
    first = mg.sample(TOP, theta, steps=30, chains=2, start=mg.start.Persistent())
    np.testing.assert_array_equal(first.solutions, mg.sample(TOP, theta, steps=30, chains=2).solutions)


def test_a_persistent_chain_may_begin_elsewhere():
    persistent = mg.start.Persistent(first=lambda asked: [np.stack([A, B])])
    np.testing.assert_array_equal(mg.sample(LAZY, np.zeros(4), steps=1, chains=2, start=persistent).solutions, [A, B])


def test_persistent_chains_continue_where_they_ended():
    theta, persistent = np.random.default_rng(0).normal(size=(3, 8)), mg.start.Persistent()
    ends = mg.sample(TOP, theta, steps=20, chains=2, start=persistent).solutions
    for call in range(1, 4):
        wanted = mg.sample(TOP, theta, steps=20, chains=2, start=ends, call=call)
        got = mg.sample(TOP, theta, steps=20, chains=2, start=persistent, call=call)
        np.testing.assert_array_equal(got.mean, wanted.mean)
        np.testing.assert_array_equal(got.solutions, wanted.solutions)
        ends = got.solutions


def test_persistent_chains_are_found_by_key_in_any_batch():
    rng = np.random.default_rng(0)
    theta, persistent = rng.normal(size=(6, 8)), mg.start.Persistent()
    ends = {}
    for call in range(12):
        keys = rng.permutation(6)[: rng.integers(1, 7)]
        known = np.array([k in ends for k in keys])

        def resumed(asked, keys=keys, known=known):
            return [ends[k] if seen else None for k, seen in zip(keys, known, strict=True)]

        wanted = mg.sample(TOP, theta[keys], steps=15, chains=2, start=resumed, index=keys, call=call)
        got = mg.sample(TOP, theta[keys], steps=15, chains=2, start=persistent, index=keys, call=call)
        np.testing.assert_array_equal(got.mean, wanted.mean)
        np.testing.assert_array_equal(got.solutions, wanted.solutions)
        ends.update(zip(keys.tolist(), got.solutions, strict=True))
    assert len(ends) == 6


def test_what_is_done_with_a_result_does_not_move_persistent_chains():
    persistent = mg.start.Persistent()
    out = mg.sample(CUBE, np.zeros(4), steps=20, start=persistent)
    wanted = out.solutions.copy()
    out.solutions[:] = 1 - out.solutions
    np.testing.assert_array_equal(persistent.ends[0], wanted)


def test_persistent_chains_of_a_list_of_problems():
    problems, persistent = [TopK(5, 2), TopK(9, 3)], mg.start.Persistent()
    theta = [np.zeros(5), np.zeros(9)]
    ends = mg.sample(problems, theta, steps=20, chains=2, start=persistent).solutions
    wanted = mg.sample(problems, theta, steps=20, chains=2, start=ends, call=1)
    got = mg.sample(problems[::-1], theta[::-1], steps=20, chains=2, start=persistent, index=[1, 0], call=1)
    for one, other in zip(got.solutions[::-1], wanted.solutions, strict=True):
        np.testing.assert_array_equal(one, other)


def test_persistent_chains_keep_their_number():
    persistent = mg.start.Persistent()
    mg.sample(TOP, np.zeros(8), steps=5, chains=2, start=persistent)
    with pytest.raises(ValueError, match=r"chains must be 2 as in the calls before, got 3\."):
        mg.sample(TOP, np.zeros(8), steps=5, chains=3, start=persistent)


def test_the_word_persistent_continues_a_layer():
    torch = pytest.importorskip("torch")
    theta = np.random.default_rng(0).normal(size=(3, 8))
    layer = mg.torch.LocalSearchLayer(TOP, steps=20, chains=2, start="persistent")
    layer(torch.tensor(theta))
    ends = np.stack([layer.start.ends[key] for key in range(3)])
    got = layer(torch.tensor(theta[[2, 0]]), index=[2, 0]).numpy()
    wanted = mg.sample(TOP, theta[[2, 0]], steps=20, chains=2, start=ends[[2, 0]], index=[2, 0], call=1)
    np.testing.assert_array_equal(got, wanted.mean)


def test_many_observations_of_one_theta_continue_the_same_chains():
    torch = pytest.importorskip("torch")
    y = mg.exact.sample(TOP, np.zeros(8), 10)
    layer = mg.torch.LocalSearchLayer(TOP, steps=20, chains=2)
    loss = mg.torch.FenchelYoungLoss(layer)
    theta = torch.zeros(8, dtype=torch.float64)
    loss(theta, torch.tensor(y))
    ends = loss.persistent.ends[0].copy()
    loss(theta, torch.tensor(y[:5]))
    wanted = mg.sample(TOP, np.zeros(8), steps=20, chains=2, start=ends, call=1)
    np.testing.assert_array_equal(loss.persistent.ends[0], wanted.solutions)


def test_a_saved_loss_continues_where_it_was(tmp_path):
    torch = pytest.importorskip("torch")

    def make():
        return mg.torch.FenchelYoungLoss(mg.torch.LocalSearchLayer(TOP, steps=20, chains=2), reduction="none")

    y, theta = torch.tensor(mg.exact.sample(TOP, np.zeros(8), 10)), torch.linspace(-1, 1, 8)
    one, other = make(), make()
    one(theta, y)
    torch.save(one.state_dict(), tmp_path / "loss.pt")
    other.load_state_dict(torch.load(tmp_path / "loss.pt", weights_only=True))
    assert torch.equal(one(theta, y), other(theta, y))


# --- starts on a device ------------------------------------------------------------------------------------------------

EXAMPLES, CHAINS = 3, 2
ROWS = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0]], np.uint8)
ON_DEVICE = {
    "target": lambda device: mg.start.target,
    "data": lambda device: mg.start.data,
    "random": lambda device: mg.start.random,
    "greedy": lambda device: mg.start.greedy,
    "one solution": lambda device: mg.start.Given(device(ROWS[1])),
    "one for each example": lambda device: mg.start.Given(device(ROWS)),
    "one for each chain": lambda device: mg.start.Given(device(np.repeat(ROWS[:, None], CHAINS, axis=1))),
    "a callable": lambda device: lambda request: [device(ROWS[:CHAINS]), None, ROWS[1:]],
    "heuristic": lambda device: mg.start.Heuristic(),
    "heuristic of data": lambda device: mg.start.Heuristic("data"),
    "heuristic of a draw": lambda device: mg.start.Heuristic("random"),
    "heuristic of what is built": lambda device: mg.start.Heuristic("greedy"),
    "heuristic of a callable": lambda device: mg.start.Heuristic(lambda request: [device(ROWS[:CHAINS]), None, ROWS[1:]]),
    "heuristic of persistent": lambda device: mg.start.Heuristic(remembering(device, mg.start.Persistent())),
    "persistent": lambda device: remembering(device, mg.start.Persistent()),
    "persistent after the target": lambda device: remembering(device, mg.start.Persistent("target")),
    "persistent after a heuristic": lambda device: remembering(device, mg.start.Persistent(mg.start.Heuristic())),
}


def remembering(device, persistent):
    """Where one of three examples is known."""
    persistent.remember(np.array([1]), [device(ROWS[1:])])
    return persistent


@pytest.mark.parametrize("name", ON_DEVICE)
def test_starts_on_a_device_are_those_of_the_host(name, monkeypatch):
    """Tensors of the CPU stand for those of a GPU."""
    torch = pytest.importorskip("torch")
    from movegrad.cuda import Device, arrays
    from movegrad.engine import BUILD, DRAW, HOST

    asked = request(RISER, ROWS, examples=EXAMPLES, chains=CHAINS)
    wanted = mg.start.flatten(mg.start.asked(ON_DEVICE[name](np.array), asked), asked, HOST)
    device = Device(arrays.TorchArrays(torch.device("cpu")))
    monkeypatch.setattr(mg.start, "on_gpu", lambda value: isinstance(value, torch.Tensor))
    monkeypatch.setattr(mg.start, "place_of", lambda value: device)
    given = mg.start.asked(ON_DEVICE[name](torch.tensor), asked := asked._replace(targets=torch.tensor(ROWS)))
    got = mg.start.flatten(given, asked, device)
    assert isinstance(got.solutions, torch.Tensor)
    np.testing.assert_array_equal(got.pending, wanted.pending)
    made = np.repeat(wanted.pending & (DRAW | BUILD) != 0, CHAINS)  # what is given does not matter then
    rows = [spread(solutions) for solutions in (got.solutions.numpy(), wanted.solutions)]
    np.testing.assert_array_equal(rows[0][~made], rows[1][~made])


def spread(solutions):
    """One for each chain, of one for each chain, for each example or for all."""
    rows = solutions.reshape(-1, 3)
    return np.repeat(rows, EXAMPLES * CHAINS // len(rows), axis=0)


# --- time limits -----------------------------------------------------------------------------------------------------


# No upper bounds on time here: a busy machine may stretch anything. The benchmarks show how well limits are kept.


def test_a_time_limit_is_used_up():
    out = mg.sample(TOP, np.zeros(8), time_limit=0.2, chains=3)
    assert out.info.seconds > 0.15
    assert out.info.steps[0] >= 64


def test_a_time_limit_is_for_each_example():
    before = mg.get_threads()
    mg.set_threads(1)
    try:
        out = mg.sample(TOP, np.zeros((4, 8)), time_limit=0.05)
    finally:
        mg.set_threads(before)
    assert out.info.seconds > 4 * 0.04
    assert (out.info.steps >= 64).all()


def test_the_least_time_makes_some_steps():
    out = mg.sample(TOP, np.zeros(8), time_limit=1e-9)
    assert out.info.steps[0] >= 1
    assert np.isclose(out.mean.sum(), 3)


def test_a_burn_in_longer_than_the_time_is_said_to_be_so():
    with pytest.warns(RuntimeWarning, match=r"burn_in must be < the number of steps that fit into time_limit"):
        out = mg.sample(TOP, np.zeros(8), time_limit=1e-4, burn_in=10**11)
    assert 1 <= out.info.steps[0] < 10**11
    np.testing.assert_array_equal(out.mean, out.solutions[0])  # of the last solution alone


@pytest.mark.parametrize("writeable", [True, False])
def test_compiling_does_not_count_as_time(writeable):
    """Nor does it where θ is read-only, as arrays of other libraries often are."""
    theta = np.zeros(6)
    theta.setflags(write=writeable)
    move = mg.Move("flip", mg.jit(propose_flip.py_func), mg.jit(change_flip.py_func), mg.jit(apply_flip.py_func))
    mixed = Hypercube(6, extra_moves=[move])
    mg.sample(mixed, np.zeros(6), steps=1)
    steps = [mg.sample(mixed, theta, time_limit=0.05).info.steps[0] for _ in range(3)]
    assert max(steps) > 64  # a first block, and more


def test_a_layer_takes_a_time_limit_and_differentiates_the_chains_that_ran():
    torch = pytest.importorskip("torch")
    theta = torch.tensor(np.random.default_rng(0).normal(size=(2, 8)), requires_grad=True)
    layer = mg.torch.LocalSearchLayer(TOP, time_limit=0.01)
    direction = torch.linspace(-1, 1, 8, dtype=torch.float64)
    (layer(theta) * direction).sum().backward()
    for e, steps in enumerate(layer.info.steps):
        wanted = mg.jacobian_product(TOP, theta[e].detach().numpy(), direction.numpy(), steps=int(steps), index=[e])
        np.testing.assert_array_equal(theta.grad[e].numpy(), wanted)


# --- solve and best-seen ---------------------------------------------------------------------------------------------


def test_solve_finds_the_largest_entries():
    theta = np.random.default_rng(0).normal(size=(20, 8))
    found = mg.solve(TOP, theta, steps=3_000, chains=2)
    np.testing.assert_array_equal(np.argsort(-theta, -1)[:, :3].sum(-1), (found.solution * np.arange(8)).sum(-1))
    np.testing.assert_allclose(found.objective, np.sort(theta, -1)[:, -3:].sum(-1), rtol=1e-12)


@pytest.mark.parametrize("scale", [1e-200, 1e-6, 1.0, 1e6, 1e200])
def test_solve_finds_the_optimum_at_any_scale(scale):
    theta = scale * np.random.default_rng(1).normal(size=(5, 10))
    found = mg.solve(Hypercube(10), theta, steps=2_000)
    np.testing.assert_array_equal(found.solution, theta > 0)


@mg.jit
def pairs(y):
    total = 0.0
    for i in range(len(y) - 1):
        total += 1.5 * y[i] * y[i + 1]
    return total


def test_solve_finds_the_optimum_of_a_nonlinear_objective():
    problem = TopK(9, 4, phi=pairs)
    table = mg.exact.Enumeration(problem)
    theta = np.random.default_rng(2).normal(size=(10, 9))
    found = mg.solve(problem, theta, steps=5_000, chains=2)
    np.testing.assert_allclose(found.objective, (theta @ table.statistics.T + table.phi).max(-1), rtol=1e-12)


def test_solve_finds_the_optimum_within_a_time_limit():
    theta = np.random.default_rng(0).normal(size=8)
    found = max(mg.solve(TOP, theta, time_limit=0.05, seed=s).objective for s in range(3))
    assert found == pytest.approx(np.sort(theta)[-3:].sum())


@pytest.mark.parametrize("schedule", [mg.schedules.Annealing(2.0, 1e-3), mg.schedules.truncated_geometric(2.0, 0.995, 1e-3)])
def test_solve_takes_a_schedule(schedule):
    theta = np.random.default_rng(0).normal(size=(3, 8))
    found = mg.solve(TOP, theta, steps=3_000, schedule=schedule)
    np.testing.assert_allclose(found.objective, np.sort(theta, -1)[:, -3:].sum(-1), rtol=1e-12)


@pytest.mark.parametrize("shape", [(8,), (3, 8), (3, 2, 8)])
def test_solve_takes_given_solutions_as_start(shape):
    theta = np.random.default_rng(0).normal(size=(3, 8))
    found = mg.solve(TOP, theta, steps=3_000, chains=2, start=np.broadcast_to(TOP.solution, shape))
    np.testing.assert_allclose(found.objective, np.sort(theta, -1)[:, -3:].sum(-1), rtol=1e-12)


def test_solve_never_returns_less_than_its_start():
    theta = np.random.default_rng(0).normal(size=8)
    best = np.isin(np.arange(8), np.argsort(theta)[-3:])
    found = mg.solve(TOP, theta, steps=50, start=best.tolist(), schedule=lambda k: 1e6)
    np.testing.assert_array_equal(found.solution, best)


@pytest.mark.parametrize("seed", range(5))
def test_the_objective_of_solve_is_that_of_its_solution(seed):
    """Recomputed, not the sum of thousands of gains of very different size."""
    theta = np.r_[-1e16, np.random.default_rng(0).normal(size=9)]
    found = mg.solve(Hypercube(10), theta, steps=2_000, schedule=mg.schedules.Annealing(1e16, 1e-3), seed=seed)
    assert found.objective == pytest.approx(theta @ found.solution, rel=1e-12)


@pytest.mark.parametrize("temperature", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("problem", [TOP, Hypercube(8), TopK(8, 3, phi=pairs)], ids=["top-k", "hypercube", "top-k with phi"])
def test_the_best_seen_is_the_best_of_the_start_and_all_iterates(problem, temperature):
    rng = np.random.default_rng(3)
    theta, start = rng.normal(size=(4, 8)), np.array([1, 1, 1, 0, 0, 0, 0, 0])
    out = mg.sample(problem, theta, steps=200, chains=3, temperature=temperature, best=True, trace=200, iterates=True, start=start)
    phi = problem.functions.phi

    def objective(solutions):
        flat = solutions.reshape(-1, 8)
        extra = np.array([0.0 if phi is None else phi(problem.data, y) for y in flat]).reshape(solutions.shape[:-1])
        return (solutions * theta.reshape(4, *[1] * (solutions.ndim - 2), 8)).sum(-1) + extra

    seen = np.maximum(objective(out.iterates).max(-1), objective(np.broadcast_to(start, (4, 1, 8)).astype(np.uint8)))
    np.testing.assert_allclose(objective(out.best), seen, rtol=0, atol=1e-9)
    assert (objective(out.best) >= objective(out.solutions) - 1e-9).all()


def test_the_best_seen_is_no_worse_than_the_end_where_scales_of_theta_differ():
    """While the large entry is still flipped, the running objective is rounded to multiples of 2."""
    theta = np.r_[-1e16, np.random.default_rng(0).normal(size=9)]
    out = mg.sample(Hypercube(10), theta, steps=4_000, chains=100, schedule=mg.schedules.Annealing(1e16, 1e-3), best=True)
    assert (out.best @ theta >= out.solutions @ theta).all()


def test_solve_returns_the_best_of_its_chains():
    theta = np.random.default_rng(4).normal(size=(6, 8))
    schedule = mg.schedules.constant(1.0)
    found = mg.solve(TOP, theta, steps=5, chains=4, schedule=schedule)
    seen = mg.sample(TOP, theta, steps=5, chains=4, best=True, schedule=schedule).best
    np.testing.assert_allclose(found.objective, (seen * theta[:, None]).sum(-1).max(-1), rtol=1e-12)
    np.testing.assert_allclose((found.solution * theta).sum(-1), found.objective, rtol=1e-12)
