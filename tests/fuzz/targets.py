"""What is called: every public function with right arguments, and of what kind each argument is."""

import contextlib
import importlib.util
import io
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

import movegrad as mg
from movegrad._cli import main
from movegrad.problems import Hypercube, Knapsack, PrizeCollectingVRPTW, TopK
from movegrad.problems.hypercube import FLIP, apply_flip, change_flip, propose_flip
from movegrad.problems.routing import Instance, proximity
from tests.fuzz.special import folder

KINDS = {
    # of arguments by their name, unless a target says otherwise; "array" and "number" are never nonsense
    "theta": "array", "y": "array", "guide": "array", "direction": "array", "index": "array", "solutions": "array",
    "temperature": "number", "time_limit": "number", "weight": "number", "beta": "number", "tolerance": "number",
    "steps": "number", "burn_in": "number", "chains": "number", "trace": "number", "seed": "number", "call": "number",
    "n": "number", "d": "number", "k": "number", "radius": "number", "size": "number", "limit": "number", "max_states": "number",
    "weights": "array", "capacities": "array", "shares": "array", "temperatures": "array", "swaps": "array", "exactly": "array",
    "durations": "array", "demands": "array", "service": "array", "windows": "array", "capacity": "number",
    "must_serve": "array", "max_vehicles": "number", "costs": "array", "coordinates": "array", "prizes": "array",
    "rewards": "array", "draws": "array", "decay": "number", "final": "number", "end": "number",
    "pred_cost": "array", "true_sol": "array", "true_cost": "array", "c": "array", "vehicles": "number", "scale": "number",
    "schedule": "function", "progress": "function",
}  # fmt: skip
TAKES_LONG = ("2**63", "np.uint64", "2**45")  # right, but nobody waits for so many seconds


@dataclass(frozen=True)
class Target:
    """``call(**right())`` is accepted. ``names``: how messages call an argument, where not by its name."""

    name: str
    call: Callable[..., Any]
    right: Callable[[], dict[str, Any]]
    kinds: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    only: tuple[str, ...] = ()  # arguments that are made wrong, if not all
    skip: dict[str, tuple[str, ...]] = field(default_factory=dict)  # labels of values that are right but take long
    pools: dict[str, str] = field(default_factory=dict)  # values of its own for an argument, see :mod:`tests.fuzz.special`
    finite: bool = True  # results are finite numbers
    foreign: bool = False  # another library sees the argument first, and may refuse it in its own words
    slow: bool = False  # compiles, or imports for seconds
    weight: float = 1.0

    def takes_long(self, argument: str) -> tuple[str, ...]:
        """Labels of values that are right, but nobody waits for the result."""
        return (*self.skip.get(argument, ()), *(("2**45",) if argument in ("steps", "calls") else ()))

    def kind(self, argument: str) -> str:
        return self.kinds.get(argument, KINDS.get(argument, "other"))


# --- problems and right values ---------------------------------------------------------------------------------------

TOP, LARGER, CUBE = TopK(5, 2), TopK(9, 3), Hypercube(4)
GUIDED = TopK(5, 2, guided=True)
WEIGHTS, CAPACITIES = np.array([[2.0, 3.0, 1.0, 4.0, 2.0], [1.0, 1.0, 5.0, 2.0, 2.0]]), np.array([6.0, 5.0])
SACK = Knapsack(WEIGHTS, CAPACITIES)
PAIR = np.linspace(-1.0, 1.0, 10).reshape(2, 5)
Y = TOP.solution
RAGGED = [PAIR[0], np.linspace(-1.0, 1.0, 9)]
PLACES = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [3.0, 0.0]])


def instance_parts() -> dict[str, Any]:
    return {
        "durations": 10.0 * np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0))),
        "demands": np.array([0, 1, 1, 1]),
        "service": np.array([2, 3, 3, 3]),
        "windows": np.array([[5.0, 200.0], [0.0, 100.0], [60.0, 90.0], [0.0, np.inf]]),
        "capacity": 2,
        "must_serve": np.array([0, 0, 0, 1]),
        "max_vehicles": 3,
        "costs": 10.0 * np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0))),
        "coordinates": PLACES.copy(),
    }


INSTANCE = Instance(**instance_parts())
VRP = PrizeCollectingVRPTW(INSTANCE)
ARCS = PrizeCollectingVRPTW(INSTANCE, arcs=True)
PRIZES = np.array([3.0, 30.0, 10.0])
ROUTES = [[1, 2], [3]]


