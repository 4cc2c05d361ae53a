"""PyTorch front end: the layer θ ↦ E[T(Y)] and its Fenchel-Young losses. It only translates; chains run in :mod:`movegrad`.

Chains run where θ is: tensors on the CPU are seen as arrays, tensors on a CUDA device stay what they are.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from movegrad import start as starts
from movegrad._build import Options
from movegrad._device import joined
from movegrad._engine import Run
from movegrad._validate import choice, instance_of, listed, positive
from movegrad.diagnostics import Info
from movegrad.problem import Problem
from movegrad.sampling import (
    ESTIMATORS,
    covariance_over_t,
    make_batch,
    make_settings,
    observe,
    one_step,
    run_again,
    run_from,
    vectors,
)  # fmt: skip
from movegrad.schedules import Annealing

REDUCTIONS = ("mean", "sum", "none")
Problems = Problem | Sequence[Problem]


class LocalSearchLayer(nn.Module):
    """The layer ŷ_t(θ) = E[T(Y)] under π(y) ∝ exp((⟨θ, T(y)⟩ + φ(y))/t), estimated by local-search chains.

    Its Jacobian is Cov(T(Y))/t. The backward pass runs the same chains again from the same generators and accumulates the product
    with the incoming gradient, so that any loss can stand behind the layer and nothing is stored. For learning from observed
    solutions :class:`FenchelYoungLoss` is better: its gradient needs the forward pass only.

    Parameters
    ----------
    problem : Problem, or a sequence of them (one for each θ)
    steps, time_limit : K steps, or seconds of chain time for each example
    temperature : t > 0
    schedule, burn_in, chains, estimator : as in :func:`movegrad.sample`
    start : where chains begin when the layer is called by itself; see :mod:`movegrad.start`
    seed : results depend on (seed, number of the call, index of the example, number of the chain) alone

    Shape
    -----
    θ (…, d) → (…, d). For a sequence of problems: a sequence of (dᵢ,) → a list of (dᵢ,).

    References
    ----------
    Proposition 1 of "Learning with Local Search MCMC Layers".
    """

    def __init__(
        self,
        problem: Problems,
        steps: int | None = None,
        temperature: float = 1.0,
        *,
        time_limit: float | None = None,
        schedule: Any = None,
        burn_in: int = 0,
        chains: int = 1,
        start: Any = "random",
        estimator: str = "mean",
        seed: int = 0,
    ) -> None:
        super().__init__()
        choice(estimator, "estimator", ESTIMATORS)
        for p in problem if isinstance(problem, (list, tuple)) else [problem]:
            instance_of(p, "problem", Problem)
        if isinstance(schedule, Annealing):
            raise ValueError(f"schedule must be a callable k → t, since a layer runs its chains again, got {schedule}.")
        self.problem = problem
        self.start = starts.resolve(start, lasting=True)
        self.estimator = estimator
        self.settings = make_settings(
            steps=steps, time_limit=time_limit, temperature=temperature, schedule=schedule, burn_in=burn_in, chains=chains,
            seed=seed, options=Options(recycle=estimator == "recycled"),
        )  # fmt: skip
        self._memory = _Memory()

    @property
    def calls(self) -> int:
        """Number of calls so far; part of the key of every generator."""
        return self._memory.calls

    @property
    def info(self) -> Info | None:
        """Diagnostics of the last call."""
        return None if self._memory.last is None else Info(self._memory.last.on_host)

    def forward(
        self, theta: Any, *, problem: Problems | None = None, start: Any = None, index: Any = None, guide: Any = None
    ) -> Any:
        """Estimate ŷ_t(θ). ``problem`` and ``start`` replace the layer's own in this call; ``index``: keys of the examples."""
        problem = self.problem if problem is None else problem
        if isinstance(problem, Problem):
            return _Expectation.apply(_tensor(theta), self, problem, start, index, guide)
        theta = [_tensor(t) for t in listed(theta, "theta", len(problem), "problems")]
        flat, sizes = torch.cat([t.reshape(-1) for t in theta]), [t.numel() for t in theta]
        return list(_Expectation.apply(flat, self, _Ragged(problem, sizes), start, index, guide).split(sizes))

    def run(
        self,
        theta: Any,
        problem: Problems,
        start: Any = None,
        index: Any = None,
        guide: Any = None,
        targets: Any = None,
        start_name: str = "start",
    ):
        """Run the chains on arrays; returns the run and its starting solutions."""
        batch, shape = make_batch(problem, theta)
        settings = self.settings._replace(call=self._memory.calls, start_name=start_name)
        chosen = self.start if start is None else start
        result, begin = run_from(batch, settings, problem, chosen, targets=targets, index=index, guide=_guide(guide))
        self._memory.calls += 1
        self._memory.last = result
        return result, begin, shape

    def get_extra_state(self) -> dict[str, Any]:
        return {"calls": self.calls, "ends": _ends(self.start)}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self._memory.calls = int(state["calls"])
        _set_ends(self.start, state["ends"])

    def extra_repr(self) -> str:
        budget = f"steps={self.settings.steps}" if self.settings.time_limit is None else f"time_limit={self.settings.time_limit}"
        shown = f"temperature={self.settings.temperature}, chains={self.settings.chains}, estimator={self.estimator!r}"
        return f"{self.problem!r}, {budget}, {shown}, seed={self.settings.seed}"


