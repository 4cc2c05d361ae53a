"""Kernels compile for CUDA everywhere; where there is a GPU, chains visit the states there that they visit on the CPU."""

from time import perf_counter
from types import SimpleNamespace

import numpy as np
import pytest

import movegrad as mg
from movegrad.cuda import arrays
from movegrad.engine import BUILD, DRAW, IMPROVE, Options, layout_of
from movegrad.problems import (
    CVRP,
    QAP,
    QUBO,
    TSP,
    Assignment,
    BinaryProgram,
    EnergyScheduling,
    GeneralizedAssignment,
    Hypercube,
    Ising,
    Knapsack,
    MaxCut,
    PrizeCollectingVRPTW,
    ShortestPath,
    TopK,
    routing,
)
from tests.slow import slow_but_for

torch = pytest.importorskip("torch")
numba_cuda = pytest.importorskip("numba_cuda", reason="needs numba-cuda: pip install 'movegrad[cuda]'")

from numba import cuda  # noqa: E402

from movegrad.cuda import kernel, launch  # noqa: E402

HOPPER = (9, 0)
D = 12
UNSERVED = np.array([0, *[-1] * D])  # although some must be
OPTIONS = {
    "recycled": Options(recycle=True),
    "covariance": Options(covariance=True),
    "best": Options(best=True),
    "one step": Options(first_step=True),
}


def knapsack(d: int = D, capacities: int = 3, moves: tuple = ("swap", "flip"), seed: int = 0) -> Knapsack:
    rng = np.random.default_rng(seed)
    weights = rng.integers(1, 10, (capacities, d)).astype(float)
    return Knapsack(weights, weights.sum(1) / 2, moves=moves)


def vrp(n: int = D, seed: int = 0) -> PrizeCollectingVRPTW:
    rng = np.random.default_rng(seed)
    places = rng.uniform(0.0, 100.0, (n + 1, 2))
    durations = np.hypot(*(places[:, None] - places[None]).transpose(2, 0, 1))
    opens = rng.uniform(0.0, 300.0, n + 1) * (np.arange(n + 1) > 0)
    windows = np.stack([opens, np.where(np.arange(n + 1) > 0, opens + 400.0, 2000.0)], 1)
    demands, must_serve = rng.integers(1, 5, n + 1).astype(float), np.arange(n + 1) % 4 == 1
    demands[0] = 0.0
    instance = routing.Instance(durations, demands, np.zeros(n + 1), windows, 12.0, must_serve)
    return PrizeCollectingVRPTW(instance, beta=0.05)


@mg.jit
def parabola(y):
    total = 0.0
    for i in range(len(y)):
        total += y[i]
    return -0.1 * total * total


# Flips, swaps, exchanges and chains: two rows by two columns of an assignment, other variables, and a row of all.
OVERLAPPING = (
    [
        [1, 1, 0, 0, *[0] * (D - 4)],
        [0, 0, 1, 1, *[0] * (D - 4)],
        [1, 0, 1, 0, *[0] * (D - 4)],
        [0, 1, 0, 1, *[0] * (D - 4)],
        [0, 0, 0, 0, 1, 1, 1, *[0] * (D - 7)],
        [3, 1, 2, 2, *range(1, D - 3)],
    ],
    [1, 1, 1, 1, 1, 4],
    [1, 1, 1, 1, 1, 30],
)  # fmt: skip

RING = np.vstack([np.kron(np.eye(3), np.ones(3)), np.kron(np.ones(3), np.eye(3))])