class Data(NamedTuple):
    unused: object


class State(NamedTuple):
    y: object


def own(**parts: Any) -> mg.Problem:
    """A problem of one's own; fields are given one by one."""
    data, state = Data(parts.pop("unused", np.zeros(1))), State(parts.pop("y", np.zeros(4, np.uint8)))
    return mg.Problem(**({"data": data, "state": state, "moves": [FLIP], "size": 4} | parts))


# --- the targets -----------------------------------------------------------------------------------------------------

RUN = {"steps": 5, "chains": 2, "seed": 3}
TIMED = {"time_limit": TAKES_LONG, "chains": TAKES_LONG}


HOURS = {name: f"{name}|durations" for name in ("service", "windows")}  # durations are compared with them


def core() -> list[Target]:
    both = {"problem": [TOP, LARGER]}
    return [
        Target(
            "sample",
            mg.sample,
            lambda: {
                "problem": TOP, "theta": PAIR.copy(), **RUN, "temperature": 1.0, "schedule": None, "burn_in": 1, "start": "random",
                "estimator": "mean", "best": False, "trace": 4, "iterates": False, "guide": None, "index": [4, 5], "call": 0,
                "progress": None, "time_limit": None,
            },
            weight=6,
        ),
        Target("sample with more", mg.sample, lambda: {
            "problem": TOP, "theta": PAIR[0].copy(), **RUN, "temperature": np.array([0.5]), "schedule": lambda k: 1.0,
            "start": Y.copy(), "guide": PAIR[0].copy(), "progress": lambda share: None, "iterates": True, "best": True,
        }, weight=2),
        Target("sample by time", mg.sample, lambda: {"problem": TOP, "theta": PAIR.copy(), "time_limit": 0.001, "burn_in": 0},
               skip=TIMED | {"burn_in": TAKES_LONG}),
        Target("sample of a list", mg.sample, lambda: {
            **both, "theta": [t.copy() for t in RAGGED], "steps": 4, "temperature": [1.0, 2.0], "guide": [t.copy() for t in RAGGED],
            "start": [Y.copy(), LARGER.solution.copy()], "index": [1, 2],
        }, weight=3),
        Target("solve", mg.solve, lambda: {
            "problem": TOP, "theta": PAIR.copy(), **RUN, "schedule": None, "start": "greedy", "correction": True, "guide": None,
            "index": np.arange(2), "progress": None, "time_limit": None,
        }, weight=3),
        Target("solve by time", mg.solve, lambda: {"problem": SACK, "theta": PAIR.copy(), "time_limit": 0.001},
               skip=TIMED),
        Target("solve of a list", mg.solve, lambda: {**both, "theta": [t.copy() for t in RAGGED], "steps": 4}),
        Target("jacobian_product", mg.jacobian_product, lambda: {
            "problem": TOP, "theta": PAIR.copy(), "direction": PAIR.copy(), **RUN, "temperature": 1.0, "burn_in": 0,
            "start": "random", "guide": None, "index": None, "call": 0,
        }, weight=2),
        Target("one_step", mg.one_step, lambda: {
            "problem": TOP, "theta": PAIR.copy(), "y": np.stack([Y, Y]), "temperature": 1.0, "guide": None,
        }, weight=2),
        Target("one_step guided", mg.one_step, lambda: {
            "problem": GUIDED, "theta": PAIR[0].copy(), "y": Y.copy(), "guide": PAIR[0].copy(),
        }),
        Target("one_step of a list", mg.one_step, lambda: {
            **both, "theta": [t.copy() for t in RAGGED], "y": [Y.copy(), LARGER.solution.copy()],
        }),
        Target("Neighborhoods", lambda **a: repr(mg.Neighborhoods(**a)), lambda: {"problem": TOP, "y": Y[None]}),
        Target("Neighborhoods.rows_of", lambda y: mg.Neighborhoods(TOP, Y).rows_of(y), lambda: {"y": np.stack([Y, Y])}),
        Target("Neighborhoods.one_step", lambda *a, **b: mg.Neighborhoods(TOP, Y).one_step(*a, **b), lambda: {
            "theta": PAIR.copy(), "rows": [0, 0], "temperature": 1.0,
        }, weight=2),
        Target("sample of routes", mg.sample, lambda: {"problem": VRP, "theta": PRIZES.copy(), "steps": 4, "start": [[1, 2], [3]]},
               only=("theta", "start"), pools={"start": "routes"}, weight=2),
        Target("check", mg.check, lambda: {
            "problem": TOP, "temperatures": (0.5, 1.0), "max_states": 100, "tolerance": 1e-10, "seed": 0, "local": None,
            "compiled": False,
        }),
        Target("debug", mg.debug, lambda: {
            "problem": TOP, "theta": PAIR[0, :5].copy(), "steps": 3, "temperature": 1.0, "start": None, "seed": 0, "quiet": True,
        }),
        Target("statistic", TOP.statistic, lambda: {"y": TOP.solution.copy()}, kinds={"y": "array"}),
        Target("objective", TOP.objective, lambda: {"theta": PAIR[0, :5].copy(), "y": TOP.solution.copy()}, kinds={"y": "array"}),
        Target("set_threads", set_threads, lambda: {"n": 2}),
        Target("stay", mg.stay, lambda: {"weight": 1.0}),
        Target("jit", mg.jit, lambda: {"function": lambda x: x}, only=("function",)),
        Target("outline", mg.outline, lambda: {"function": lambda x: x}, only=("function",)),
    ]  # fmt: skip


