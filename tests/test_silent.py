"""What a user may do by accident is refused, or changes nothing: no wrong number without a word."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import pytest

import movegrad as mg
from movegrad.problems import Hypercube, Knapsack, TopK
from movegrad.problems.hypercube import apply_flip, change_flip, propose_flip

TOP = TopK(8, 3)
CUBE = Hypercube(4)

# --- arrays that the caller changes later ------------------------------------------------------------------------------


class Data(NamedTuple):
    bonus: np.ndarray


class State(NamedTuple):
    y: np.ndarray


@mg.jit
def bonus_of(data, y):
    total = 0.0
    for i in range(len(y)):
        total += data.bonus[i] * y[i]
    return total


@mg.jit
def gain_of(data, state, i):
    return data.bonus[i] * (1 - 2 * state.y[i])


FLIP = mg.Move("flip", propose_flip, change_flip, apply_flip, gain=gain_of)


def with_bonus(bonus, y=(0, 0, 0)):
    """Bits with a term φ: what data hold matters to kernels, ``check`` and ``exact``."""
    return mg.Problem(Data(bonus), State(y if isinstance(y, np.ndarray) else np.array(y, np.uint8)), [FLIP], 3, phi=bonus_of)


def test_a_problem_keeps_the_data_and_the_state_that_it_was_made_of():
    bonus, y = np.array([1.0, 0.0, -1.0]), np.array([0, 1, 0], np.uint8)
    problem = with_bonus(bonus, y)
    bonus[:], y[:] = 100.0, 1
    np.testing.assert_array_equal(problem.data.bonus, [1.0, 0.0, -1.0])
    np.testing.assert_array_equal(problem.solution, [0, 1, 0])
    fresh = with_bonus(np.array([1.0, 0.0, -1.0]), np.array([0, 1, 0], np.uint8))
    np.testing.assert_array_equal(mg.exact.marginals(problem, np.zeros(3)), mg.exact.marginals(fresh, np.zeros(3)))
    for one, other in zip(*(mg.sample(p, np.zeros(3), steps=50)[:2] for p in (problem, fresh)), strict=True):
        np.testing.assert_array_equal(one, other)
    assert mg.check(problem).ok


@pytest.mark.parametrize(
    "copied", [lambda p: p, copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))], ids=["", "deep copy", "pickle"]
)
def test_the_arrays_of_a_problem_are_read_only(copied):
    problem = copied(TopK(6, 2, guided=True))
    for array in (*problem.data, *problem.state, problem.solution):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 1


@pytest.mark.parametrize("name", ["data", "state", "moves", "functions", "size"])
def test_a_part_of_a_problem_is_not_replaced(name):
    problem = with_bonus(np.zeros(3))
    with pytest.raises(AttributeError, match=rf"{name} of Problem must stay .* make a new problem\."):
        setattr(problem, name, getattr(problem, name))


def test_the_weights_of_a_knapsack_are_read_only_where_they_are_listed():
    weights = np.ones((1, 4))
    problem = Knapsack(weights, [2.0])
    weights[:] = 0.0
    assert len(mg.exact.Enumeration(problem).solutions) == 11
    with pytest.raises(ValueError, match="read-only"):
        problem.weights_and_capacities[0][:] = 0.0


def test_a_phi_given_as_an_array_is_that_of_the_closed_form():
    phi = np.array([3.0, 0.0, 0.0, 0.0])
    problem = Hypercube(4, phi=phi)
    phi[:] = 0.0
    assert mg.exact.marginals(problem, np.zeros(4))[0] > 0.9
    with pytest.raises(ValueError, match="read-only"):
        problem.oracle.phi.linear[:] = 0.0


HELD = 1e9 * (2.0 * np.array([1, 0, 1, 1]) - 1.0)  # θ under which a chain that begins there stays


@pytest.mark.parametrize("kind", ["array", "list of arrays", "tensor"])
def test_a_start_that_lasts_keeps_the_solutions_that_it_was_made_of(kind):
    torch = pytest.importorskip("torch")
    array = np.array([1, 0, 1, 1], np.uint8)
    given = {"array": array, "list of arrays": [array], "tensor": torch.from_numpy(array)}[kind]
    layer = mg.torch.LocalSearchLayer(CUBE, steps=3, start=given)
    array[:] = 0
    np.testing.assert_array_equal(layer(torch.tensor(HELD)[None])[0], [1, 0, 1, 1])


def test_a_start_may_change_between_forward_and_backward():
    """The backward pass runs the chains again, from where they began."""
    torch = pytest.importorskip("torch")
    gradients = []
    for later in (np.ones(4, np.uint8), np.zeros(4, np.uint8)):
        start, theta = np.ones(4, np.uint8), torch.linspace(-1, 1, 4, dtype=torch.float64).requires_grad_()
        mean = mg.torch.LocalSearchLayer(CUBE, steps=5)(theta, start=lambda request, start=start: [start[None]])
        start[:] = later
        (mean * torch.arange(4.0)).sum().backward()
        gradients.append(theta.grad)
    assert torch.equal(*gradients)


def test_keys_may_change_between_forward_and_backward():
    torch = pytest.importorskip("torch")
    gradients = []
    for later in ([7, 8], [0, 0]):
        index, theta = np.array([7, 8]), torch.zeros(2, 4, dtype=torch.float64).requires_grad_()
        mean = mg.torch.LocalSearchLayer(CUBE, steps=5)(theta, index=index)
        index[:] = later
        (mean * torch.arange(4.0)).sum().backward()
        gradients.append(theta.grad)
    assert torch.equal(*gradients)


@pytest.mark.parametrize("changed", ["theta", "guide"])
def test_torch_complains_where_theta_or_guide_change_between_forward_and_backward(changed):
    torch = pytest.importorskip("torch")
    leaf, guide = torch.zeros(2, 6, dtype=torch.float64, requires_grad=True), torch.ones(2, 6, dtype=torch.float64)
    theta = leaf * 1.0
    mean = mg.torch.LocalSearchLayer(TopK(6, 2, guided=True), steps=5)(theta, guide=guide)
    (theta if changed == "theta" else guide).data.add_(0.0)  # the version counter does not see this, and nothing changed
    with torch.no_grad():
        (theta if changed == "theta" else guide).add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        mean.sum().backward()


@pytest.mark.parametrize("loss", ["Fenchel-Young", "one step"])
def test_torch_complains_where_theta_changes_between_loss_and_backward(loss):
    torch = pytest.importorskip("torch")
    losses = {
        "Fenchel-Young": mg.torch.FenchelYoungLoss(mg.torch.LocalSearchLayer(TOP, steps=5)),
        "one step": mg.torch.OneStepLoss(TOP),
    }
    theta = torch.zeros(8, dtype=torch.float64, requires_grad=True)
    value = losses[loss](theta, TOP.solution)
    with torch.no_grad():
        theta.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        value.backward()


def test_labels_may_change_after_the_loss():
    torch = pytest.importorskip("torch")
    gradients = []
    for later in (0, 1):
        y = torch.tensor([[1, 1, 0, 0], [0, 0, 1, 1]], dtype=torch.uint8)
        theta = torch.zeros(4, dtype=torch.float64, requires_grad=True)
        loss = mg.torch.FenchelYoungLoss(mg.torch.LocalSearchLayer(CUBE, steps=2, chains=3), start="data")(theta, y)
        y[:] = later
        loss.backward()
        gradients.append(theta.grad)
    assert torch.equal(*gradients)


def test_the_ends_of_persistent_chains_are_read_only_and_not_shared():
    torch = pytest.importorskip("torch")
    layer = mg.torch.LocalSearchLayer(TOP, steps=5, start="persistent")
    layer(torch.zeros(8))
    ends = layer.start.ends[0].copy()
    with pytest.raises(ValueError, match="read-only"):
        layer.start.ends[0][:] = 0
    saved = layer.state_dict()["_extra_state"]
    saved["ends"][0][:] = 0
    np.testing.assert_array_equal(layer.start.ends[0], ends)
    saved["ends"][0][:] = torch.from_numpy(ends.copy())
    layer.set_extra_state(saved)
    saved["ends"][0][:] = 0
    np.testing.assert_array_equal(layer.start.ends[0], ends)


# --- second derivatives ------------------------------------------------------------------------------------------------


def functions_of_theta():
    y, layer = TOP.solution, lambda: mg.torch.LocalSearchLayer(TOP, steps=20)
    return {
        "layer": lambda theta: layer()(theta).square().sum(),
        "linear in the layer": lambda theta: layer()(theta)[0],
        "Fenchel-Young": lambda theta: mg.torch.FenchelYoungLoss(layer())(theta, y),
        "one step": lambda theta: mg.torch.OneStepLoss(TOP)(theta, y),
    }


def gradient_of_gradient(torch, f, theta):
    (gradient,) = torch.autograd.grad(f(theta) + theta.square().sum(), theta, create_graph=True)  # the sum has a second derivative
    return torch.autograd.grad(gradient.sum(), theta)


def hessian(torch, f, theta):
    return torch.autograd.functional.hessian(f, theta)


def forward_over_reverse(torch, f, theta):
    forward = torch.autograd.forward_ad
    with forward.dual_level():
        (gradient,) = torch.autograd.grad(f(forward.make_dual(theta, torch.ones_like(theta))), theta)
        return forward.unpack_dual(gradient).tangent


def reverse_over_forward(torch, f, theta):
    forward = torch.autograd.forward_ad
    with forward.dual_level():
        return torch.autograd.grad(forward.unpack_dual(f(forward.make_dual(theta, theta.detach()))).tangent, theta)


@pytest.mark.parametrize("way", [gradient_of_gradient, hessian, forward_over_reverse, reverse_over_forward])
@pytest.mark.parametrize("name", ["layer", "linear in the layer", "Fenchel-Young", "one step"])
def test_a_second_derivative_is_an_error(name, way):
    torch = pytest.importorskip("torch")
    theta = torch.linspace(-1, 1, 8, dtype=torch.float64).requires_grad_()
    with pytest.raises(RuntimeError, match=r"theta must not be differentiated twice: .*\."):
        way(torch, functions_of_theta()[name], theta)


@pytest.mark.parametrize("name", ["Fenchel-Young", "one step"])
def test_forward_mode_of_the_losses_equals_backward_mode(name):
    torch = pytest.importorskip("torch")
    f, v = functions_of_theta()[name], torch.arange(8.0, dtype=torch.float64)
    theta = torch.linspace(-1, 1, 8, dtype=torch.float64).requires_grad_()
    (gradient,) = torch.autograd.grad(f(theta), theta)
    forward = torch.autograd.forward_ad
    with forward.dual_level():
        tangent = forward.unpack_dual(f(forward.make_dual(theta.detach(), v))).tangent
    torch.testing.assert_close(tangent, gradient @ v)


def test_one_step_loss_of_one_example_is_a_number():
    torch = pytest.importorskip("torch")
    assert mg.torch.OneStepLoss(TOP, reduction="none")(torch.zeros(8), TOP.solution).shape == ()


# --- calls that are counted --------------------------------------------------------------------------------------------


def test_threads_never_share_draws():
    """Each of 200 calls from 8 threads has a number of its own, and gives what that number gives."""
    torch = pytest.importorskip("torch")
    layer, theta = mg.torch.LocalSearchLayer(Hypercube(64), steps=200), torch.zeros(64, dtype=torch.float64)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: layer(theta), range(200)))
    assert layer.calls == 200
    alone = mg.torch.LocalSearchLayer(Hypercube(64), steps=200)
    assert sorted(m.tolist() for m in found) == sorted(alone(theta).tolist() for _ in range(200))


def test_a_call_may_be_given_its_number():
    torch = pytest.importorskip("torch")
    layer, theta = mg.torch.LocalSearchLayer(TOP, steps=20), torch.zeros(8)
    counted = [layer(theta) for _ in range(3)]
    assert torch.equal(layer(theta, call=1), counted[1])
    assert layer.calls == 3
    loss = mg.torch.FenchelYoungLoss(layer)
    assert torch.equal(loss(theta + 1, TOP.solution, call=7), loss(theta + 1, TOP.solution, call=7))
    assert layer.calls == 3
    with pytest.raises(ValueError, match=r"call must be in 0\.\..*, got -1\."):
        layer(theta, call=-1)


def segment(layers, losses, y):
    """A function whose gradient has parts of all kinds: layers twice at the same θ, in nonlinear functions, and a loss."""

    def run(x):
        theta = x * 2.0
        first, second = (layers[0](theta, index=[0, 1]) for _ in range(2))
        third = layers[1](theta.tanh(), index=[0, 1])
        return ((first - 0.3).square() * (second + 1.0)).sum() + (third.exp() * first).sum() + losses(theta, y)

    return run


def checkpointed(way, run, x):
    from torch.utils.checkpoint import checkpoint

    if way in (True, False):
        return checkpoint(run, x, use_reentrant=way) + checkpoint(run, -x, use_reentrant=way)
    if way == "nested":
        return checkpoint(lambda x: checkpointed(True, run, x), x, use_reentrant=False)
    return run(x) + run(-x)


@pytest.mark.parametrize("way", [True, False, "nested"], ids=["reentrant", "not reentrant", "nested"])
@pytest.mark.parametrize("start", ["random", "persistent"])
@pytest.mark.parametrize("backwards", [1, 2])
def test_a_checkpointed_segment_is_run_again_with_the_same_draws(way, start, backwards):
    torch = pytest.importorskip("torch")
    y, results = np.stack([TOP.solution] * 2), {}
    for how in (None, way):
        layers = [mg.torch.LocalSearchLayer(TOP, steps=20, start=start, seed=s) for s in (1, 2)]
        x = torch.linspace(-1, 1, 16, dtype=torch.float64).reshape(2, 8).requires_grad_()
        out = checkpointed(how, segment(layers, mg.torch.FenchelYoungLoss(layers[1]), y), x)
        for left in reversed(range(backwards)):
            out.backward(retain_graph=left > 0)
        assert [layer.calls for layer in layers] == [4, 4]
        results[how] = out.detach(), x.grad
    for wanted, got in zip(results[None], results[way], strict=True):
        assert torch.equal(wanted, got)


def test_a_checkpointed_layer_under_a_time_limit_makes_no_other_steps():
    torch = pytest.importorskip("torch")
    from torch.utils.checkpoint import checkpoint

    layer = mg.torch.LocalSearchLayer(TOP, time_limit=1e-3)
    theta = torch.linspace(-1, 1, 8, dtype=torch.float64).requires_grad_()
    seen = []

    def run(theta):
        seen.append(layer(theta))
        return seen[-1].square().sum()

    checkpoint(run, theta, use_reentrant=True).backward()
    assert len(seen) == 2
    assert torch.equal(*seen)


class CalledBackward:
    """Stands for another way to checkpoint: a function that calls a layer in its own backward pass."""

    def __new__(cls, torch, layer, **options):
        class Again(torch.autograd.Function):
            @staticmethod
            def forward(ctx, theta):
                ctx.save_for_backward(theta)
                return theta.clone()

            @staticmethod
            def backward(ctx, gradient):
                return gradient * layer(ctx.saved_tensors[0].detach(), **options)

        return Again.apply


def test_a_layer_that_is_called_in_a_backward_pass_wants_a_number():
    torch = pytest.importorskip("torch")
    theta, layer = torch.zeros(8, requires_grad=True), mg.torch.LocalSearchLayer(TOP, steps=20)
    with pytest.raises(ValueError, match=r"call must be given where a layer is called in a backward pass.*got None\."):
        CalledBackward(torch, layer)(theta).sum().backward()
    CalledBackward(torch, layer, call=0)(theta).sum().backward()
    assert torch.equal(theta.grad, layer(theta.detach()))


def test_a_checkpointed_function_must_call_the_same_layers():
    torch = pytest.importorskip("torch")
    from torch.utils.checkpoint import checkpoint

    layers = [mg.torch.LocalSearchLayer(TOP, steps=5) for _ in range(2)]
    theta = torch.zeros(8, requires_grad=True)
    value = checkpoint(lambda theta: layers.pop()(theta).square().sum(), theta, use_reentrant=False)
    with pytest.raises(RuntimeError, match=r"a checkpointed function must call the same layers in the same order .*\."):
        value.backward()


class Marginals:
    """A data set whose examples are means of chains."""

    def __init__(self, layer, given):
        self.layer, self.given = layer, given

    def __len__(self):
        return 6

    def __getitem__(self, i):
        import torch

        keys = {"index": [i], "call": 0} if self.given else {}
        return self.layer(torch.zeros(1, 64), **keys)[0]


def load(given, workers, epochs=1, seed=0):
    import torch

    layer = mg.torch.LocalSearchLayer(Hypercube(64), steps=50, seed=seed)
    loader = torch.utils.data.DataLoader(Marginals(layer, given), num_workers=workers, generator=torch.Generator().manual_seed(3))
    return torch.cat([batch for _ in range(epochs) for batch in loader])


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning", "ignore:.*fork:RuntimeWarning")
def test_workers_of_a_loader_never_share_draws():
    torch = pytest.importorskip("torch")
    found = load(False, workers=2, epochs=2)
    assert len(torch.unique(found, dim=0)) == 12
    assert torch.equal(found, load(False, workers=2, epochs=2))
    assert not torch.equal(found, load(False, workers=2, epochs=2, seed=1))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning", "ignore:.*fork:RuntimeWarning")
def test_numbers_do_not_depend_on_workers_where_call_and_index_are_given():
    torch = pytest.importorskip("torch")
    assert torch.equal(load(True, workers=0), load(True, workers=2))


# --- what y is -----------------------------------------------------------------------------------------------------------


@mg.jit
def other_end(data, y, out):
    """T(y)ᵢ = 2 y₋ᵢ: as many entries as y, and never y itself."""
    for i in range(len(y)):
        out[i] = 2.0 * y[len(y) - 1 - i]


@mg.jit
def change_other_end(data, state, i, m):
    return len(state.y) - 1 - i, 2.0 - 4.0 * state.y[i]


@mg.jit
def pairs_of(data, y, out):
    """T(y) has an entry more than y."""
    for i in range(len(y)):
        out[i] = y[i]
    out[len(y)] = y[0]


@mg.jit
def change_pairs(data, state, i, m):
    return (i if m == 0 else len(state.y)), 1 - 2 * np.int64(state.y[i])


@mg.jit
def count_pairs(data, state, i):
    return 2 if i == 0 else 1


def bits(**options):
    return mg.Problem(Data(np.zeros(3)), State(np.zeros(3, np.uint8)), **({"size": 3, "states": three_bits} | options))


def three_bits():
    return (np.array([a, b, c], np.uint8) for a in (0, 1) for b in (0, 1) for c in (0, 1))


MIRRORED = bits(moves=[mg.Move("flip", propose_flip, change_other_end, apply_flip)], statistic=other_end)
LONGER = bits(moves=[mg.Move("flip", propose_flip, change_pairs, apply_flip, changes=count_pairs)], statistic=pairs_of, size=4)
LABEL = np.array([1, 0, 0])
T_OF_LABEL = {"MIRRORED": [0, 0, 2], "LONGER": [1, 0, 0, 1], "CUBE": [1, 0, 0]}
PROBLEMS = {"MIRRORED": MIRRORED, "LONGER": LONGER, "CUBE": Hypercube(3)}


def own_start(request):
    """A start of the user's, which may look at observations."""
    seen = np.zeros((request.chains, 3), np.uint8) if request.targets is None else np.asarray(request.targets)
    return [np.broadcast_to(seen[0], (request.chains, 3))] * len(request.problems)


