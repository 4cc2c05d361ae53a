"""Layers and losses under ``torch.compile``, ``torch.func``, checkpoints and autocast give the numbers of plain calls."""

import subprocess
import sys
from functools import partial

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import movegrad as mg  # noqa: E402
from movegrad import _torch_ops  # noqa: E402
from movegrad.problems import TopK  # noqa: E402
from movegrad.torch import FenchelYoungLoss, LocalSearchLayer, OneStepLoss  # noqa: E402
from tests.slow import slow_but_for  # noqa: E402

VERSION = tuple(map(int, torch.__version__.split(".")[:2]))
graphs = pytest.mark.skipif(VERSION < (2, 7), reason="graphs without breaks need torch 2.7")
pytestmark = pytest.mark.filterwarnings("ignore:::torch", "ignore:.*torch.jit.*:DeprecationWarning", "ignore:.*fork")
TOP, GUIDED = TopK(8, 3), TopK(8, 3, guided=True)
Y = torch.from_numpy(np.stack([TOP.solution] * 3))
INDEX = torch.tensor([5, 3, 9])
BACKENDS = slow_but_for(["eager", "aot_eager"], ["eager", "aot_eager", "inductor"])


@pytest.fixture(autouse=True)
def _nothing_is_compiled_yet():
    torch._dynamo.reset()


def scores(*shape, seed=0, dtype=torch.float64):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape)).to(dtype)


def with_gradient(f, theta):
    theta = theta.clone().requires_grad_()
    value = f(theta)
    return value.detach(), torch.autograd.grad(value, theta)[0]


class Model(torch.nn.Module):
    """Two calls of one layer, both kinds of losses, one θ for many observations, and means."""

    def __init__(self, start="random", **options):
        super().__init__()
        self.layer = LocalSearchLayer(TOP, steps=20, chains=2, start=start, **options)
        self.loss = FenchelYoungLoss(self.layer, start="persistent" if start == "persistent" else None, reduction="sum")
        self.one_step = OneStepLoss(TOP)

    def forward(self, theta):
        first, second = self.layer(theta, index=INDEX), self.layer(theta, index=INDEX)
        layers = (first * second).sum() + self.layer(theta[0].tanh(), call=3).square().sum()
        losses = (
            self.loss(theta, Y, index=INDEX)
            + self.loss(theta[1], Y)
            + self.loss(theta, 0.4 * Y, index=INDEX, y_is="mean", start="random")
        )
        return layers + losses + self.one_step(theta, Y) + self.one_step(theta[2], Y)


# --- torch.compile ---------------------------------------------------------------------------------------------------------


@graphs
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("start", ["random", "persistent"])
@pytest.mark.parametrize("before", [False, True], ids=["fresh", "after a plain call"])
def test_a_graph_without_breaks_gives_the_numbers_of_plain_calls(backend, start, before):
    plain, graph = Model(start), Model(start)
    if before:
        plain(scores(3, 8)), graph(scores(3, 8))
    compiled = torch.compile(graph, backend=backend, fullgraph=True)
    for seed in range(3):
        for wanted, got in zip(*(with_gradient(f, scores(3, 8, seed=seed)) for f in (plain, compiled)), strict=True):
            torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-12)
        assert graph.layer.calls == plain.layer.calls == 5 * (seed + 1 + before)
    np.testing.assert_array_equal(graph.layer.info.steps, plain.layer.info.steps)
    if start == "persistent":
        for one, other in ((plain.layer.start, graph.layer.start), (plain.loss.start, graph.loss.start)):
            assert list(one.ends) == list(other.ends)
            assert all((one.ends[i] == other.ends[i]).all() for i in one.ends)