class _Memory:
    """What a layer changes when it is called; a plain object, since setting attributes of a module is slow."""

    calls = 0
    last: Run | None = None


class FenchelYoungLoss(nn.Module):
    """Fenchel-Young loss of a layer, with gradient ŷ_t(θ) − T(y).

    The value A_t(θ) + Ω_t(y) − ⟨θ, T(y)⟩ is intractable (:func:`movegrad.exact.fenchel_young` has it where it is not). What is
    returned is ⟨θ, ŷ − T(y)⟩ with ŷ held fixed: its gradient is right, its value is no measure of progress.

    Parameters
    ----------
    layer : LocalSearchLayer
    start : where chains begin; by default at the target (conditional), or where they ended (one θ for many observations)
    reduction : "mean", "sum" or "none", over examples (conditional) or observations (unconditional)

    Shape
    -----
    Conditional: θ (…, d) and y (…, size). Unconditional: θ (d,) and observations y (N, size). Where chains start neither at the
    target nor at data, y may also be floats (…, d): values of T, such as means of observations, which are not in the set.
    For a sequence of problems: sequences of vectors.
    """

    def __init__(self, layer: LocalSearchLayer, *, start: Any = None, reduction: str = "mean") -> None:
        super().__init__()
        self.layer = instance_of(layer, "layer", LocalSearchLayer)
        self.start = None if start is None else starts.resolve(start, lasting=True)
        self.persistent = starts.Persistent()  # for one θ and many observations
        self.reduction = choice(reduction, "reduction", REDUCTIONS)

    def forward(
        self, theta: Any, y: Any, *, problem: Problems | None = None, start: Any = None, index: Any = None, guide: Any = None
    ) -> Tensor:
        problem = self.layer.problem if problem is None else problem
        chosen = self.persistent if isinstance(start, str) and start == "persistent" else start
        chosen = self.start if chosen is None else starts.resolve(chosen)
        if not isinstance(problem, Problem):
            return self._ragged(theta, y, problem, chosen, index, guide)
        theta = _tensor(theta)
        values = _beside(theta, problem.encode(y), "y")
        many = theta.ndim == 1 and values.ndim == 2
        if values.shape[-1:] != (len(problem.solution),) and values.shape[-1:] != (problem.size,):
            raise ValueError(f"y must have a last axis of {len(problem.solution)} entries, got shape {values.shape}.")
        if not many and values.shape[:-1] != tuple(theta.shape[:-1]):
            raise ValueError(f"y must have the leading axes {tuple(theta.shape[:-1])} of theta, got shape {values.shape}.")
        chosen = chosen or (self.persistent if many else starts.target)
        elsewhere = not starts.looks_at_targets(chosen)
        is_mean = elsewhere and _is_float(values) and values.shape[-1] == problem.size
        targets, observed = (None, _finite(values, "y", problem.size)) if is_mean else _observations(problem, values)
        result, _, shape = self.layer.run(
            _array(theta), problem, chosen, index, guide, targets, "y" if chosen is starts.target else "start"
        )
        mean = result.mean().reshape(*shape, problem.size)
        observed = observed if is_mean else observed.reshape(*values.shape[:-1], problem.size)
        return self._reduce((theta * _like(mean - observed, theta)).sum(-1))

    def _ragged(self, theta: Any, y: Any, problem: Sequence[Problem], start: Any, index: Any, guide: Any) -> Tensor:
        theta = [_tensor(t) for t in listed(theta, "theta", len(problem), "problems")]
        given = zip(theta, problem, listed(y, "y", len(problem), "problems"), strict=True)
        rows = [_beside(t, p.encode(v), "y") for t, p, v in given]
        for row, p in zip(rows, problem, strict=True):
            if row.shape != (len(p.solution),):
                raise ValueError(f"y must have one axis of {len(p.solution)} entries for this problem, got shape {row.shape}.")
        pairs = [_observations(p, row) for p, row in zip(problem, rows, strict=True)]
        targets = [t[0] for t, _ in pairs]
        result, _, _ = self.layer.run([_array(t) for t in theta], problem, start or starts.target, index, guide, targets, "y")
        terms = [(t * _like(m - o[0], t)).sum() for t, m, (_, o) in zip(theta, result.mean(), pairs, strict=True)]
        return self._reduce(torch.stack(terms))

    def _reduce(self, values: Tensor) -> Tensor:
        return _reduce(values, self.reduction)

    def get_extra_state(self) -> dict[str, Any]:
        return {"persistent": _ends(self.persistent), "start": _ends(self.start)}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        _set_ends(self.persistent, state["persistent"])
        _set_ends(self.start, state["start"])