def set_threads(n: Any) -> None:
    before = mg.get_threads()
    try:
        mg.set_threads(n)
        mg.sample(TOP, np.zeros((8, 5)), steps=4_000)
    finally:
        mg.set_threads(before)


def exact() -> list[Target]:
    named = {"": TOP, " by enumeration": SACK, " of independent bits": CUBE}
    out = []
    for text, problem in named.items():
        theta = PAIR[:, : problem.size]
        shared = {"problem": problem, "theta": theta, "temperature": 1.0}
        y = np.stack([problem.solution] * 2)
        parts: dict[str, dict] = {
            "log_partition": {},
            "marginals": {},
            "covariance": {},
            "sample": {"n": 3, "seed": 0},
            "fenchel_young": {"y": y},
        }
        for name, more in parts.items():
            right = {**shared, **more}
            out.append(
                Target(
                    f"exact.{name}{text}",
                    getattr(mg.exact, name),
                    lambda right=right: {k: _copy(v) for k, v in right.items()},
                    weight=0.6,
                )
            )
    return [
        *out,
        Target("exact.Enumeration", mg.exact.Enumeration, lambda: {"problem": CUBE, "limit": 100},
               names={"limit": "limit|solutions"}),
        Target("exact.enumeration", mg.exact.enumeration, lambda: {"problem": CUBE}),
    ]  # fmt: skip