@graphs
def test_two_calls_in_a_graph_draw_anew_and_none_is_dropped():
    """Neither merged, though their arguments are the same, nor left uncounted, though one is not used."""
    layer, plain = LocalSearchLayer(TOP, steps=20), LocalSearchLayer(TOP, steps=20)

    def three(theta):
        first, _, third = layer(theta), layer(theta), layer(theta)
        return first, third

    first, third = torch.compile(three, backend="aot_eager", fullgraph=True)(scores(8))
    wanted = [plain(scores(8)) for _ in range(3)]
    assert torch.equal(first, wanted[0])
    assert torch.equal(third, wanted[2])
    assert layer.calls == 3


@graphs
def test_there_are_no_graph_breaks_in_a_fresh_process():
    code = """
import torch, movegrad as mg
layer = mg.torch.LocalSearchLayer(mg.problems.TopK(8, 3), steps=20)
loss, y = mg.torch.FenchelYoungLoss(layer), torch.tensor([[1, 1, 1, 0, 0, 0, 0, 0]] * 3)
report = torch._dynamo.explain(lambda theta: layer(theta).square().sum() + loss(theta, y))(torch.zeros(3, 8, requires_grad=True))
print(report.graph_count, report.graph_break_count)
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["1", "0"], done.stderr


@graphs
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_graphs_keep_dtypes_and_guides(dtype):
    plain, graph = (LocalSearchLayer(GUIDED, steps=20) for _ in range(2))
    compiled = torch.compile(graph, backend="aot_eager", fullgraph=True)
    theta, guide = scores(3, 8, dtype=dtype), scores(3, 8, seed=1, dtype=dtype)
    results = [with_gradient(lambda t, f=f: f(t, guide=guide).square().sum(), theta) for f in (plain, compiled)]
    for wanted, got in zip(*results, strict=True):
        assert got.dtype == dtype
        assert torch.equal(wanted, got)


@graphs
def test_a_compiled_layer_under_a_time_limit_has_the_gradient_of_the_steps_that_it_made():
    layer, v = LocalSearchLayer(TOP, time_limit=1e-3), scores(1, 8, seed=1)
    _, gradient = with_gradient(lambda t: (torch.compile(layer, backend="aot_eager", fullgraph=True)(t) * v).sum(), scores(1, 8))
    exact = mg.jacobian_product(TOP, scores(1, 8).numpy(), v.numpy(), steps=int(layer.info.steps[0]))
    np.testing.assert_allclose(gradient.numpy(), exact, atol=1e-12)


WRONG = {
    "theta too short": ("layer", [scores(3, 7)], {}, "theta must have a last axis of 8 entries, got shape (3, 7)."),
    "theta of the loss": ("loss", [scores(3, 7), Y], {}, "theta must have a last axis of 8 entries, got shape (3, 7)."),
    "theta not finite": ("layer", [scores(3, 8) * torch.inf], {}, "theta must be finite, got "),
    "not in the set": ("loss", [scores(3, 8), torch.ones_like(Y)], {}, "y must be in the set, got [1 1 1 1 1 1 1 1] in row 0."),
    "other axes": ("loss", [scores(3, 8), Y[:2]], {}, "y must have the leading axes (3,) of theta, got shape (2, 8)."),
    "y too short": ("loss", [scores(3, 8), Y[:, :7]], {}, "y must have a last axis of 8 entries, got shape (3, 7)."),
    "one step": ("one_step", [scores(3, 8), Y[:, :7]], {}, "y must have shape (3, 8), got (3, 7) for theta of shape (3, 8)."),
    "index": ("layer", [scores(3, 8)], {"index": INDEX[:2]}, "index must be 3 integers, one for each row of theta, got "),
    "guide": ("layer", [scores(3, 8)], {"guide": scores(2, 8)}, "guide must have the leading axes (3,) of theta, got "),
    "start": ("layer", [scores(3, 8)], {"start": "nowhere"}, "start must be one of "),
    "meaning": ("loss", [scores(3, 8), Y], {"y_is": "word"}, "y_is must be one of "),
    "empty": ("one_step", [scores(0, 8), Y[:0]], {}, "y must hold at least one example where reduction is 'mean'"),
}


@graphs
@pytest.mark.parametrize("name", WRONG)
def test_errors_in_graphs_are_those_of_plain_calls(name):
    part, arguments, options, message = WRONG[name]
    plain = getattr(Model(), part)
    for f in (plain, torch.compile(plain, backend="aot_eager", fullgraph=True)):
        with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is compared below
            f(*arguments, **options)
        sentence, *more = str(caught.value).split("\n")
        assert sentence.startswith(message)
        assert sentence.endswith(".")
        assert not more or VERSION < (2, 13)  # before, this backend adds where it happened


@graphs
def test_what_operators_do_not_take_breaks_the_graph_and_nothing_else():
    problems = [TopK(5, 2), TopK(9, 4)]
    results = []
    for wrap in (lambda f: f, lambda f: torch.compile(f, backend="eager")):
        layer = LocalSearchLayer(problems, steps=20)
        theta = [scores(5).requires_grad_(), scores(9).requires_grad_()]
        sum(m.square().sum() for m in wrap(layer)(theta)).backward()
        results.append([t.grad for t in theta])
    for wanted, got in zip(*results, strict=True):
        assert torch.equal(wanted, got)


@graphs
def test_copies_of_a_compiled_layer_count_for_themselves():
    import copy

    layer = LocalSearchLayer(TOP, steps=20)
    compiled = torch.compile(lambda layer, theta: layer(theta), backend="aot_eager", fullgraph=True)
    first, other = compiled(layer, scores(8)), copy.deepcopy(layer)
    assert other.calls == 1
    assert torch.equal(compiled(layer, scores(8)), compiled(other, scores(8)))
    assert layer.calls == other.calls == 2
    assert layer._handle != other._handle
    assert not torch.equal(first, compiled(other, scores(8)))


@graphs
@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("start", ["random", "persistent"])
def test_a_checkpointed_graph_is_run_again_with_the_same_draws(reentrant, start):
    from torch.utils.checkpoint import checkpoint

    plain, graph = Model(start), Model(start)
    compiled = torch.compile(graph, backend="aot_eager", fullgraph=True)
    wanted = with_gradient(plain, scores(3, 8))
    got = with_gradient(lambda theta: checkpoint(compiled, theta, use_reentrant=reentrant), scores(3, 8)) if not reentrant else None
    if reentrant:  # it wants .backward()
        theta = scores(3, 8).requires_grad_()
        value = checkpoint(compiled, theta, use_reentrant=True)
        value.backward()
        got = value.detach(), theta.grad
    for a, b in zip(wanted, got, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
    assert graph.layer.calls == plain.layer.calls


@graphs
def test_a_checkpoint_inside_a_graph_wants_the_number_of_the_call():
    """PyTorch runs the segment again without saying so: an error, or the right numbers; never others."""
    from torch.utils.checkpoint import checkpoint

    layer = LocalSearchLayer(TOP, steps=20)

    def square(theta, **keys):
        return layer(theta, **keys).square().sum()

    def segment(**keys):
        f = torch.compile(lambda x: checkpoint(lambda x: square(x, **keys), x, use_reentrant=False), backend="aot_eager")
        return with_gradient(f, scores(8))[1]

    assert torch.equal(segment(call=4), with_gradient(lambda theta: square(theta, call=4), scores(8))[1])
    with pytest.raises(ValueError, match=r"^call must be given where a layer is called in a backward pass.*got None\."):
        segment()


# --- torch.func ----------------------------------------------------------------------------------------------------------


def layer(**options):
    return LocalSearchLayer(TOP, steps=20, chains=2, **options)


def squares(f):
    return lambda theta: f(theta).square().sum()


def test_vmap_of_a_layer_is_a_batch():
    assert torch.equal(torch.func.vmap(layer())(scores(3, 8)), layer()(scores(3, 8)))
    assert torch.equal(torch.func.vmap(layer(), in_dims=1)(scores(3, 8).T.contiguous()), layer()(scores(3, 8)))
    assert torch.equal(torch.func.vmap(torch.func.vmap(layer()))(scores(2, 3, 8)), layer()(scores(2, 3, 8)))
    one = layer()
    by_index = torch.func.vmap(lambda theta, i: one(theta[None], index=i[None])[0])(scores(3, 8), INDEX)
    assert torch.equal(by_index, layer()(scores(3, 8), index=INDEX))
    assert one.calls == 1


def test_vmap_takes_guides():
    one, other = LocalSearchLayer(GUIDED, steps=20), LocalSearchLayer(GUIDED, steps=20)
    theta, guide = scores(3, 8), scores(3, 8, seed=1)
    assert torch.equal(torch.func.vmap(lambda t, g: one(t, guide=g))(theta, guide), other(theta, guide=guide))


def test_gradients_of_func_are_those_of_backward():
    wanted = with_gradient(squares(layer()), scores(3, 8))[1]
    assert torch.equal(torch.func.grad(squares(layer()))(scores(3, 8)), wanted)
    assert torch.equal(torch.func.vmap(torch.func.grad(squares(layer())))(scores(3, 8)), wanted)


def test_jvp_is_vjp_since_the_covariance_is_symmetric():
    theta, v = scores(3, 8), scores(3, 8, seed=1)
    leaf = theta.clone().requires_grad_()
    (wanted,) = torch.autograd.grad(layer()(leaf), leaf, v)
    mean, tangent = torch.func.jvp(layer(), (theta,), (v,))
    assert torch.equal(mean, layer()(theta))
    assert torch.equal(tangent, wanted)
    assert torch.equal(torch.func.vjp(layer(), theta)[1](v)[0], wanted)
    one = layer()
    assert torch.equal(torch.func.vmap(lambda t, v: torch.func.jvp(one, (t,), (v,))[1])(theta, v), wanted)


def test_jacobians_are_the_covariance_of_the_chain():
    theta = scores(8)
    out = mg.sample(TOP, theta.numpy(), steps=20, chains=2, trace=20, iterates=True)
    y = out.iterates.reshape(-1, 8).astype(float)
    covariance = torch.from_numpy(np.cov(y.T, bias=True))
    for jacobian in (torch.func.jacrev, torch.func.jacfwd):
        torch.testing.assert_close(jacobian(layer())(theta), covariance)
    torch.testing.assert_close(torch.func.vmap(torch.func.jacrev(layer()))(theta[None])[0], covariance)


LOSSES = {
    "Fenchel-Young": lambda reduction: FenchelYoungLoss(layer(), reduction=reduction),
    "one step": lambda reduction: OneStepLoss(TOP, reduction=reduction),
}


@pytest.mark.parametrize("make", LOSSES.values(), ids=LOSSES)
def test_losses_in_func_are_those_of_plain_calls(make):
    theta, v, grad, vmap = scores(3, 8), scores(3, 8, seed=1), torch.func.grad, torch.func.vmap
    wanted = with_gradient(lambda t: make("sum")(t, Y), theta)[1]
    assert torch.equal(grad(make("sum"))(theta, Y), wanted)
    torch.testing.assert_close(vmap(grad(make("mean")))(theta, Y), wanted)  # gradients of each example
    torch.testing.assert_close(vmap(make("mean"))(theta, Y), make("none")(theta, Y))
    torch.testing.assert_close(torch.func.jvp(lambda t: make("sum")(t, Y), (theta,), (v,))[1], (wanted * v).sum())
    many = with_gradient(lambda t: make("mean")(t, Y), theta[0])[1]
    assert torch.equal(grad(make("mean"))(theta[0], Y), many)
    assert torch.equal(vmap(grad(make("mean")), (0, None))(theta, Y)[0], many)


def of_one(loss, theta):
    return loss(theta, Y if theta.ndim > 1 else Y[0])


@pytest.mark.parametrize("name", ["layer", *LOSSES])
def test_func_inside_of_a_compiled_function_breaks_the_graph_and_gives_the_numbers_of_plain_calls(name):
    theta, v, func = scores(3, 8), scores(3, 8, seed=1), torch.func

    def ways():
        loss = None if name == "layer" else LOSSES[name]("sum")
        f = layer() if loss is None else partial(of_one, loss)
        return [
            func.vmap(f),
            func.grad(squares(f)),
            func.vmap(func.grad(squares(f))),
            lambda t: func.jvp(f, (t,), (v,))[1],
        ]

    for plain, compiled in zip(ways(), ways(), strict=True):
        torch._dynamo.reset()
        torch.testing.assert_close(torch.compile(compiled, backend="aot_eager")(theta), plain(theta))


@graphs
def test_an_exported_program_never_finds_a_layer_of_another_process(monkeypatch):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.loss = layer(), OneStepLoss(TOP)

        def forward(self, theta):
            return self.layer(theta) + self.loss(theta, Y)

    model, theta = Model(), scores(3, 8)
    program = torch.export.export(model, (theta,)).module()
    torch.testing.assert_close(program(theta), layer()(theta) + model.loss(theta, Y))
    monkeypatch.setattr(_torch_ops, "_EXPORTED", _torch_ops._EXPORTED + (1 << 32))  # as in another process
    with pytest.raises(RuntimeError, match=r"^a compiled function must be used where and while the layer in it lives, got .*\.$"):
        program(theta)


@pytest.mark.parametrize("name", ["layer", *LOSSES])
def test_func_refuses_second_derivatives(name):
    if name == "layer":
        f = squares(layer())
    else:
        loss = LOSSES[name]("sum")

        def f(theta):
            return loss(theta, Y)

    theta, grad = scores(3, 8), torch.func.grad
    for twice in (
        lambda: grad(lambda t: grad(f)(t).sum())(theta),
        lambda: torch.func.jvp(grad(f), (theta,), (theta,)),
        lambda: grad(lambda t: torch.func.jvp(f, (t,), (theta,))[1])(theta),
        lambda: torch.func.hessian(f)(theta),
    ):
        with pytest.raises(RuntimeError, match=r"^theta must not be differentiated twice: .*\.$"):
            twice()


def test_errors_in_func_are_sentences():
    with pytest.raises(ValueError, match=r"^theta must have a last axis of 8 entries, got shape \(3, 7\)\.$"):
        torch.func.vmap(layer())(scores(3, 7))
    ragged = LocalSearchLayer([TOP, TOP], steps=5)
    with pytest.raises(ValueError, match=r"^problem must be the layer's own and one for all where torch.func looks on, got .*\.$"):
        torch.func.grad(lambda t: ragged([t, t])[0].sum())(scores(8))


def test_empty_batches_in_func_and_graphs():
    assert torch.func.vmap(layer())(scores(2, 0, 8)).shape == (2, 0, 8)
    if VERSION >= (2, 7):
        one = layer()
        assert torch.compile(one, backend="aot_eager", fullgraph=True)(scores(0, 8)).shape == (0, 8)
        assert one.calls == 0


# --- autocast --------------------------------------------------------------------------------------------------------------


def test_results_have_the_dtype_of_theta_under_autocast():
    model = torch.nn.Linear(4, 8)
    x, one = scores(3, 4, dtype=torch.float32), layer()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        theta = model(x)
        assert theta.dtype == torch.bfloat16
        mean, value = one(theta), FenchelYoungLoss(one)(theta, Y)
        assert mean.dtype == torch.bfloat16
    (mean.square().sum() + value).backward()
    assert model.weight.grad.dtype == torch.float32
    assert model.weight.grad.isfinite().all()
    exact = mg.sample(TOP, theta.detach().double().numpy(), steps=20, chains=2).mean  # chains see θ as it is, in float64
    assert torch.equal(mean.detach(), torch.from_numpy(exact).bfloat16())