class OneStepLoss(nn.Module):
    """The exact Fenchel-Young loss whose gradient is that of one step from the target, E[T(y⁽¹⁾)] − T(y): no sampling.

    Value and gradient as in :func:`movegrad.one_step`; unlike the loss of a long chain, the value is exact. The expected gradient
    is short (a few percent of the full one): use an optimizer that rescales, such as Adam.

    Shape
    -----
    θ (…, d) and y (…, size); or θ (d,) and observations y (N, size).
    """

    def __init__(self, problem: Problem, temperature: float = 1.0, *, reduction: str = "mean") -> None:
        super().__init__()
        self.problem = instance_of(problem, "problem", Problem)
        self.temperature = positive(temperature, "temperature")
        self.reduction = choice(reduction, "reduction", REDUCTIONS)

    def forward(self, theta: Tensor, y: Any, *, guide: Any = None) -> Tensor:
        theta, guide = _tensor(theta), _guide(guide)
        values = _beside(theta, self.problem.encode(y), "y")
        if theta.ndim == 1 and values.ndim == 2:
            theta = theta.expand(len(values), -1)
            if guide is not None:
                guide = vectors(guide, "guide", self.problem.size)
                guide = guide.expand(theta.shape) if isinstance(guide, Tensor) else np.broadcast_to(guide, theta.shape)
        if values.shape[:-1] != tuple(theta.shape[:-1]) or values.shape[-1:] != (len(self.problem.solution),):
            raise ValueError(f"y must have shape {(*theta.shape[:-1], len(self.problem.solution))}, got {values.shape}.")
        loss, gradient = one_step(self.problem, _array(theta), values, temperature=self.temperature, guide=guide)
        return _reduce(_FixedGradient.apply(theta, _like(loss, theta), _like(gradient, theta)), self.reduction)


# --- autograd --------------------------------------------------------------------------------------------------------


class _Ragged:
    """A sequence of problems whose θ arrive as one flat tensor."""

    def __init__(self, problems: Sequence[Problem], sizes: list[int]) -> None:
        self.problems, self.sizes = problems, sizes


