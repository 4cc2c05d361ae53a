"""The PyTorch layer and losses: gradients against exact covariances and finite differences, settings, resuming."""

import io

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import movegrad as mg  # noqa: E402
from movegrad.problems import Hypercube, TopK  # noqa: E402
from movegrad.torch import FenchelYoungLoss, LocalSearchLayer, OneStepLoss  # noqa: E402


def scores(*shape, seed=0, dtype=torch.float64):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape)).to(dtype).requires_grad_()


def chain_z(values: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """z-scores of the mean over rows of independent estimates."""
    return (values.mean(0) - exact) / (values.std(0, ddof=1) / np.sqrt(len(values)))


# --- the layer -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", [Hypercube(6), TopK(7, k=3)], ids=repr)
def test_jacobian_product_of_the_layer_matches_the_exact_covariance(problem):
    theta = scores(problem.size).detach().expand(64, -1).clone().requires_grad_()
    v, t = scores(problem.size, seed=1).detach(), 0.7
    layer = LocalSearchLayer(problem, steps=20_000, temperature=t, burn_in=500)
    (layer(theta) * v).sum().backward()
    exact = mg.exact.covariance(problem, theta[0].detach().numpy(), t) @ v.numpy() / t
    assert np.abs(chain_z(theta.grad.numpy(), exact)).max() < 6  # Student, 63 degrees of freedom: 1e-7 an entry


def test_backward_is_the_covariance_of_the_very_chain_that_ran_forward():
    problem, theta, v = TopK(6, k=2), scores(8, 6), scores(8, 6, seed=1).detach()
    mean = LocalSearchLayer(problem, steps=50, temperature=0.8, seed=3)(theta)
    (mean * v).sum().backward()
    out = mg.sample(problem, theta.detach().numpy(), steps=50, temperature=0.8, seed=3, trace=50, iterates=True)
    y = out.iterates[:, 0].astype(float)  # (8, 50, 6)
    s = (y * v.numpy()[:, None]).sum(-1, keepdims=True)
    covariance = ((y - y.mean(1, keepdims=True)) * (s - s.mean(1, keepdims=True))).mean(1)
    np.testing.assert_allclose(mean.detach().numpy(), y.mean(1), atol=1e-12)
    np.testing.assert_allclose(theta.grad.numpy(), covariance / 0.8, atol=1e-12)


def test_forward_mode_equals_backward_mode():
    theta, v = scores(3, 6), scores(3, 6, seed=1).detach()
    layer = LocalSearchLayer(TopK(6, k=2), steps=100)
    grad = torch.autograd.grad(layer(theta), theta, v)[0]
    layer.set_extra_state({"calls": 0, "ends": None})
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(theta.detach(), v)
        tangent = torch.autograd.forward_ad.unpack_dual(layer(dual)).tangent
    torch.testing.assert_close(tangent, grad)  # the covariance is symmetric


def test_layer_under_a_time_limit_replays_the_steps_it_made():
    theta = scores(3, 20)
    layer = LocalSearchLayer(Hypercube(20), time_limit=0.002)
    mean = layer(theta)
    steps = layer.info.steps
    assert len(steps) == 3
    assert steps.min() >= 1
    v = scores(3, 20, seed=1).detach()
    (mean * v).sum().backward()
    expected = mg.jacobian_product(Hypercube(20), theta.detach().numpy()[:1], v.numpy()[:1], steps=int(steps[0]))
    np.testing.assert_allclose(theta.grad.numpy()[:1], expected, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_layer_keeps_dtype_and_shape(dtype):
    theta = scores(2, 3, 8, dtype=dtype)
    mean = LocalSearchLayer(TopK(8, k=2), steps=10, chains=2)(theta)
    assert mean.dtype == dtype
    assert mean.shape == theta.shape
    mean.sum().backward()
    assert theta.grad.dtype == dtype


def test_calls_differ_and_the_same_seed_repeats_them():
    problem, theta = TopK(8, k=2), scores(8).detach()
    one, other = LocalSearchLayer(problem, steps=20, seed=5), LocalSearchLayer(problem, steps=20, seed=5)
    first, second = one(theta), one(theta)
    assert not torch.equal(first, second)
    assert torch.equal(first, other(theta))
    assert torch.equal(second, other(theta))


def test_ragged_layer_equals_separate_calls():
    problems = [TopK(5, k=2), TopK(9, k=4)]
    thetas = [scores(5), scores(9, seed=1)]
    means = LocalSearchLayer(problems, steps=200)(thetas)
    sum(m.square().sum() for m in means).backward()
    for key, (problem, theta, mean) in enumerate(zip(problems, thetas, means, strict=True)):
        alone = theta.detach().clone().requires_grad_()
        single = LocalSearchLayer(problem, steps=200)(alone[None], index=[key])[0]
        single.square().sum().backward()
        assert torch.equal(mean, single)
        torch.testing.assert_close(theta.grad, alone.grad)


def test_downstream_loss_trains_through_the_jacobian():
    """Steer the marginals of a hypercube to given values by a squared loss behind the layer."""
    goal = torch.tensor([0.9, 0.1, 0.6], dtype=torch.float64)
    theta = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    layer = LocalSearchLayer(Hypercube(3), steps=2_000)
    optimizer = torch.optim.Adam([theta], lr=0.1)
    for _ in range(150):
        optimizer.zero_grad()
        (layer(theta) - goal).square().sum().backward()
        optimizer.step()
    np.testing.assert_allclose(mg.exact.marginals(Hypercube(3), theta.detach().numpy()), goal.numpy(), atol=0.04)


# --- Fenchel-Young loss ----------------------------------------------------------------------------------------------


def test_gradient_of_the_loss_is_mean_of_the_chain_minus_target():
    problem, theta = TopK(6, k=2), scores(4, 6)
    y = torch.from_numpy(mg.exact.sample(problem, theta.detach().numpy(), 1)[0])
    FenchelYoungLoss(LocalSearchLayer(problem, steps=30, seed=1), reduction="sum")(theta, y).backward()
    mean = mg.sample(problem, theta.detach().numpy(), steps=30, start=y.numpy(), seed=1).mean
    np.testing.assert_allclose(theta.grad.numpy(), mean - y.numpy(), atol=1e-12)


def test_gradient_of_a_long_chain_is_that_of_the_exact_loss():
    problem, theta = TopK(6, k=2), scores(6, seed=2)
    y = np.array([1, 1, 0, 0, 0, 0])
    rows = theta.detach().expand(64, -1).clone().requires_grad_()
    loss = FenchelYoungLoss(LocalSearchLayer(problem, steps=20_000, burn_in=500), reduction="sum")
    loss(rows, np.tile(y, (64, 1))).backward()
    exact = mg.exact.marginals(problem, theta.detach().numpy()) - y
    assert np.abs(chain_z(rows.grad.numpy(), exact)).max() < 6


def test_reductions_agree():
    problem, theta, y = TopK(6, k=2), scores(4, 6), np.tile(TopK(6, k=2).solution, (4, 1))
    none, total, mean = (
        FenchelYoungLoss(LocalSearchLayer(problem, steps=20), reduction=r)(theta, y) for r in ("none", "sum", "mean")
    )
    assert none.shape == (4,)
    torch.testing.assert_close(none.sum(), total)
    torch.testing.assert_close(none.mean(), mean)


def test_one_theta_for_many_observations_compares_with_their_mean():
    problem, theta = TopK(6, k=2), scores(6)
    y = mg.exact.sample(problem, theta.detach().numpy(), 50)
    loss = FenchelYoungLoss(LocalSearchLayer(problem, steps=40, seed=2))
    loss(theta, torch.from_numpy(y)).backward()
    mean = mg.sample(problem, theta.detach().numpy(), steps=40, seed=2).mean
    np.testing.assert_allclose(theta.grad.numpy(), mean - y.mean(0), atol=1e-12)


def test_persistent_chains_go_on_from_call_to_call():
    problem, theta = Hypercube(30), torch.full((30,), 50.0, dtype=torch.float64)
    loss = FenchelYoungLoss(LocalSearchLayer(problem, steps=30, start="random"))
    y = np.ones((5, 30), np.uint8)
    for _ in range(40):
        loss(theta, y)
    assert loss.persistent.ends[0].sum() == 30  # 30 steps from a random start would not be enough


def test_mean_of_observations_needs_a_start_of_its_own():
    problem, theta = TopK(6, k=2), scores(6)
    average = torch.full((6,), 1 / 3, dtype=torch.float64)
    loss = FenchelYoungLoss(LocalSearchLayer(problem, steps=40, seed=2))
    with pytest.raises(ValueError, match="y, unless y_is is 'mean', must be in the set"):
        loss(theta, average)
    with pytest.raises(ValueError, match="start must not be that of observed solutions where y is a mean of T, got 'target'"):
        loss(theta, average, start="target", y_is="mean")
    loss(theta, average, start="random", y_is="mean").backward()
    mean = mg.sample(problem, theta.detach().numpy(), steps=40, seed=2).mean
    np.testing.assert_allclose(theta.grad.numpy(), mean - 1 / 3, atol=1e-12)


def test_data_start_begins_at_observations():
    problem, theta = Hypercube(5), scores(5)
    y = np.array([[0, 0, 0, 0, 0], [1, 1, 1, 1, 1]], np.uint8)
    layer = LocalSearchLayer(problem, steps=1, chains=64)
    FenchelYoungLoss(layer, start="data")(theta, y)
    sums = layer._memory.last.solutions[0].sum(1)
    assert set(sums) <= {0, 1, 4, 5}
    assert (sums <= 1).any()
    assert (sums >= 4).any()


def test_ragged_loss_equals_separate_losses():
    problems, thetas = [TopK(5, k=2), TopK(9, k=4)], [scores(5), scores(9, seed=1)]
    targets = [p.solution for p in problems]
    FenchelYoungLoss(LocalSearchLayer(problems, steps=50), reduction="sum")(thetas, targets).backward()
    for key, (problem, theta, y) in enumerate(zip(problems, thetas, targets, strict=True)):
        alone = theta.detach().clone().requires_grad_()
        FenchelYoungLoss(LocalSearchLayer(problem, steps=50), reduction="sum")(alone[None], y[None], index=[key]).backward()
        assert torch.equal(theta.grad, alone.grad)


# --- the exact one-step loss -----------------------------------------------------------------------------------------

ONE_STEP = [
    Hypercube(5),
    Hypercube(5, radius=2),
    Hypercube(4, exactly=(1, 2), weights=(1, 3)),
    TopK(6, k=2),
    TopK(6, k=3, swaps=(1, 2)),
]


@pytest.mark.parametrize("problem", ONE_STEP, ids=repr)
@pytest.mark.parametrize("temperature", [0.3, 2.0])
def test_gradient_of_the_one_step_loss_matches_finite_differences(problem, temperature):
    theta = scores(3, problem.size)
    y = mg.exact.sample(problem, theta.detach().numpy(), 1)[0]
    loss = OneStepLoss(problem, temperature)
    assert torch.autograd.gradcheck(lambda t: loss(t, y), theta, eps=1e-6, atol=1e-6)
    one, many = scores(problem.size), mg.exact.sample(problem, scores(problem.size).detach().numpy(), 7)
    assert torch.autograd.gradcheck(lambda t: loss(t, many), one, eps=1e-6, atol=1e-6)


def test_one_step_loss_is_convex_along_lines():
    problem, y = TopK(6, k=2), TopK(6, k=2).solution
    loss = OneStepLoss(problem, 0.5)
    a, b = scores(6).detach(), 3 * scores(6, seed=1).detach()
    values = [float(loss(a + s * (b - a), y)) for s in np.linspace(0, 1, 41)]
    assert (np.diff(values, 2) > -1e-12).all()


def test_unconditional_one_step_loss_is_the_mean_of_conditional_ones():
    problem, theta = TopK(6, k=2), scores(6)
    y = mg.exact.sample(problem, theta.detach().numpy(), 9)
    together = OneStepLoss(problem)(theta, y)
    apart = torch.stack([OneStepLoss(problem)(theta, row) for row in y]).mean()
    torch.testing.assert_close(together, apart)


def test_one_step_loss_of_guided_proposals_needs_a_frozen_guide():
    problem, theta = TopK(6, k=2, swaps=(), guided=True, beta=0.5), scores(6)
    y, loss = problem.solution, OneStepLoss(problem)
    with pytest.raises(ValueError, match="guide must be given"):
        loss(theta, y)
    guide = theta.detach().numpy().copy()
    assert torch.autograd.gradcheck(lambda t: loss(t, y, guide=guide), theta, eps=1e-6, atol=1e-6)


# --- saving and resuming ---------------------------------------------------------------------------------------------


def test_training_resumes_with_the_same_numbers():
    problem = TopK(8, k=3)
    y = mg.exact.sample(problem, np.linspace(-1, 1, 8), 20)

    def fresh():
        theta = torch.nn.Parameter(torch.zeros(8, dtype=torch.float64))
        loss = FenchelYoungLoss(LocalSearchLayer(problem, steps=10, chains=2))
        return theta, loss, torch.optim.Adam([theta], lr=0.1)

    def train(theta, loss, optimizer, updates):
        for _ in range(updates):
            optimizer.zero_grad()
            loss(theta, y).backward()
            optimizer.step()

    whole = fresh()
    train(*whole, 10)
    part = fresh()
    train(*part, 6)
    file = io.BytesIO()
    torch.save({"theta": part[0].data, "loss": part[1].state_dict(), "optimizer": part[2].state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    resumed = fresh()
    resumed[0].data.copy_(saved["theta"])
    resumed[1].load_state_dict(saved["loss"])
    resumed[2].load_state_dict(saved["optimizer"])
    train(*resumed, 4)
    assert torch.equal(whole[0].data, resumed[0].data)


def test_importing_movegrad_imports_no_front_end():
    import subprocess
    import sys

    code = "import sys, movegrad; print('torch' in sys.modules, 'jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_layers_and_problems_can_be_pickled():
    import pickle

    layer = LocalSearchLayer(TopK(6, k=2, guided=True), steps=20, seed=3)
    copy = pickle.loads(pickle.dumps(layer))
    theta = scores(3, 6).detach()
    assert torch.equal(layer(theta), copy(theta))
