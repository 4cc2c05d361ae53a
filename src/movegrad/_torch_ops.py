"""What stands for a call of a layer or a loss where PyTorch looks at a program instead of running it: compile and func.

A call is three functions of tensors, of which the layer behind ``handle`` says problem and settings:

* ``begin``: the number of the call and where chains begin. It changes ``state``, in which a layer counts its calls, so that no
  compiler merges two calls, drops one or changes their order;
* ``run``: the chains, whose derivative is ``product``, the covariance product along the same chains. Both are pure: whatever they
  depend on is an argument, and nothing is kept for the backward pass but these tensors;
* ``remember``: tells a persistent start where chains ended.

``torch.compile`` sees them as operators. ``torch.func`` sees an autograd function, since operators have no forward mode. Calls
that PyTorch just runs know nothing of this: they are shorter (movegrad/torch.py).
"""

import sys
from collections.abc import Callable
from functools import wraps
from itertools import count
from secrets import randbits
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import Tensor, nn

from movegrad import start as starts
from movegrad._calls import covariance_over_t, make_batch, replay
from movegrad._torch_autograd import Once, made_once, to_array
from movegrad.engine import Begin

_OWNERS: WeakValueDictionary[int, nn.Module] = WeakValueDictionary()
_HANDLES = count()
_EXPORTED = (
    1 + randbits(30)
) << 32  # handles in programs that may be saved: another process must not find layers of its own by them


def register(owner: nn.Module) -> int:
    """A number by which operators find a module; it is never given again."""
    handle = next(_HANDLES)
    _OWNERS[handle] = owner
    return handle


def handle_of(owner: Any) -> int:
    """What stands for a module in a graph."""
    return owner._handle + _EXPORTED if torch.compiler.is_exporting() else owner._handle


def owner_of(handle: int) -> Any:
    """The module of a handle."""
    owner = _OWNERS.get(handle - _EXPORTED if handle >= 1 << 32 else handle)
    if owner is None:
        raise RuntimeError("a compiled function must be used where and while the layer in it lives, got a layer that is gone.")
    return owner


class Begun(NamedTuple):
    """A call of E examples with C chains each that is about to run."""

    keys: Tensor  # (2,) seed and number of the call
    indices: Tensor  # (E,) of the examples
    solutions: Tensor  # (E, C, size)
    pending: Tensor  # (E,) what is still to be done with them
    statistics: Tensor  # (…, d) T(y) of a loss, in float64; else empty


class Shape(NamedTuple):
    """What is known of the results before anything runs; arguments of operators, since compilers keep graphs by their arguments."""

    d: int
    size: int  # of solutions
    chains: int
    dtype: torch.dtype  # of solutions


def shape_of(problem: Any, chains: int) -> Shape:
    """For one problem."""
    solution = problem.solution
    return Shape(problem.size, len(solution), chains, torch.from_numpy(np.empty(0, solution.dtype)).dtype)


# --- the three parts, on tensors ---------------------------------------------------------------------------------------


def begun(layer: Any, seed: int, call: int, begin: Begin, indices: np.ndarray, statistics: Any = None) -> Begun:
    """Where chains begin as tensors, one solution for each chain."""
    solutions, examples, chains = begin.solutions, len(indices), layer.settings.chains
    if isinstance(solutions, np.ndarray):
        solutions = torch.from_numpy(solutions.copy())
    size = len(layer.problem.solution)
    rows = solutions.reshape(-1, size)
    rows = rows.reshape(examples, chains, size) if len(rows) == examples * chains else rows[:, None].expand(examples, chains, -1)
    done = rows.new_empty(0, dtype=torch.float64) if statistics is None else torch.as_tensor(statistics, dtype=torch.float64)
    return Begun(
        torch.tensor([seed, call]), torch.from_numpy(indices.astype(np.int64)), rows.clone(memory_format=torch.contiguous_format),
        torch.from_numpy(np.array(begin.pending, np.int64)), done,
    )  # fmt: skip


def _tensor(array: Any) -> Tensor:
    return array if isinstance(array, Tensor) else torch.from_numpy(np.ascontiguousarray(array))


def _taken(layer: Any, theta: Tensor, guide: Tensor | None, call: Begun) -> tuple[Any, ...]:
    """What the engine wants to know of a call."""
    batch = make_batch(layer.problem, to_array(theta))
    seed, number = call.keys.tolist()
    begin = Begin(to_array(call.solutions).reshape(-1), call.pending.numpy())
    flat = None if guide is None else batch.place.vectors(to_array(guide), "guide", layer.problem.size).reshape(-1)
    return batch, layer.settings._replace(seed=seed, call=number), begin, call.indices.numpy(), flat