class _Expectation(torch.autograd.Function):
    """E[T(Y)] with the covariance product as its derivative, forward and backward by running the chains again."""

    @staticmethod
    def forward(ctx: Any, theta: Tensor, layer: LocalSearchLayer, problem: Any, start: Any, index: Any, guide: Any) -> Tensor:
        array: Any = _array(theta)
        if isinstance(problem, _Ragged):
            parts = array.split(problem.sizes) if isinstance(array, Tensor) else np.split(array, np.cumsum(problem.sizes)[:-1])
            array, problem = parts, problem.problems
        result, begin, _ = layer.run(array, problem, start, index, guide)
        ctx.again = result, begin
        mean = result.mean()
        return _like(joined(mean) if isinstance(mean, list) else mean, theta).reshape(theta.shape)

    @staticmethod
    def _product(ctx: Any, direction: Tensor) -> Tensor:
        result, begin = ctx.again
        v = _array(direction)
        flat = v.double().reshape(-1) if isinstance(v, Tensor) else np.ascontiguousarray(v, np.float64).reshape(-1)
        product = covariance_over_t(run_again(result, begin, flat))
        return _like(joined(product) if isinstance(product, list) else product, direction).reshape(direction.shape)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple:
        return _Expectation._product(ctx, gradient), None, None, None, None, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: Any) -> Tensor:
        return _Expectation._product(ctx, tangent)


class _FixedGradient(torch.autograd.Function):
    """Given values with given gradients in θ."""

    @staticmethod
    def forward(ctx: Any, theta: Tensor, values: Tensor, gradient: Tensor) -> Tensor:
        ctx.save_for_backward(gradient)
        return values.clone()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple:
        return grad[..., None] * ctx.saved_tensors[0], None, None


def _array(value: Any) -> Any:
    """An array, or the tensor itself where it is on a CUDA device."""
    if not isinstance(value, Tensor):
        return np.asarray(value)
    if value.is_cuda:
        return value.detach()
    if value.device.type != "cpu":
        raise ValueError(f"tensors must be on the CPU or a CUDA device, got device {value.device}.")
    value = value.detach()
    return (value.double() if value.dtype in (torch.bfloat16, torch.float16) else value).numpy()


def _guide(value: Any) -> Any:
    """A guide for one problem or a list of them, as arrays."""
    if value is None or isinstance(value, (Tensor, np.ndarray)):
        return None if value is None else _array(value)
    return [_array(v) for v in value]


def _tensor(value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        raise ValueError(f"theta must be a tensor, got {type(value).__name__}.")
    return value


def _beside(theta: Tensor, value: Any, name: str) -> Any:
    """What belongs to θ: on a CUDA device it is brought to θ; on the CPU it must not be elsewhere."""
    if theta.is_cuda:
        return torch.as_tensor(value, device=theta.device).detach()
    array = _array(value)
    if isinstance(array, Tensor):
        raise ValueError(f"{name} must be on the CPU, as theta is, got device {array.device}.")
    return array


def _is_float(array: Any) -> bool:
    return array.is_floating_point() if isinstance(array, Tensor) else array.dtype.kind == "f"


def _finite(values: Any, name: str, size: int) -> Any:
    """Vectors that no kernel will look at."""
    array = vectors(values, name, size)
    if isinstance(array, Tensor) and not bool(array.isfinite().all()):
        raise ValueError(f"{name} must be finite, got {array[~array.isfinite()][0].item()} among its entries.")
    return array


def _like(array: Any, theta: Tensor) -> Tensor:
    if isinstance(array, Tensor):
        return array.to(theta.dtype)
    return torch.from_numpy(np.ascontiguousarray(array)).to(theta.dtype)


def _observations(problem: Problem, values: Any) -> tuple[Any, Any]:
    """Solutions (n, size) and their T (n, d)."""
    if values.shape[-1] != len(problem.solution):
        raise ValueError(f"y must have a last axis of {len(problem.solution)} entries, got shape {values.shape}.")
    return observe(problem, values.reshape(-1, values.shape[-1]))


def _reduce(values: Tensor, reduction: str) -> Tensor:
    return values if reduction == "none" else values.mean() if reduction == "mean" else values.sum()


def _ends(start: Any) -> dict[int, Tensor] | None:
    """Where persistent chains ended, as tensors: such a state loads without unpickling code."""
    return {k: torch.as_tensor(v) for k, v in start.ends.items()} if isinstance(start, starts.Persistent) else None


def _set_ends(start: Any, ends: dict[int, Tensor] | None) -> None:
    if ends is not None and isinstance(start, starts.Persistent):
        start.ends = {k: v if v.is_cuda else v.numpy() for k, v in ends.items()}