PROBLEMS = {
    "hypercube": lambda: Hypercube(D),
    "ball of flips": lambda: Hypercube(D, radius=3),
    "mixture of flips": lambda: Hypercube(D, exactly=(1, 2, 3), weights=(1.0, 2.0, 1.0)),
    "hypercube with linear phi": lambda: Hypercube(D, phi=np.linspace(-1.0, 1.0, D)),
    "hypercube with phi": lambda: Hypercube(D, phi=parabola),
    "top-k": lambda: TopK(D, k=4),
    "several swaps": lambda: TopK(D, k=4, swaps=(1, 2)),
    "guided top-k": lambda: TopK(D, k=4, guided=True),
    "knapsack": knapsack,
    "guided knapsack": lambda: knapsack(moves=("swap", "flip", "guided swap", "guided flip")),
    "routing": vrp,
    "paths": lambda: ShortestPath((4, 5)),
    "binary program": lambda: BinaryProgram(*OVERLAPPING),
    "binary program, rotations": lambda: BinaryProgram(RING, 1, 1, moves=["exchange", "rotate"]),
    "binary program, no row watched": lambda: BinaryProgram(np.ones((1, D)), 4, 4),
    "qubo": lambda: QUBO(np.diag(np.ones(D)) + np.diag(np.ones(D - 1), 1)),
    "dense qubo on couplings": lambda: QUBO(np.ones((D, D)), pairs=[(0, 1), (1, 2)]),
    "spins": lambda: Ising(np.diag(np.ones(D - 1), 1), np.ones(D)),
    "cut": lambda: MaxCut(4, [(0, 1), (1, 2), (2, 3)], [1.0, 2.0, 3.0]),
    "generalized assignment": lambda: GeneralizedAssignment(
        np.ones((3, 4)), [2, 2, 2], moves=("reassign", "swap", "chain", "guided reassign")
    ),
    "scheduling": lambda: EnergyScheduling(
        [2, 1], [0, 0], [4, 4], [3.0, 5.0], [1, 1], [1, 1], 4, moves=("shift", "move", "relocate", "swap", "guided shift")
    ),
    "tours": lambda: TSP(D, neighbors=4),
    "tours on arcs": lambda: TSP(D, True, neighbors=4),
    "routing on edges": lambda: CVRP(np.ones(D), 3.0),
    "assignment": lambda: Assignment(D),
    "guided assignment": lambda: Assignment(D, guided=True),
    "quadratic assignment": lambda: QAP(np.ones((D, D)), np.eye(D), moves=("swap", "3-cycle")),
}
FEW = ("hypercube", "guided top-k", "knapsack")


# --- compilation, anywhere -------------------------------------------------------------------------------------------


@pytest.fixture
def hopper(monkeypatch):
    """Stands for a GPU where functions are compiled for one: numba-cuda asks the current device what to compile for."""
    monkeypatch.setattr("numba.cuda.dispatcher.get_current_device", lambda: SimpleNamespace(compute_capability=HOPPER))


def ptx(problem, source: kernel.Source) -> str:
    with launch.explained(problem):
        code, _ = cuda.compile(source.function, source.arguments, cc=HOPPER, device=False, abi="numba")
    return code


def run_ptx(problem, what) -> str:
    return ptx(problem, kernel.source_of_run(layout_of(problem), what))


@pytest.mark.parametrize("name", slow_but_for(["hypercube"], PROBLEMS))
def test_every_built_in_problem_compiles_for_cuda(name, hopper):
    """A move that cannot run there fails here, named with its problem; local arrays must have become registers."""
    problem = PROBLEMS[name]()
    code = run_ptx(problem, Options())
    assert ".target sm_90" in code
    assert "ld.local" not in code
    assert ptx(problem, kernel.source_of_observe(layout_of(problem)))
    makers = {DRAW: problem.functions.random, BUILD: problem.functions.greedy, IMPROVE: problem.functions.improve}
    for task, function in makers.items():
        assert function is None or ".visible .entry" in run_ptx(problem, task)


@pytest.mark.parametrize("option", slow_but_for(["recycled"], OPTIONS))
def test_every_estimator_compiles_for_cuda(option, hopper):
    assert ".visible .entry" in run_ptx(PROBLEMS["guided knapsack"](), OPTIONS[option])


@mg.jit
def change_by_luck(data, state, move, m):
    return move, np.random.randint(2)  # no draw of movegrad's, and not there on a GPU


def test_a_move_that_cannot_run_on_cuda_is_named_with_its_problem(hopper):
    flip = Hypercube(4).moves[0]
    move = mg.Move("flip by luck", flip.propose, change_by_luck, flip.apply)
    problem = Hypercube(4, extra_moves=[move])
    with pytest.raises(ValueError, match=r" of move 'flip by luck' of Hypercube\(4\) must compile for CUDA, but"):
        run_ptx(problem, Options())