def run_chains(layer: Any, theta: Tensor, guide: Tensor | None, call: Begun, double: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, in the dtype of θ or in float64, ends and steps."""
    if not len(call.indices):
        return theta.detach().to(torch.float64 if double else theta.dtype, copy=True), call.solutions.clone(), call.pending.clone()
    batch, settings, begin, indices, flat = _taken(layer, theta, guide, call)
    run = batch.place.execute(batch, settings, begin, indices, flat)
    layer._memory.last = run
    mean = _tensor(run.mean()).reshape(theta.shape)
    ends = run.solutions if isinstance(run.solutions, Tensor) else run.solutions.copy()
    return mean if double else mean.to(theta.dtype), _tensor(ends), torch.from_numpy(np.array(run.on_host.steps))


def multiply(layer: Any, v: Tensor, theta: Tensor, guide: Tensor | None, call: Begun, steps: Tensor) -> Tensor:
    """Cov(T(Y))/t · v along the chains of a call."""
    if v.numel() == 0 or not bool(v.isfinite().all()):
        return torch.full_like(v, torch.nan)
    batch, settings, begin, indices, flat = _taken(layer, theta, guide, call)
    direction = v.detach().double().contiguous().reshape(-1)
    run = replay(
        batch, settings, steps.numpy(), begin, indices, batch.theta if flat is None else flat,
        direction if v.is_cuda else direction.numpy(),
    )  # fmt: skip
    return _tensor(covariance_over_t(run)).reshape(v.shape).to(v.dtype)


# --- torch.compile -------------------------------------------------------------------------------------------------------


@torch.library.custom_op("movegrad::begin", mutates_args=("state",))
def _begin(
    state: Tensor, theta: Tensor, y: Tensor | None, index: Tensor | None, guide: Tensor | None, handle: int, start: str | None,
    y_is: str | None, call: int | None, d: int, size: int, chains: int, dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    owner = owner_of(handle)

    def begin() -> Begun:
        if call is not None:
            return owner._begun(theta, y, index, guide, start, y_is, call)
        done = owner._begun(theta, y, index, guide, start, y_is, None, number=int(state[0]))
        state[0] += len(done.indices) > 0  # as in a plain call: an empty batch is none
        return done

    return tuple(made_once(owner, begin))  # type: ignore[return-value]


@_begin.register_fake
def _(state, theta, y, index, guide, handle, start, y_is, call, d, size, chains, dtype):
    examples = theta.numel() // d
    statistics = theta.new_empty(0 if y is None else _leading(theta, y) + theta.shape[-1:], dtype=torch.float64)
    whole: Any = {"dtype": torch.int64, "device": "cpu"}
    return (
        torch.empty(2, **whole), torch.empty(examples, **whole), theta.new_empty((examples, chains, size), dtype=dtype),
        torch.empty(examples, **whole), statistics,
    )  # fmt: skip


def _leading(theta: Tensor, y: Tensor) -> Any:
    """Axes of a loss, if arguments are right; where they are not, it is for the operator itself to say so, in a sentence."""
    return y.shape[:-1] if theta.ndim == 1 and y.ndim == 2 else theta.shape[:-1]


@torch.library.custom_op("movegrad::run", mutates_args=())
def _run(
    theta: Tensor,
    guide: Tensor | None,
    keys: Tensor,
    indices: Tensor,
    solutions: Tensor,
    pending: Tensor,
    handle: int,
    double: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    layer, call = owner_of(handle), Begun(keys, indices, solutions, pending, keys)

    def run() -> tuple[Tensor, Tensor, Tensor]:
        return run_chains(layer, theta, guide, call, double)

    return run() if layer.settings.time_limit is None else made_once(layer, run)


@_run.register_fake
def _(theta, guide, keys, indices, solutions, pending, handle, double):
    mean = torch.empty_like(theta, dtype=torch.float64 if double else theta.dtype, memory_format=torch.contiguous_format)
    return mean, torch.empty_like(solutions), torch.empty_like(pending)


@torch.library.custom_op("movegrad::product", mutates_args=())
def _product(
    v: Tensor, theta: Tensor, guide: Tensor | None, keys: Tensor, indices: Tensor, solutions: Tensor, pending: Tensor,
    steps: Tensor, handle: int,
) -> Tensor:  # fmt: skip
    product = multiply(owner_of(handle), v, theta, guide, Begun(keys, indices, solutions, pending, keys), steps)
    return product.contiguous()


@_product.register_fake
def _(v, theta, guide, keys, indices, solutions, pending, steps, handle):
    return torch.empty_like(v, memory_format=torch.contiguous_format)


def _save_run(ctx: Any, inputs: Any, output: Any) -> None:
    *tensors, ctx.handle, _ = inputs
    ctx.save_for_backward(*tensors, output[2])


def _run_backward(ctx: Any, gradient: Tensor, *_: Any) -> tuple:
    return torch.ops.movegrad.product(gradient, *ctx.saved_tensors, ctx.handle), *(None,) * 7


_run.register_autograd(_run_backward, setup_context=_save_run)


@torch.library.custom_op("movegrad::remember", mutates_args=("state",))
def _remember(state: Tensor, indices: Tensor, ends: Tensor, handle: int, start: str | None, y_is: str | None, many: bool) -> None:
    memory = starts.memory(owner_of(handle)._start_of(start, y_is, many))
    if memory is not None:
        memory.remember(indices.numpy(), list(ends) if ends.is_cuda else list(ends.numpy()))


@_remember.register_fake
def _(state, indices, ends, handle, start, y_is, many):
    return None


@torch.library.custom_op("movegrad::one_step", mutates_args=())
def _one_step(theta: Tensor, y: Tensor, guide: Tensor | None, handle: int, d: int) -> tuple[Tensor, Tensor]:
    values, gradient = owner_of(handle)._values(theta, y, guide)
    return values.contiguous(), gradient.contiguous()


@_one_step.register_fake
def _(theta, y, guide, handle, d):
    return theta.new_empty(_leading(theta, y)), theta.new_empty((*_leading(theta, y), d))


def _save_one_step(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(output[1])
    ctx.many = inputs[0].ndim < output[1].ndim


def _one_step_backward(ctx: Any, gradient: Tensor, *_: Any) -> tuple:
    product = gradient[..., None] * ctx.saved_tensors[0]
    return product.sum(0) if ctx.many else product, None, None, None, None


_one_step.register_autograd(_one_step_backward, setup_context=_save_one_step)


def mean_in_graph(
    owner: Any, layer: Any, theta: Tensor, y: Tensor | None, options: tuple, y_is: str | None
) -> tuple[Tensor, Tensor]:
    """E[T(Y)] and T(y) as operators of a graph; a loss wants both in float64."""
    start, index, guide, call = options
    index = None if index is None else torch.as_tensor(index)
    fixed = theta.detach() if y is not None else theta
    state, rest = layer._memory.state, None if y is None else y.detach()
    guide = None if guide is None else guide.detach()
    *call, statistics = torch.ops.movegrad.begin(
        state, theta.detach(), rest, index, guide, handle_of(owner), start, y_is, call, *layer._shape
    )
    mean, ends, _ = torch.ops.movegrad.run(fixed, guide, *call, handle_of(layer), y is not None)
    many = y is not None and theta.ndim == 1 and y.ndim == 2
    torch.ops.movegrad.remember(state, call[1], ends.detach(), handle_of(owner), start, y_is, many)
    return mean, statistics


# --- torch.func --------------------------------------------------------------------------------------------------------


def _untraced(function: Callable[..., Any]) -> Callable[..., Any]:
    """Not compiled: where ``torch.func`` breaks a graph, PyTorch goes on to compile what is called from there."""

    @wraps(function)
    def run(*args: Any) -> Any:
        if "torch._dynamo" not in sys.modules:  # which takes a second to import
            return function(*args)
        return torch.compiler.disable(function)(*args)

    return run


class Expectation(torch.autograd.Function):
    """E[T(Y)], and all that its derivative needs to run the chains again."""

    @staticmethod
    @_untraced
    def forward(theta: Tensor, guide: Tensor | None, index: Tensor | None, layer: Any, options: dict[str, Any]) -> tuple:
        return layer._expected(theta, guide, index, options)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        theta, guide, _, ctx.layer, _ = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(theta, guide, *output[1:])
        ctx.save_for_forward(theta, guide, *output[1:])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *_: Any) -> tuple:
        return Once.apply(Product.apply(gradient, *ctx.saved_tensors, ctx.layer), ctx.saved_tensors[0]), *(None,) * 4

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: Any) -> tuple:
        return Once.apply(Product.apply(tangent, *ctx.saved_tensors, ctx.layer), ctx.saved_tensors[0]), *(None,) * 5

    @staticmethod
    def vmap(info: Any, in_dims: tuple, theta: Tensor, guide: Any, index: Any, layer: Any, options: dict[str, Any]) -> tuple:
        n = info.batch_size
        theta, guide, index = (_first(t, dim, n) for t, dim in zip((theta, guide, index), in_dims, strict=False))
        mean, keys, *rest = Expectation.apply(theta, guide, None if index is None else index.reshape(-1), layer, options)
        return (mean, keys, *(_split(t, n) for t in rest)), (0, None, *(0 for _ in rest))


class Product(torch.autograd.Function):
    """The covariance product, as a function of the direction v, in which it is linear and symmetric."""

    @staticmethod
    @_untraced
    def forward(v: Tensor, theta: Tensor, guide: Tensor | None, *rest: Any) -> Tensor:
        keys, indices, solutions, pending, steps, layer = rest
        return multiply(layer, v, theta, guide, Begun(keys, indices, solutions, pending, keys), steps)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        _, *tensors, ctx.layer = inputs
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple:
        return Product.apply(gradient, *ctx.saved_tensors, ctx.layer), *(None,) * 8

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: Any) -> Tensor:
        return Product.apply(tangent, *ctx.saved_tensors, ctx.layer)

    @staticmethod
    def vmap(info: Any, in_dims: tuple, v: Tensor, theta: Tensor, guide: Any, keys: Tensor, *rest: Any) -> tuple:
        n, (*tensors, layer) = info.batch_size, rest
        if not any(dim is not None for dim in in_dims[1:]):  # many directions along the same chains
            each = [Product.apply(row, theta, guide, keys, *rest) for row in _first(v, in_dims[0], n).unbind()]
            return torch.stack(each), 0
        v, theta, guide = (_first(t, dim, n) for t, dim in zip((v, theta, guide), in_dims, strict=False))
        flat = [_first(t, dim, n).flatten(0, 1) for t, dim in zip(tensors, in_dims[4:], strict=False)]
        return Product.apply(v, theta, guide, keys, *flat, layer), 0


class Difference(torch.autograd.Function):
    """E[T(Y)] − T(y): the gradient of a loss. It has none itself."""

    @staticmethod
    @_untraced
    def forward(theta: Tensor, y: Tensor, guide: Tensor | None, index: Tensor | None, loss: Any, options: dict[str, Any]) -> Tensor:
        return loss._gradient(theta, y, guide=guide, index=None if index is None else index.reshape(-1), **options)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        ctx.mark_non_differentiable(output)

    @staticmethod
    def backward(ctx: Any, _: Any) -> tuple:
        return (None,) * 6

    @staticmethod
    def jvp(ctx: Any, *_: Any) -> None:
        return None

    @staticmethod
    def vmap(info: Any, in_dims: tuple, theta: Any, y: Any, guide: Any, index: Any, loss: Any, options: dict[str, Any]) -> tuple:
        n = info.batch_size
        theta, y, guide, index = (_first(t, dim, n) for t, dim in zip((theta, y, guide, index), in_dims, strict=False))
        if theta.ndim == y.ndim:
            return Difference.apply(theta, y, guide, index, loss, options), 0
        index = torch.arange(n) if index is None else index  # one θ for many observations, n times: chains of their own
        each = [Difference.apply(theta[i], y[i], None if guide is None else guide[i], index[i], loss, options) for i in range(n)]
        return torch.stack(each), 0


class OneStep(torch.autograd.Function):
    """The loss of one exact step and its gradient, which has none itself."""

    @staticmethod
    @_untraced
    def forward(theta: Tensor, y: Tensor, guide: Tensor | None, loss: Any) -> tuple[Tensor, Tensor]:
        return loss._values(theta, y, guide)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_non_differentiable(*output)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> tuple:
        return (None,) * 4

    @staticmethod
    def jvp(ctx: Any, *_: Any) -> tuple:
        return None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple, theta: Tensor, y: Tensor, guide: Tensor | None, loss: Any) -> tuple:
        theta, y, guide = (_first(t, dim, info.batch_size) for t, dim in zip((theta, y, guide), in_dims, strict=False))
        if theta.ndim < y.ndim:  # one θ for many observations
            theta = theta[:, None].expand(*y.shape[:-1], -1)
            guide = None if guide is None else guide[:, None].expand_as(theta)
        return OneStep.apply(theta, y, guide, loss), (0, 0)


class FixedGradient(torch.autograd.Function):
    """Given values with given gradients g in θ; ⟨θ, g⟩ if no values are given."""

    generate_vmap_rule = True

    @staticmethod
    def forward(theta: Tensor, values: Tensor | None, gradient: Tensor) -> Tensor:
        return (theta * gradient).sum(-1) if values is None else values.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        ctx.save_for_backward(inputs[0], inputs[2])
        ctx.save_for_forward(inputs[0], inputs[2])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple:
        theta, gradient = ctx.saved_tensors
        return Once.apply(grad[..., None] * gradient, theta), None, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: Any) -> Tensor:
        theta, gradient = ctx.saved_tensors
        return Once.apply((gradient * tangent).sum(-1), theta)


def _first(tensor: Tensor | None, dim: int | None, n: int) -> Any:
    """The axis of ``vmap`` in front; where there is none, the same n times."""
    if tensor is None:
        return None
    return tensor.expand(n, *tensor.shape) if dim is None else tensor.movedim(dim, 0)


def _split(tensor: Tensor, n: int) -> Tensor:
    return tensor.reshape(n, -1, *tensor.shape[1:])