STARTS = {"target": "target", "data": "data", "random": "random", "array": LABEL, "callable": own_start}


def observed(problem, y, start, dtype=None, ragged=False, **options):
    """What the loss takes for T(y): the mean of its chains less its gradient."""
    torch = pytest.importorskip("torch")
    theta = torch.zeros(problem.size, dtype=torch.float64, requires_grad=True)
    layer = mg.torch.LocalSearchLayer([problem] if ragged else problem, steps=4)
    loss, y = mg.torch.FenchelYoungLoss(layer, start=start), y if dtype is None else torch.tensor(y, dtype=getattr(torch, dtype))
    loss([theta] if ragged else theta, [y] if ragged else y, **options).backward()
    return layer._memory.last.mean()[0] - theta.grad.numpy()


@pytest.mark.parametrize("ragged", [False, True], ids=["one problem", "a list"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bool", "uint8", "int64", "float16", "bfloat16"])
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("name", PROBLEMS)
def test_labels_of_any_dtype_are_solutions(name, start, dtype, ragged):
    """Floats, as loaders give them, are what integers are: what y is, is said and not guessed."""
    problem = PROBLEMS[name]
    np.testing.assert_array_equal(observed(problem, LABEL, STARTS[start], dtype, ragged), T_OF_LABEL[name])
    if name == "MIRRORED" and start not in ("target", "data"):
        np.testing.assert_array_equal(observed(problem, LABEL, STARTS[start], dtype, ragged, y_is="mean"), LABEL)


def test_a_start_of_the_users_sees_labels_that_are_floats():
    torch = pytest.importorskip("torch")
    seen = []

    def start(request):
        seen.append(request.targets)
        return own_start(request)

    loss = mg.torch.FenchelYoungLoss(mg.torch.LocalSearchLayer(PROBLEMS["CUBE"], steps=2), start=start)
    loss(torch.zeros(3), torch.tensor(LABEL, dtype=torch.float32))
    loss(torch.zeros(3), torch.tensor([0.5, 0.25, 0.0]), y_is="mean")
    np.testing.assert_array_equal(seen[0], [LABEL])
    assert seen[1] is None


@pytest.mark.parametrize("ragged", [False, True], ids=["one problem", "a list"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_means_of_t_are_taken_as_they_are(name, ragged):
    mean = np.array([0.5, 0.25, 0.0, 1.0])[: PROBLEMS[name].size]
    np.testing.assert_allclose(observed(PROBLEMS[name], mean, "random", ragged=ragged, y_is="mean"), mean, atol=1e-15)
    np.testing.assert_allclose(observed(PROBLEMS[name], mean, None, ragged=ragged, y_is="mean"), mean, atol=1e-15)
    whole = np.rint(mean).astype(int)
    np.testing.assert_allclose(observed(PROBLEMS[name], whole, None, ragged=ragged, y_is="mean"), whole, atol=1e-15)


def test_the_meaning_of_y_may_be_given_once_for_all():
    torch = pytest.importorskip("torch")
    loss = mg.torch.FenchelYoungLoss(mg.torch.LocalSearchLayer(MIRRORED, steps=2), y_is="mean", reduction="none")
    assert loss(torch.zeros(2, 3), torch.full((2, 3), 0.5)).shape == (2,)
    assert loss(torch.zeros(2, 3), torch.tensor(np.stack([LABEL] * 2)), y_is="solution").shape == (2,)


THIRD = [1 / 3] * 3
MEANS = [
    # what is wrong, problem, y, options, what the message says
    (
        "not in the set",
        TopK(3, 1),
        [1.0, 1.0, 0.0],
        {"start": "random"},
        "y, unless y_is is 'mean', must be in the set, got .1 1 0.",
    ),
    (
        "start",
        TopK(3, 1),
        THIRD,
        {"start": "target", "y_is": "mean"},
        "start must not be that of observed solutions .*, got 'target'",
    ),
    (
        "fractions",
        TopK(3, 1),
        THIRD,
        {"start": "random", "y_is": "solution"},
        "y, unless y_is is 'mean', must be in the set, got the entry 0.33",
    ),
    ("a word", TopK(3, 1), THIRD, {"y_is": "average"}, "y_is must be one of 'solution', 'mean', got 'average'"),
    ("size of a mean", LONGER, [0.0] * 3, {"y_is": "mean"}, r"y must have a last axis of 4 entries, got shape \(3,\)"),
    ("size of a solution", LONGER, [0.0] * 4, {"y_is": "solution"}, r"y must have a last axis of 3 entries, got shape \(4,\)"),
]


@pytest.mark.parametrize(("problem", "y", "options", "message"), [pytest.param(*row[1:], id=row[0]) for row in MEANS])
def test_a_bad_y_is_named(problem, y, options, message):
    torch = pytest.importorskip("torch")
    loss = mg.torch.FenchelYoungLoss(mg.torch.LocalSearchLayer(problem, steps=2))
    with pytest.raises(ValueError, match=rf"^{message}.*\.$"):
        loss(torch.zeros(problem.size), torch.tensor(y), **options)


def test_a_mean_of_t_must_not_want_a_gradient():
    torch = pytest.importorskip("torch")
    loss, y = mg.torch.FenchelYoungLoss(mg.torch.LocalSearchLayer(TopK(3, 1), steps=2)), torch.tensor(THIRD, requires_grad=True)
    with pytest.raises(ValueError, match=r"^y must not require a gradient, .*\.$"):
        loss(torch.zeros(3), y, start="random", y_is="mean")


# --- masks, huge numbers, no examples ------------------------------------------------------------------------------------

MASKED = np.ma.masked_array([1.0, 0.0, 1.0, 1.0], [False, True, False, False])
SOLUTION = np.ma.masked_array(np.ones(4, np.uint8), [False, True, False, False])
ONES = np.ones(4)


def torch_loss(theta=ONES, y=None, **options):
    torch = pytest.importorskip("torch")
    loss = mg.torch.FenchelYoungLoss(mg.torch.LocalSearchLayer(CUBE, steps=2))
    return loss(torch.tensor(theta), np.ones(4, np.uint8) if y is None else y, **options)


MASKS = {
    "theta": lambda: mg.sample(CUBE, MASKED, steps=2),
    "theta in a list": lambda: mg.sample(CUBE, [MASKED, MASKED], steps=2),
    "theta of solve": lambda: mg.solve(CUBE, MASKED, steps=2),
    "theta of exact": lambda: mg.exact.marginals(CUBE, MASKED),
    "theta of problems": lambda: mg.sample([CUBE, CUBE], [ONES, MASKED], steps=2),
    "start": lambda: mg.sample(CUBE, ONES, steps=2, start=SOLUTION),
    "start of a callable": lambda: mg.sample(CUBE, ONES, steps=2, start=lambda request: [SOLUTION[None]]),
    "guide": lambda: mg.sample(CUBE, ONES, steps=2, guide=MASKED),
    "direction": lambda: mg.jacobian_product(CUBE, ONES, MASKED, steps=2),
    "temperature": lambda: mg.sample(CUBE, np.ones((4, 4)), steps=2, temperature=MASKED),
    "index": lambda: mg.sample(CUBE, np.ones((4, 4)), steps=2, index=SOLUTION),
    "y": lambda: mg.one_step(CUBE, ONES, SOLUTION),
    "y of exact": lambda: mg.exact.fenchel_young(CUBE, ONES, SOLUTION),
    "y of a loss": lambda: torch_loss(y=SOLUTION),
    "guide of a loss": lambda: torch_loss(guide=MASKED),
    "data of Problem": lambda: with_bonus(MASKED[:3]),
    "state of Problem": lambda: with_bonus(np.zeros(3), SOLUTION[:3]),
    "weights": lambda: Knapsack(MASKED[None], [2.0]),
    "phi": lambda: Hypercube(4, phi=MASKED),
}


@pytest.mark.parametrize("name", MASKS)
def test_a_mask_is_refused(name):
    with pytest.raises(ValueError, match=rf"^{name.split(' ')[0]}\b.*must not be a masked array, .*got MaskedArray.*\.$"):
        MASKS[name]()


@pytest.mark.parametrize("call", [mg.sample, mg.solve])
@pytest.mark.parametrize("entry", [1.7e308, -1.7e308, 1e301])
def test_a_theta_whose_sums_overflow_is_refused(call, entry):
    with pytest.raises(
        ValueError, match=r"^theta must be at most 1e\+300 in absolute value, got -?1.*e\+30\d among its entries\.$"
    ):
        call(CUBE, np.full(4, entry), steps=2)


def test_the_largest_theta_gives_finite_numbers():
    found = mg.solve(CUBE, np.full(4, 1e300), steps=100)
    np.testing.assert_array_equal(found.solution, [1, 1, 1, 1])
    assert found.objective == 4e300
    cold = mg.sample(CUBE, np.full(4, 1e300), steps=100, temperature=1e-300, burn_in=90)
    np.testing.assert_array_equal(cold.mean, [1, 1, 1, 1])


def test_a_loss_of_one_step_that_overflows_is_refused():
    with pytest.raises(ValueError, match=r"^theta must be finite when it is divided by the temperature, .*1e-200.*\.$"):
        mg.one_step(CUBE, np.full(4, 1e200), np.zeros(4, np.uint8), temperature=1e-200)


def test_exact_values_that_overflow_are_refused():
    with pytest.raises(ValueError, match=r"^theta must give finite .*, got -?inf for t = 1e-08\.$"):
        mg.exact.marginals(MIRRORED, np.full(3, 5e299), 1e-8)


def test_a_gradient_that_is_not_finite_is_passed_on():
    """As scaled gradients want it: whoever scales them looks for numbers that are not finite, and skips the step."""
    torch = pytest.importorskip("torch")
    theta = torch.zeros(4, requires_grad=True)
    mg.torch.LocalSearchLayer(CUBE, steps=2)(theta).backward(torch.tensor([0.0, torch.inf, 0.0, 0.0]))
    assert theta.grad.isnan().all()


INTEGERS = {
    "steps": lambda n: mg.sample(CUBE, ONES, steps=n),
    "burn_in": lambda n: mg.sample(CUBE, ONES, time_limit=0.01, burn_in=n),
    "trace": lambda n: mg.sample(CUBE, ONES, steps=2, trace=n),
    "seed": lambda n: mg.sample(CUBE, ONES, steps=2, seed=n),
    "call": lambda n: mg.sample(CUBE, ONES, steps=2, call=n),
    "chains": lambda n: mg.sample(CUBE, ONES, steps=2, chains=n),
    "n": lambda n: mg.exact.sample(CUBE, ONES, n),
}


@pytest.mark.parametrize("name", INTEGERS)
def test_an_integer_that_kernels_cannot_hold_is_refused(name):
    with pytest.raises(ValueError, match=rf"^{name} must be (<|in) .*, got 9223372036854775808\.$"):
        INTEGERS[name](2**63)


def test_too_many_chains_are_refused():
    with pytest.raises(ValueError, match=r"^chains must be < 2\*\*31, got 2147483648\.$"):
        mg.sample(CUBE, ONES, steps=2, chains=2**31)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0)])
def test_a_layer_of_no_examples_gives_none(shape):
    torch = pytest.importorskip("torch")
    theta, layer = torch.zeros(*shape, 8, requires_grad=True), mg.torch.LocalSearchLayer(TOP, steps=2)
    mean = layer(theta)
    mean.sum().backward()
    assert mean.shape == theta.shape
    assert theta.grad.shape == theta.shape
    assert layer.calls == 0


@pytest.mark.parametrize("unconditional", [False, True])
@pytest.mark.parametrize("name", ["Fenchel-Young", "one step"])
def test_a_loss_of_no_examples_is_0_or_has_no_mean(name, unconditional):
    """As sums and means of no numbers, but that a mean of none is an error instead of NaN."""
    torch = pytest.importorskip("torch")

    def loss(reduction):
        if name == "one step":
            return mg.torch.OneStepLoss(TOP, reduction=reduction)
        return mg.torch.FenchelYoungLoss(mg.torch.LocalSearchLayer(TOP, steps=2), reduction=reduction)

    theta = torch.zeros((8,) if unconditional else (0, 8), requires_grad=True)
    y = torch.zeros(0, 8, dtype=torch.uint8)
    total = loss("sum")(theta, y)
    total.backward()
    assert total == 0.0
    assert torch.equal(theta.grad, torch.zeros_like(theta))
    assert loss("none")(theta, y).shape == (0,)
    with pytest.raises(ValueError, match=r"^y must hold at least one example where reduction is 'mean', .*\(0,\)\.$"):
        loss("mean")(theta, y)


# --- axes in another order ---------------------------------------------------------------------------------------------

GRID = np.zeros((2, 3, 8))
TURNED = np.zeros((3, 2, 8))
AXES = {
    "guide": lambda: mg.sample(TOP, GRID, steps=2, guide=TURNED),
    "guide of rows": lambda: mg.sample(TOP, GRID, steps=2, guide=GRID.reshape(6, 8)),
    "direction": lambda: mg.jacobian_product(TOP, GRID, TURNED, steps=2),
    "temperature": lambda: mg.sample(TOP, GRID, steps=2, temperature=np.ones((3, 2))),
    "temperature of a product": lambda: mg.jacobian_product(TOP, GRID, GRID, steps=2, temperature=np.ones((3, 2))),
    "temperature of one step": lambda: mg.one_step(TOP, GRID, TOP.solution, temperature=np.ones((3, 2))),
    "start": lambda: mg.sample(TOP, GRID, steps=2, start=np.broadcast_to(TOP.solution, (3, 2, 8))),
    "start of solve": lambda: mg.solve(TOP, GRID, steps=2, start=np.broadcast_to(TOP.solution, (3, 2, 8))),
    "start of chains": lambda: mg.sample(TOP, GRID, steps=2, chains=4, start=np.broadcast_to(TOP.solution, (3, 2, 4, 8))),
    "y": lambda: mg.one_step(TOP, GRID, np.broadcast_to(TOP.solution, (3, 2, 8))),
}


@pytest.mark.parametrize("name", AXES)
def test_axes_in_another_order_are_refused(name):
    """As many entries, but of other examples."""
    with pytest.raises(ValueError, match=rf"^{name.split(' ')[0]} must .*, got .*\((3, 2|6).*\.$"):
        AXES[name]()


def test_axes_in_the_order_of_theta_are_taken():
    out = mg.sample(TOP, GRID, steps=2, chains=4, temperature=np.ones((2, 3)), guide=GRID)
    for start in (out.solutions, out.solutions.reshape(6, 4, 8), out.solutions[:, :, 0], out.solutions[:, :, 0].reshape(6, 8)):
        assert mg.sample(TOP, GRID, steps=2, chains=4, start=start).mean.shape == GRID.shape


# --- tensors of every kind -----------------------------------------------------------------------------------------------


def mean_and_gradient(theta):
    theta = theta.detach().requires_grad_()
    mean = mg.torch.LocalSearchLayer(TOP, steps=20)(theta)
    mean.square().sum().backward()
    return mean.detach(), theta.grad


LAYOUTS = {
    "expanded": lambda torch, row: row.expand(3, 8),
    "columns": lambda torch, row: row.expand(3, 8).t().contiguous().t(),
    "every other entry": lambda torch, row: torch.stack([row, 0 * row], -1).reshape(-1)[::2].expand(3, 8),
    "negative bit": lambda torch, row: torch.complex(row, -row).conj().imag.expand(3, 8),
    "inference": lambda torch, row: inference(torch, row).expand(3, 8).clone(),
}


def inference(torch, tensor):
    with torch.inference_mode():
        return tensor.clone()


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_layout_of_a_tensor_does_not_matter(name):
    torch = pytest.importorskip("torch")
    row = torch.linspace(-1, 1, 8, dtype=torch.float64)
    for got, wanted in zip(mean_and_gradient(LAYOUTS[name](torch, row)), mean_and_gradient(row.repeat(3, 1)), strict=True):
        assert torch.equal(got, wanted)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_results_have_the_dtype_of_theta_and_the_numbers_of_float64(dtype):
    torch = pytest.importorskip("torch")
    theta = torch.linspace(-1, 1, 8).to(getattr(torch, dtype))
    mean = mg.torch.LocalSearchLayer(TOP, steps=20)(theta)
    assert mean.dtype == theta.dtype
    assert torch.equal(mean, mg.torch.LocalSearchLayer(TOP, steps=20)(theta.double()).to(theta.dtype))


def test_negative_strides_do_not_matter():
    theta, y = np.linspace(-1, 1, 8), np.array(TOP.solution)
    np.testing.assert_array_equal(
        mg.sample(TOP, theta[::-1], steps=20, start=y[::-1]).mean,
        mg.sample(TOP, theta[::-1].copy(), steps=20, start=y[::-1].copy()).mean,
    )
    torch = pytest.importorskip("torch")
    losses = [mg.torch.FenchelYoungLoss(mg.torch.LocalSearchLayer(TOP, steps=20)) for _ in range(2)]
    assert losses[0](torch.tensor(theta), y[::-1]) == losses[1](torch.tensor(theta), y[::-1].copy())


def test_data_may_have_any_order_of_bytes():
    problem = with_bonus(np.array([1.0, 0.0, -1.0]).astype(">f8"))
    np.testing.assert_array_equal(
        mg.sample(problem, np.zeros(3), steps=50).mean,
        mg.sample(with_bonus(np.array([1.0, 0.0, -1.0])), np.zeros(3), steps=50).mean,
    )


TENSORS = {
    "sparse y": (lambda torch: torch_loss(y=torch.ones(4, dtype=torch.uint8).to_sparse()), "y must be a dense tensor"),
    "y elsewhere": (
        lambda torch: torch_loss(y=torch.ones(4, device="meta")),
        "y must be on the CPU or a CUDA device, got device meta",
    ),
    "labels of -1 and 1": (
        lambda torch: torch_loss(y=torch.tensor([-1.0, 1.0, 1.0, -1.0]), start="random"),
        "y, unless y_is is 'mean', must be in the set, got the entry -1",
    ),
    "integers among theta": (
        lambda torch: mg.torch.LocalSearchLayer([CUBE, CUBE], steps=2)([torch.zeros(4), torch.zeros(4, dtype=torch.int64)]),
        r"theta\[1\] must have one axis and a floating dtype, got .*int64",
    ),
    "theta with two axes in a list": (
        lambda torch: mg.torch.LocalSearchLayer([CUBE, CUBE], steps=2)([torch.zeros(4), torch.zeros(1, 4)]),
        r"theta\[1\] must have one axis and a floating dtype, got shape \(1, 4\)",
    ),
}


@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_of_the_wrong_kind_is_named(name):
    call, message = TENSORS[name]
    with pytest.raises(ValueError, match=rf"^{message}.*\.$"):
        call(pytest.importorskip("torch"))


def test_a_list_of_theta_keeps_its_dtypes():
    torch = pytest.importorskip("torch")
    means = mg.torch.LocalSearchLayer([CUBE, CUBE], steps=2)([torch.zeros(4), torch.zeros(4, dtype=torch.float64)])
    assert [m.dtype for m in means] == [torch.float32, torch.float64]


def test_a_guide_made_in_inference_mode_will_do():
    torch = pytest.importorskip("torch")
    theta = torch.zeros(6, requires_grad=True)
    layer = mg.torch.LocalSearchLayer(TopK(6, 2, guided=True), steps=5)
    layer(theta, guide=inference(torch, torch.ones(6))).sum().backward()
    assert theta.grad is not None


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["deep copy", "pickle"])
@pytest.mark.parametrize("start", ["random", "persistent"])
def test_copies_of_a_layer_go_on_as_it_does(copied, start):
    torch = pytest.importorskip("torch")
    theta = torch.linspace(-1, 1, 8, dtype=torch.float64).requires_grad_()
    layer = mg.torch.LocalSearchLayer(TOP, steps=20, start=start)
    out = layer(theta)  # in the middle of a training step
    other = copied(layer)
    out.sum().backward()
    assert other.info is None
    assert other.calls == 1
    assert torch.equal(layer(theta), other(theta))