def test_without_numba_cuda_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setattr(arrays, "_has", lambda module: False)
    tensor = SimpleNamespace(is_cuda=True, device=SimpleNamespace(index=0))
    with pytest.raises(ImportError, match=r"pip install 'movegrad\[cuda\]'"):
        mg.sample(Hypercube(4), tensor, steps=10)


# --- runs, on a GPU --------------------------------------------------------------------------------------------------

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU; benchmarks/gpu.py runs these tests where there is one")


def scores(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def on_gpu(theta):
    return [t.cuda() for t in theta] if isinstance(theta, list) else theta.cuda()


def host(value):
    return [v.cpu().numpy() for v in value] if isinstance(value, list) else value.cpu().numpy()


def both(problem, theta, **options):
    """The same call on the CPU and on the GPU."""
    return mg.sample(problem, theta, **options), mg.sample(problem, on_gpu(theta), **options)


def assert_same(cpu, dev, tolerance=1e-12):
    """States and counts are the same; means are up to the order of sums over chains."""
    cpu_states, dev_states = (
        (cpu.solutions, host(dev.solutions)) if isinstance(cpu.solutions, list) else ([cpu.solutions], [host(dev.solutions)])
    )
    for a, b in zip(cpu_states, dev_states, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(cpu.info.accepted, dev.info.accepted)
    np.testing.assert_array_equal(cpu.info.drawn, dev.info.drawn)
    np.testing.assert_array_equal(cpu.info.infeasible, dev.info.infeasible)
    means = zip(cpu.mean, host(dev.mean), strict=True) if isinstance(cpu.mean, list) else [(cpu.mean, host(dev.mean))]
    for a, b in means:
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)


@gpu
@pytest.mark.parametrize("name", PROBLEMS)
def test_chains_visit_the_same_states_on_both(name):
    problem = PROBLEMS[name]()
    cpu, dev = both(problem, scores(5, problem.size), steps=3000, chains=13, seed=7, burn_in=100, iterates=True, trace=50)
    assert dev.mean.is_cuda
    assert dev.solutions.is_cuda
    assert_same(cpu, dev)
    np.testing.assert_array_equal(cpu.iterates, host(dev.iterates))
    np.testing.assert_allclose(cpu.info.trace, dev.info.trace, rtol=0, atol=1e-9)
    assert [list(f) for f in cpu.info.frozen] == [list(f) for f in dev.info.frozen]
    assert "accepted" in str(dev.info)


@gpu
@pytest.mark.parametrize("name", FEW)
def test_recycled_means_and_best_solutions_agree(name):
    problem = PROBLEMS[name]()
    cpu, dev = both(problem, scores(3, D), steps=500, chains=4, estimator="recycled", best=True)
    assert_same(cpu, dev)
    np.testing.assert_array_equal(cpu.best, host(dev.best))


@gpu
def test_a_long_run_is_the_same_in_blocks_and_in_ranges_of_chains(monkeypatch):
    problem, theta = knapsack(), scores(2, D).cuda()
    whole = mg.sample(problem, theta, steps=1000, chains=100)
    from movegrad.cuda import memory

    monkeypatch.setattr(launch, "BLOCK_LENGTH", 77)
    blocks = mg.sample(problem, theta, steps=1000, chains=100)
    monkeypatch.setattr(memory, "room", lambda arrays, wanted: 20_000)
    ranges = mg.sample(problem, theta, steps=1000, chains=100)
    for other in (blocks, ranges):
        assert torch.equal(whole.solutions, other.solutions)
        assert torch.equal(whole.mean, other.mean)
        np.testing.assert_array_equal(whole.info.accepted, other.info.accepted)


@gpu
@pytest.mark.parametrize("chains", [21, 300])
def test_problems_of_different_sizes_run_side_by_side(chains):
    """With many chains, those of one group lie side by side, whatever their sizes."""
    problems = [knapsack(d, m, seed=d) for d, m in ((5, 2), (12, 3), (40, 7), (9, 1))]
    thetas = [scores(p.size, seed=p.size) for p in problems]
    cpu, dev = both(problems, thetas, steps=800, chains=chains)
    assert_same(cpu, dev)


@gpu
@pytest.mark.parametrize("name", ["mixture of flips", "guided knapsack", "routing"])
def test_many_chains_of_many_groups_visit_the_same_states(name):
    problem, index = PROBLEMS[name](), np.random.default_rng(0).permutation(1000)[:40]
    assert_same(*both(problem, scores(40, D), steps=200, chains=50, seed=3, index=index))


@gpu
def test_ranges_of_chains_share_a_time_limit(monkeypatch):
    from movegrad.cuda import memory

    monkeypatch.setattr(memory, "room", lambda arrays, wanted: 20_000)
    problem, theta = knapsack(), scores(2, D).cuda()
    mg.sample(problem, theta, steps=10, chains=100)
    begin = perf_counter()
    out = mg.sample(problem, theta, time_limit=0.2, chains=100)
    assert perf_counter() - begin < 2.0  # of some 20 ranges
    assert out.info.steps.shape == (2,)
    assert out.info.steps.min() >= 1


@gpu
def test_words_of_training_calls_do_not_pile_up():
    from movegrad.cuda import memory

    problem, theta = knapsack(), scores(3000, D).cuda()
    for call in range(3):
        mg.sample(problem, theta, steps=5, call=call, index=np.arange(3000) + call)
    kept = memory._kept.cache_info().currsize
    for call in range(3, 20):
        mg.sample(problem, theta, steps=5, call=call, index=np.arange(3000) + call)
    assert memory._kept.cache_info().currsize <= kept + 2 * 17  # a few words for each call, no arrays of examples
    assert memory._KEPT_BYTES * memory._kept.cache_info().maxsize <= 1 << 22


@gpu
def test_routes_of_a_solution_on_the_gpu():
    found = mg.solve(vrp(), scores(2, D).cuda(), steps=2000)
    assert found.solution.is_cuda
    assert found.routes == mg.solve(vrp(), scores(2, D), steps=2000).routes


@gpu
@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_layer_and_gradient_agree(name, dtype):
    problem, theta, v = PROBLEMS[name](), scores(4, D).to(dtype), scores(4, D, seed=1).to(dtype)
    results = []
    for place in ("cpu", "cuda"):
        leaf = theta.to(place).requires_grad_()
        layer = mg.torch.LocalSearchLayer(problem, steps=200, temperature=1.5, chains=3, seed=5)
        value = layer(leaf)
        (gradient,) = torch.autograd.grad(value, leaf, v.to(place))
        assert value.device.type == gradient.device.type == place
        assert value.dtype == gradient.dtype == dtype
        assert layer.info.drawn.sum() == 200 * 3 * 4
        results.append((value.detach().cpu(), gradient.cpu()))
    atol = 1e-6 if dtype is torch.float32 else 1e-12
    torch.testing.assert_close(results[0][0], results[1][0], rtol=0, atol=atol)
    torch.testing.assert_close(results[0][1], results[1][1], rtol=0, atol=10 * atol)


@gpu
def test_a_layer_of_several_problems_agrees():
    problems = [knapsack(d, m, seed=d) for d, m in ((5, 2), (12, 3))]
    gradients = []
    for place in ("cpu", "cuda"):
        leaves = [scores(p.size, seed=p.size).to(place).requires_grad_() for p in problems]
        out = mg.torch.LocalSearchLayer(problems, steps=100, chains=2)(leaves)
        loss = mg.torch.FenchelYoungLoss(mg.torch.LocalSearchLayer(problems, steps=30))
        total = sum((o * o).sum() for o in out) + loss(leaves, [torch.zeros(p.size, device=place) for p in problems])
        gradients.append([g.cpu() for g in torch.autograd.grad(total, leaves)])
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


@gpu
@pytest.mark.parametrize("start", [None, "data", "random", "persistent", "greedy"])
def test_losses_agree_from_every_start(start):
    problem, theta = knapsack(), scores(6, D)
    y = torch.from_numpy(mg.sample(problem, theta, steps=50).solutions[:, 0])
    results = []
    for place in ("cpu", "cuda"):
        leaf, loss = (
            theta.to(place).requires_grad_(),
            mg.torch.FenchelYoungLoss(mg.torch.LocalSearchLayer(problem, steps=40, chains=2)),
        )
        # The second persistent call continues the first.
        values = [loss(leaf, y.to(place), start=start, index=np.arange(6)) for _ in range(3)]
        results.append([v.item() for v in values] + torch.autograd.grad(values[-1], leaf)[0].cpu().flatten().tolist())
    np.testing.assert_allclose(*results, rtol=0, atol=1e-12)


@gpu
def test_one_theta_for_many_observations_and_means_agree():
    problem, theta = TopK(D, k=4), scores(D)
    y = torch.from_numpy(mg.exact.sample(problem, theta.numpy(), 9))
    results = []
    for place in ("cpu", "cuda"):
        leaf, loss = theta.to(place).requires_grad_(), mg.torch.FenchelYoungLoss(mg.torch.LocalSearchLayer(problem, steps=40))
        many = loss(leaf, y.to(place)) + loss(leaf, y.to(place))
        mean = loss(leaf, y.to(place).double().mean(0), start="random", y_is="mean")
        exact = mg.torch.OneStepLoss(problem)(leaf, y.to(place))
        (gradient,) = torch.autograd.grad(many + mean + exact, leaf)
        results.append([many.item(), mean.item(), exact.item(), *gradient.tolist()])
    np.testing.assert_allclose(*results, rtol=0, atol=1e-12)


@gpu
def test_solve_and_jacobian_product_agree():
    problem, theta, v = knapsack(), scores(3, D), scores(3, D, seed=4)
    for each in (problem, vrp()):
        for steps in (2000, 20_000):  # many for D entries: with short runs
            cpu, dev = (mg.solve(each, values, steps=steps, chains=2) for values in (theta, theta.cuda()))
            np.testing.assert_array_equal(cpu.solution, host(dev.solution))
            np.testing.assert_allclose(cpu.objective, host(dev.objective), rtol=0, atol=1e-12)
    options = {"steps": 300, "temperature": np.array([1.0, 2.0, 0.5]), "chains": 4}
    cpu, dev = mg.jacobian_product(problem, theta, v, **options), mg.jacobian_product(problem, theta.cuda(), v.cuda(), **options)
    np.testing.assert_allclose(cpu, host(dev), rtol=0, atol=1e-11)


@gpu
def test_given_starts_and_schedules_agree():
    problem, theta = TopK(D, k=4), scores(2, D)
    y = torch.from_numpy(mg.exact.sample(problem, theta.numpy(), 3).transpose(1, 0, 2).copy())  # (2, 3, D)
    for start in (y, y[:, 0], y[0, 0], y.numpy()):
        schedule = mg.schedules.truncated_geometric(2.0, 0.99, 0.5)
        cpu = mg.sample(problem, theta, steps=200, chains=3, start=start, schedule=schedule)
        given = start.cuda() if isinstance(start, torch.Tensor) else start
        assert_same(cpu, mg.sample(problem, theta.cuda(), steps=200, chains=3, start=given, schedule=schedule))


@gpu
def test_work_goes_to_the_current_stream():
    """The chains wait for what was put on the stream before them: θ is filled there by a kernel that takes long."""
    problem, theta, stream = Hypercube(D), scores(2, D), torch.cuda.Stream()
    expected = mg.sample(problem, theta, steps=100).mean
    late = torch.zeros(2, D, dtype=torch.float64, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)
        late.copy_(theta.cuda(non_blocking=True))
        out = mg.sample(problem, late, steps=100)
    np.testing.assert_allclose(out.mean.cpu().numpy(), expected, rtol=0, atol=1e-12)


@gpu
def test_a_time_limit_is_kept_and_its_chains_can_be_run_again():
    problem, theta = knapsack(), scores(4, D).cuda().requires_grad_()
    layer = mg.torch.LocalSearchLayer(problem, time_limit=0.05, chains=8)
    out = layer(theta)
    assert layer.info.steps.min() > 100
    (gradient,) = torch.autograd.grad(out.sum(), theta)
    steps = int(layer.info.steps[0])
    again = mg.torch.LocalSearchLayer(problem, steps=steps, chains=8)(theta)
    assert torch.equal(out, again)
    assert torch.isfinite(gradient).all()


@gpu
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: mg.sample(Hypercube(D), t * np.nan, steps=10), "theta must be finite, got nan"),
        (lambda t: mg.sample(Hypercube(D), t.long(), steps=10), "theta must be of a floating dtype, got int64"),
        (lambda t: mg.sample(Hypercube(D), t[:, :5], steps=10), r"theta must have a last axis of 12 entries, got shape \(2, 5\)"),
        (lambda t: mg.sample(TopK(D, k=3), t, steps=10, start=torch.ones(D, device="cuda")), "start must be in the set"),
        (lambda t: mg.sample(vrp(), t, steps=10, start=UNSERVED), "for chain 0 of example 0: request 1 must be served"),
        (lambda t: mg.sample(TopK(D, k=3), t, steps=10, start=0.5 * torch.ones(D, device="cuda")), "got the entry 0.5"),
        (lambda t: mg.sample(TopK(D, k=3, guided=True), t, steps=10, guide=t / 0.0), "guide must be finite"),
        (lambda t: loss_at(t, torch.ones(2, D, device="cuda")), r"y, unless y_is is 'mean', must be in the set, got .* in row 0"),
        (lambda t: loss_at(t.cpu(), torch.ones(2, D, device="cuda")), "y must be on the CPU, as theta is, got device cuda:0"),
        (lambda t: mg.sample(Hypercube(D), t.cpu(), steps=9, guide=t), "guide must be on the host"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(scores(2, D).cuda())


def loss_at(theta, y):
    return mg.torch.FenchelYoungLoss(mg.torch.LocalSearchLayer(TopK(D, k=3), steps=5))(theta, y)


@gpu
def test_a_tensor_in_place_of_theta_may_change_before_the_backward_pass():
    problem, theta = Hypercube(D), scores(2, D).cuda()
    leaf = theta.clone().requires_grad_()
    out = mg.torch.LocalSearchLayer(problem, steps=50)(leaf)
    with torch.no_grad():
        leaf.data.zero_()
    (gradient,) = torch.autograd.grad(out.sum(), leaf)
    expected = mg.jacobian_product(problem, theta, torch.ones_like(theta), steps=50)
    assert torch.equal(gradient, expected)


@gpu
def test_cupy_arrays_stay_cupy_arrays():
    cupy = pytest.importorskip("cupy")
    problem, theta = knapsack(), scores(3, D)
    cpu, dev = mg.sample(problem, theta, steps=200, chains=2), mg.sample(problem, cupy.asarray(theta.numpy()), steps=200, chains=2)
    assert isinstance(dev.mean, cupy.ndarray)
    np.testing.assert_array_equal(cpu.solutions, cupy.asnumpy(dev.solutions))
    np.testing.assert_allclose(cpu.mean, cupy.asnumpy(dev.mean), rtol=0, atol=1e-12)


@gpu
def test_jax_arrays_on_the_gpu_agree_with_torch():
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("needs JAX with a GPU")
    problem, theta, v = knapsack(), scores(3, D).float(), scores(3, D, seed=1).float()
    layer = mg.jax.LocalSearchLayer(problem, steps=100, chains=2)
    value, pull = jax.vjp(lambda t: layer(t, jax.random.key(3)), jax.numpy.asarray(theta.numpy()))
    leaf = theta.cuda().requires_grad_()
    expected = mg.torch.LocalSearchLayer(problem, steps=100, chains=2, seed=3)(leaf)
    (product,) = torch.autograd.grad(expected, leaf, v.cuda())
    assert next(iter(value.devices())).platform == "gpu"
    np.testing.assert_allclose(value, expected.detach().cpu().numpy(), rtol=0, atol=1e-6)
    np.testing.assert_allclose(pull(jax.numpy.asarray(v.numpy()))[0], product.cpu().numpy(), rtol=0, atol=1e-5)
    y = np.zeros((3, D), np.uint8)
    loss, gradient = jax.value_and_grad(mg.jax.FenchelYoungLoss(layer))(jax.numpy.asarray(theta.numpy()), y, jax.random.key(3))
    under_jit = jax.jit(mg.jax.FenchelYoungLoss(layer))(jax.numpy.asarray(theta.numpy()), y, jax.random.key(3))
    np.testing.assert_allclose(loss, under_jit, rtol=1e-5)
    assert np.isfinite(gradient).all()