def _copy(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


@mg.jit
def phi_of(y):
    return 0.5 * y[0]


def problems() -> list[Target]:
    return [
        Target("Move", mg.Move, lambda: {
            "name": "flip", "propose": propose_flip, "change": change_flip, "apply": apply_flip, "changes": 1, "gain": None,
            "feasible": None, "applicable_after": None, "weight": 1.0,
        }, weight=2),
        Target("Problem", mg.Problem, lambda: {
            "data": Data(np.zeros(1)), "state": State(np.zeros(4, np.uint8)), "moves": [FLIP], "size": 4, "prepare": None,
            "statistic": None, "phi": None, "contains": None, "random": None, "greedy": None, "improve": None, "applicable": None,
            "guided": False, "uniform": True, "states": None, "oracle": None, "name": "mine",
        }, weight=3),
        Target("Problem, a field", own, lambda: {"unused": np.zeros(2), "y": np.zeros(4, np.uint8)},
               kinds={"y": "other"}, names={"y": "y|size"},
               finite=False),
        Target("Problem in use", used, lambda: {"name": "mine", "states": None, "oracle": None, "guided": False}),
        Target("Hypercube", Hypercube, lambda: {
            "d": 4, "radius": 2, "exactly": None, "weights": None, "phi": None, "extra_moves": (),
        }, kinds={"phi": "array"}, weight=2),
        Target("Hypercube with more", Hypercube, lambda: {
            "d": 4, "exactly": [1, 2], "weights": [1.0, 2.0], "phi": np.ones(4), "extra_moves": [FLIP],
        }, kinds={"phi": "array"}, names={"exactly": "exactly|move"}, weight=2),
        Target("TopK", TopK, lambda: {
            "d": 5, "k": 2, "swaps": [1, 2], "guided": True, "beta": 1.0, "weights": [1.0, 2.0, 3.0], "phi": np.ones(5),
            "extra_moves": (),
        }, kinds={"phi": "array"}, names={"swaps": "swaps|move"}, weight=2),
        Target("TopK with a function", TopK, lambda: {"d": 5, "k": 2, "swaps": 1, "phi": phi_of}),
        Target("Knapsack", Knapsack, lambda: {
            "weights": WEIGHTS.copy(), "capacities": CAPACITIES.copy(), "moves": ("swap", "guided flip"), "beta": None,
            "shares": [1.0, 2.0],
        }, weight=2),
        Target("Knapsack.batch", Knapsack.batch, lambda: {
            "weights": np.stack([WEIGHTS] * 2), "capacities": np.stack([CAPACITIES] * 2), "moves": ("flip",),
        }),
        Target("Instance", Instance, instance_parts, weight=4, names=HOURS),
        Target("PrizeCollectingVRPTW", PrizeCollectingVRPTW, lambda: {
            "instance": INSTANCE, "beta": 0.1, "moves": ("relocate", "serve/remove"), "shares": [1.0, 2.0], "arcs": False,
        }, weight=2),
        Target("proximity", proximity, lambda: {"instance": INSTANCE}),
        Target("routes of a solution", VRP.routes, lambda: {"solution": np.array([0, 2, 0, 0])}, kinds={"solution": "array"},
               pools={"solution": "routes"}),
        Target("cost of routes", VRP.cost, lambda: {"routes": ROUTES}, pools={"routes": "routes"}),
        Target("is_feasible", VRP.is_feasible, lambda: {"routes": ROUTES}, pools={"routes": "routes"}),
        Target("encode", VRP.encode, lambda: {"value": ROUTES}, pools={"value": "routes"}, names={"value": "value|routes"},
               finite=False),
        Target("describe", VRP.describe, lambda: {"solution": np.array([0, 2, 0, 0])}, kinds={"solution": "array"}),
        Target("theta of prizes", VRP.theta, lambda: {"prizes": PRIZES.copy(), "rewards": None}),
        Target("theta of prizes and rewards", ARCS.theta, lambda: {"prizes": PRIZES.copy(), "rewards": np.ones((4, 4))}),
        Target("marginals of arcs", ARCS.marginals, lambda: {"mean": np.ones(ARCS.size)}, finite=False),
    ]  # fmt: skip


class Oracle:
    """Of 2⁴ vectors at θ = 0."""

    def log_partition(self, theta, temperature):
        return np.zeros(np.shape(theta)[:-1])

    marginals = sample = log_partition


def used(**parts: Any) -> Any:
    """A problem of one's own, used in all ways that need no other kernel."""
    problem = own(**parts)
    out = mg.sample(problem, np.zeros(4), steps=2)
    text = f"{problem!r} {out.info}"
    return out.mean, len(text), mg.exact.marginals(problem, np.zeros(4)), mg.check(problem).solutions


def others() -> list[Target]:
    place = str(folder())

    def command_in_folder(target: Any, **options: Any) -> int:
        return command(target.replace("FOLDER", place) if isinstance(target, str) else target, **options)

    return [
        Target("start.Given", given, lambda: {"solutions": np.stack([Y, Y])}, names={"solutions": "solutions|start"}),
        Target("start.Persistent", persistent, lambda: {"first": mg.start.random}, names={"first": "first|start"}),
        Target("start.Heuristic", heuristic, lambda: {"first": mg.start.random}, names={"first": "first|start"},
               pools={"first": "routes"}),
        Target("start.resolve", mg.start.resolve, lambda: {"start": "random", "lasting": False}, finite=False),
        Target("schedules.constant", mg.schedules.constant, lambda: {"temperature": 1.0}),
        Target("schedules.truncated_geometric", mg.schedules.truncated_geometric,
               lambda: {"start": 1.0, "decay": 0.5, "final": 0.1}, kinds={"start": "number"}),
        Target("schedules.Annealing", annealing, lambda: {"start": 1.0, "end": 0.1}, kinds={"start": "number"}),
        Target("diagnostics.effective_sample_size", mg.sampling.Info.__init__.__globals__["effective_sample_size"],
               lambda: {"draws": np.sin(np.arange(40.0)).reshape(2, 20)}, kinds={"draws": "other"}, finite=False),
        Target("diagnostics.r_hat", mg.sampling.Info.__init__.__globals__["r_hat"],
               lambda: {"draws": np.sin(np.arange(40.0)).reshape(2, 20)}, kinds={"draws": "other"}, finite=False),
        Target("diagnostics.standard_error", mg.sampling.Info.__init__.__globals__["standard_error"],
               lambda: {"draws": np.sin(np.arange(40.0)).reshape(2, 20)}, kinds={"draws": "other"}, finite=False),
        Target("command line", command_in_folder, lambda: {"target": "tests.fuzz.targets:TOP", "max_states": "100", "seed": "0"},
               kinds={"max_states": "other", "seed": "other"}, names={"max_states": "max.states|solutions"},
               pools={"target": "commands", "max_states": "words", "seed": "words"}, weight=2),
    ]  # fmt: skip


def given(solutions: Any) -> Any:
    return mg.sample(TOP, PAIR, steps=3, start=mg.start.Given(solutions)).mean


def persistent(first: Any) -> Any:
    start = mg.start.Persistent(first)
    mg.sample(TOP, PAIR, steps=3, start=start)
    return mg.sample(TOP, PAIR, steps=3, start=start).mean


def heuristic(first: Any) -> Any:
    return mg.sample(VRP, PRIZES, steps=3, start=mg.start.Heuristic(first)).mean


def annealing(**parts: Any) -> Any:
    return mg.solve(TOP, PAIR, steps=3, schedule=mg.schedules.Annealing(**parts)).objective


def command(target: Any, max_states: Any, seed: Any) -> int:
    """The command line in this process; what it says on stderr is the refusal."""
    arguments = [text if isinstance(text, str) else type(text).__name__ for text in (target, max_states, seed)]
    said, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(errors):
        try:
            code = main(["check", "--no-compiled", f"--max-states={arguments[1]}", f"--seed={arguments[2]}", "--", arguments[0]])
        except SystemExit as error:
            lines = errors.getvalue().strip().splitlines()
            if error.code == 2 and lines and lines[-1].startswith("movegrad check: error: "):  # the words of argparse
                raise ValueError(f"{lines[-1].rstrip('.')}.") from None
            raise
    if code == 2:
        raise ValueError(errors.getvalue().strip())
    return code


def pictures() -> list[Target]:
    from matplotlib.figure import Figure

    place = folder()
    run = mg.sample(mg.problems.TopK(5, 2), np.zeros(5), steps=20, chains=2)

    def routes(**parts: Any) -> None:
        mg.plot.routes(**parts)

    return [
        Target("plot.routes", routes, lambda: {
            "instance": INSTANCE, "routes": ROUTES, "prizes": PRIZES.copy(), "axes": None, "title": None, "path": None,
        }, pools={"routes": "routes"}, weight=0.5),
        Target("plot.routes with more", routes, lambda: {
            "instance": INSTANCE, "routes": ROUTES, "axes": Figure().subplots(1, 2), "title": "a plan", "path": place / "plan.png",
        }, only=("axes", "title", "path"), pools={"path": "paths"}, weight=0.5),
        Target("plot.timetable", mg.plot.timetable, lambda: {"instance": INSTANCE, "route": [1, 2]}, pools={"route": "routes"}),
        Target("plot.places", mg.plot.places, lambda: {"instance": INSTANCE}),
        Target("plot.trace", mg.plot.trace, lambda: {"run": run, "example": 0, "axes": None, "title": None}, weight=0.5),
        Target("plot.acceptance", mg.plot.acceptance, lambda: {"run": run, "axes": None, "title": None}, weight=0.5),
        Target("plot.marginals", mg.plot.marginals, lambda: {
            "run": run, "exact": np.zeros(5), "example": 0, "names": list("abcde"), "axes": None,
        }, weight=0.5),
        Target("plot.regret", mg.plot.regret, lambda: {
            "curves": {"a": [1.0, 0.5]}, "x": {"a": [0.0, 1.0]}, "xlabel": "epoch", "ylabel": "regret", "title": "",
        }, weight=0.5),
    ]  # fmt: skip


# --- PyTorch ---------------------------------------------------------------------------------------------------------


def pytorch() -> list[Target]:
    import torch

    Layer, Loss, OneStep = mg.torch.LocalSearchLayer, mg.torch.FenchelYoungLoss, mg.torch.OneStepLoss
    pair, y = torch.from_numpy(PAIR), torch.from_numpy(np.stack([Y, Y]))

    def theta() -> Any:
        return pair.clone().requires_grad_()

    def both_ways(out: Any, theta: Any) -> Any:
        total = sum(part.sum() for part in out) if isinstance(out, list) else out.sum()
        gradients = []
        if total.requires_grad:
            total.backward()
            leaves = theta if isinstance(theta, list) else [theta]
            gradients = [leaf.grad for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.is_leaf and leaf.grad is not None]
        return [out, *gradients]

    def forward(theta: Any, **a: Any) -> Any:
        return both_ways(Layer(TOP, steps=4)(theta, **a), theta)

    def ragged(theta: Any, **a: Any) -> Any:
        return both_ways(Layer([TOP, LARGER], steps=4)(theta, **a), theta)

    def loss(theta: Any, y: Any, **a: Any) -> Any:
        return both_ways(Loss(Layer(TOP, steps=4))(theta, y, **a), theta)

    def ragged_loss(theta: Any, y: Any, **a: Any) -> Any:
        return both_ways(Loss(Layer([TOP, LARGER], steps=4))(theta, y, **a), theta)

    def one_step(theta: Any, y: Any, **a: Any) -> Any:
        return both_ways(OneStep(TOP)(theta, y, **a), theta)

    def routes(theta: Any, y: Any) -> Any:
        return both_ways(Loss(Layer(VRP, steps=4))(theta, y), theta)

    def kept_step(theta: Any, y: Any, **a: Any) -> Any:
        return both_ways(OneStep(TOP, keep=True)(theta, y, **a), theta)

    def used_layer(**a: Any) -> Any:
        return Layer(**a)(pair)

    def used_loss(layer: Any, **a: Any) -> Any:
        return Loss(layer, **a)(pair, y)

    def used_one_step(**a: Any) -> Any:
        return OneStep(**a)(pair, y)

    def saved() -> Any:
        module = Loss(Layer(TOP, steps=4, start="persistent", chains=2), start="persistent")
        module(pair, y, index=[0, 1])
        module.layer(pair, index=[0, 1])
        return module

    def load(extra: Any, of_layer: Any) -> Any:
        module, state = saved(), saved().state_dict()
        state["_extra_state"], state["layer._extra_state"] = extra, of_layer
        module.load_state_dict(state)
        return module(pair, y, index=[0, 1]), module.layer(pair, index=[0, 1])

    def load_part(calls: Any, ends: Any, rows: Any) -> Any:
        module, state = saved(), saved().state_dict()
        ends = {0: rows, 1: rows.clone() if isinstance(rows, torch.Tensor) else rows} if ends is None else ends
        state["layer._extra_state"] = {"calls": calls, "ends": ends}
        module.load_state_dict(state)
        return module.layer(pair, index=[0, 1])

    def with_gradient(gradient: Any) -> Any:
        leaf = theta()
        out = Layer(TOP, steps=4)(leaf)
        out.backward(gradient)
        return leaf.grad

    return [
        Target("torch.LocalSearchLayer", used_layer, lambda: {
            "problem": TOP, "steps": 5, "temperature": 1.0, "time_limit": None, "schedule": None, "burn_in": 1, "chains": 2,
            "start": "random", "estimator": "recycled", "seed": 0,
        }, weight=2),
        Target("layer(theta)", forward, lambda: {
            "theta": theta(), "problem": None, "start": None, "index": None, "guide": None, "call": None,
        }, weight=4),
        Target("layer(theta) with more", forward, lambda: {
            "theta": theta(), "problem": TOP, "start": y.clone(), "index": torch.arange(2), "guide": pair.clone(),
        }, weight=2),
        Target("layer(theta) of a list", ragged, lambda: {
            "theta": [torch.zeros(5, requires_grad=True), torch.zeros(9, requires_grad=True)], "problem": [TOP, LARGER],
            "guide": [torch.zeros(5), torch.zeros(9)], "start": [Y.copy(), LARGER.solution.copy()], "index": [1, 2],
        }, weight=2),
        Target("layer, gradient", with_gradient, lambda: {"gradient": pair.clone()}, kinds={"gradient": "other"}, finite=False,
               foreign=True, weight=0.5),
        Target("torch.FenchelYoungLoss", used_loss, lambda: {
            "layer": Layer(TOP, steps=3), "start": None, "reduction": "mean", "y_is": "solution",
        }),
        Target("loss(theta, y)", loss, lambda: {
            "theta": theta(), "y": y.clone(), "problem": None, "start": None, "index": None, "guide": None, "y_is": None,
            "call": None,
        }, weight=4),
        Target("loss(theta, y) of one theta", loss, lambda: {
            "theta": theta()[0].detach().requires_grad_(), "y": y.clone(), "guide": None,
        }),
        Target("loss(theta, y) from elsewhere", loss, lambda: {
            "theta": theta(), "y": 0.4 * torch.ones(2, 5), "start": "random", "y_is": "mean",
        }, only=("theta", "y")),
        Target("loss(theta, y) of a list", ragged_loss, lambda: {
            "theta": [torch.zeros(5, requires_grad=True), torch.zeros(9, requires_grad=True)],
            "y": [Y.copy(), LARGER.solution.copy()], "guide": None, "index": None, "start": None,
        }, weight=2),
        Target("loss(theta, routes)", routes, lambda: {"theta": torch.from_numpy(PRIZES), "y": ROUTES},
               pools={"y": "routes"}, names={"y": "y|routes"}),
        Target("torch.OneStepLoss", used_one_step, lambda: {
            "problem": TOP, "temperature": 1.0, "reduction": "mean", "keep": True,
        }),
        Target("one-step loss(theta, y)", one_step, lambda: {"theta": theta(), "y": y.clone(), "guide": None}, weight=2),
        Target("one-step loss that keeps", kept_step, lambda: {"theta": theta(), "y": y.clone(), "guide": None}, weight=2),
        Target("one-step loss of one theta", one_step, lambda: {
            "theta": theta()[0].detach().requires_grad_(), "y": y.clone(), "guide": pair[0].clone(),
        }),
        Target("load_state_dict", load, lambda: {
            "extra": saved().get_extra_state(), "of_layer": saved().layer.get_extra_state(),
        }, names={"extra": "state_dict|start|chains", "of_layer": "state_dict|start|chains"},
               pools={"extra": "states", "of_layer": "states"}, weight=2),
        Target("load_state_dict, a part", load_part, lambda: {
            "calls": 3, "ends": None, "rows": y.clone(),
        }, kinds={"calls": "number", "rows": "array"},
               names={"ends": "ends|start|chains", "rows": "ends|start|chains"}, weight=2),
    ]  # fmt: skip


# --- JAX -------------------------------------------------------------------------------------------------------------


def jax_targets() -> list[Target]:
    import jax
    import jax.numpy as jnp

    Layer, Loss, OneStep = mg.jax.LocalSearchLayer, mg.jax.FenchelYoungLoss, mg.jax.OneStepLoss
    theta, y, key = jnp.asarray(PAIR), jnp.asarray(np.stack([Y, Y])), jax.random.key(0)
    layer = Layer(TOP, 4)

    def used_layer(**a: Any) -> Any:
        return Layer(**a)(theta, key)

    def gradient(theta: Any, key: Any) -> Any:
        return jax.grad(lambda t: layer(t, key).sum())(theta)

    def loss_gradient(theta: Any, y: Any, key: Any) -> Any:
        return jax.jit(jax.value_and_grad(Loss(layer)))(theta, y, key)

    return [
        Target("jax.LocalSearchLayer", used_layer, lambda: {
            "problem": TOP, "steps": 4, "temperature": 1.0, "burn_in": 0, "chains": 1, "start": "random", "estimator": "mean",
        }),
        Target("jax layer(theta, key)", layer, lambda: {"theta": theta, "key": key}, weight=2),
        Target("jax gradient of the layer", gradient, lambda: {"theta": theta, "key": key}, only=("key",)),
        Target("jax.FenchelYoungLoss", Loss, lambda: {"layer": layer, "reduction": "mean"}),
        Target("jax loss(theta, y, key)", Loss(layer), lambda: {"theta": theta, "y": y, "key": key}, weight=2),
        Target("jax loss under jit and grad", loss_gradient, lambda: {"theta": theta, "y": y, "key": key}, only=("y",),
               foreign=True, weight=0.3),
        Target("jax.OneStepLoss", OneStep, lambda: {"problem": TOP, "temperature": 1.0, "reduction": "mean"}),
        Target("jax one-step loss(theta, y)", OneStep(TOP), lambda: {"theta": theta, "y": y}, weight=2),
    ]  # fmt: skip


# --- other libraries -------------------------------------------------------------------------------------------------


def pyepo_targets() -> list[Target]:
    with contextlib.suppress(ImportError):
        import highspy  # noqa: F401 - before pyepo: ortools carries the same library, and only the first of the two loads
    import torch
    from pyepo.model.bases import knapsackBase

    from movegrad.integrations import pyepo

    class Model(knapsackBase):
        """A knapsack without a solver."""

        def _getModel(self):  # noqa: N802
            return None, self.items

        def setObj(self, c):  # noqa: N802
            raise NotImplementedError

        def solve(self):
            raise NotImplementedError

    model = Model(WEIGHTS, CAPACITIES)
    costs, labels = torch.from_numpy(PAIR), torch.zeros(2, 5)
    loss, plus = pyepo.LocalSearchFenchelYoung(model, steps=4), pyepo.LocalSearchSPOPlus(model, steps=4)

    def as_optmodel(**a: Any) -> Any:
        found = pyepo.as_optmodel(**a)
        found.setObj(PAIR[0])
        return found.solve()

    def set_costs(c: Any) -> Any:
        found = pyepo.as_optmodel(TOP, steps=4)
        found.setObj(c)
        return found.solve()

    return [
        Target("pyepo.LocalSearchFenchelYoung", lambda **a: pyepo.LocalSearchFenchelYoung(**a)(costs, labels), lambda: {
            "optmodel": model, "steps": 4, "time_limit": None, "temperature": 1.0, "chains": 1, "estimator": "mean",
            "moves": ("flip",), "beta": None, "seed": 0, "reduction": "mean", "processes": 1, "solve_ratio": 1.0, "dataset": None,
        }, kinds={"processes": "number", "solve_ratio": "number"}, slow=True),
        Target("pyepo loss(pred_cost, true_sol)", lambda **a: loss(**a), lambda: {
            "pred_cost": costs.clone(), "true_sol": labels.clone(),
        }, slow=True),
        Target("pyepo SPO+", lambda **a: plus(**a), lambda: {
            "pred_cost": costs.clone(), "true_cost": costs.clone(), "true_sol": labels.clone(), "true_obj": None,
        }, only=("pred_cost", "true_cost", "true_sol"), slow=True),
        Target("pyepo.feasible_set", pyepo.feasible_set, lambda: {"optmodel": model, "moves": ("flip",), "beta": None}, slow=True),
        Target("pyepo.as_optmodel", as_optmodel, lambda: {
            "problem": TOP, "time_limit": None, "steps": 4, "sense": "max", "seed": 0,
        }, slow=True),
        Target("pyepo setObj", set_costs, lambda: {"c": PAIR[0].copy()}, slow=True),
    ]  # fmt: skip


def pyvrp_targets() -> list[Target]:
    from movegrad.integrations import pyvrp

    data = pyvrp.to_pyvrp(INSTANCE)
    plan = pyvrp.to_solution(data, ROUTES)
    return [
        Target("pyvrp.to_pyvrp", pyvrp.to_pyvrp, lambda: {
            "instance": INSTANCE, "prizes": PRIZES.copy(), "vehicles": 3, "scale": 10.0,
        }, weight=2),
        Target("pyvrp.fleet", pyvrp.fleet, lambda: {"instance": INSTANCE}),
        Target("pyvrp.to_solution", pyvrp.to_solution, lambda: {"data": data, "routes": ROUTES}, pools={"routes": "routes"}),
        Target("pyvrp.routes_of", pyvrp.routes_of, lambda: {"solution": plan}),
        Target("pyvrp.from_pyvrp", pyvrp.from_pyvrp, lambda: {"data": data}, finite=False),
    ]  # fmt: skip


# --- moves that are wrong --------------------------------------------------------------------------------------------


def wrong_moves() -> list[Target]:
    """A problem of one's own whose function ``wrong`` is one that Numba cannot compile, or should not."""
    from tests.fuzz import moves

    def call(**functions: Any) -> Any:
        ((part, function),) = ((name, f) for name, f in functions.items() if f is not None)
        of_move = part in ("propose", "change", "apply", "changes", "gain", "feasible")
        flip = replace(FLIP, **{part: function}) if of_move else FLIP
        problem = own(moves=[flip], **({} if of_move else {part: function}))
        return mg.sample(problem, np.zeros(4), steps=2).mean

    return [
        Target(f"a wrong {part}", call, lambda part=part: {part: None}, pools={part: f"moves.{part}"}, slow=True, weight=0.15)
        for part in moves.WRONG
    ]


# --- all of them -----------------------------------------------------------------------------------------------------


def has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def targets(slow: bool = True) -> list[Target]:
    """Those of all libraries that are there."""
    found = [*core(), *exact(), *problems(), *others()]
    if has("matplotlib"):
        found += pictures()
    if has("torch"):
        found += pytorch()
    if has("jax"):
        found += jax_targets()
    if has("pyvrp"):
        found += pyvrp_targets()
    if slow:
        found += wrong_moves()
        if has("pyepo") and has("torch"):
            found += pyepo_targets()
    return found