def test_problems_added_to_the_list_of_a_layer_later_are_not_in_it():
    torch = pytest.importorskip("torch")
    problems = [CUBE]
    layer = mg.torch.LocalSearchLayer(problems, steps=2)
    problems.append(CUBE)
    assert len(layer([torch.zeros(4)])) == 1


@pytest.mark.filterwarnings("ignore")
def test_compiled_functions_give_the_same_numbers():
    torch = pytest.importorskip("torch")
    y, results = torch.tensor(TOP.solution), []
    for wrap in (lambda f: f, lambda f: torch.compile(f, backend="eager")):
        layer = mg.torch.LocalSearchLayer(TOP, steps=20)
        loss, one_step, theta = (
            mg.torch.FenchelYoungLoss(layer),
            mg.torch.OneStepLoss(TOP),
            torch.linspace(-1, 1, 8).requires_grad_(),
        )
        f = wrap(lambda t, layer=layer, loss=loss, one_step=one_step: layer(t).square().sum() + loss(t, y) + one_step(2.0 * t, y))
        values = [f(theta) for _ in range(2)]
        sum(values).backward()
        results.append((*values, theta.grad))
    for eager, compiled in zip(*results, strict=True):
        torch.testing.assert_close(eager, compiled)


@pytest.mark.parametrize("name", ["temperature", "steps", "chains", "seed", "burn_in", "schedule", "time_limit", "estimator"])
@pytest.mark.parametrize("package", ["torch", "jax"])
def test_settings_of_a_layer_cannot_be_set_to_no_effect(package, name):
    pytest.importorskip(package)
    layer = getattr(mg, package).LocalSearchLayer(TOP, steps=10)
    with pytest.raises(AttributeError, match=f"{name} of a layer must stay what it is"):
        setattr(layer, name, 2)
    assert copy.deepcopy(layer).settings == layer.settings
