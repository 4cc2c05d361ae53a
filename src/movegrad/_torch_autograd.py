"""What PyTorch makes of a plain call: tensors seen as arrays, derivatives, and calls that are made again.

``torch.utils.checkpoint`` keeps no tensors of a segment: its function is called once more when gradients are wanted. A layer that
drew anew would then have gradients of other numbers than its output. PyTorch restores its own generators only, and does not say
that a call is such a one; but the function that makes it is on the stack, and holds what stands for the segment in both passes.
"""

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils import checkpoint

from movegrad._calls import covariance_over_t, run_again
from movegrad._validate import array_of, why

# --- tensors and arrays ----------------------------------------------------------------------------------------------


def to_array(value: Any, name: str = "theta") -> Any:
    """An array, or the tensor itself where it is on a CUDA device."""
    if not isinstance(value, Tensor):
        return array_of(value, name)
    if value.is_cuda:
        return value.detach()
    if value.device.type != "cpu":
        raise ValueError(f"{name} must be on the CPU or a CUDA device, got device {value.device}.")
    if value.layout != torch.strided or value.is_nested:
        raise ValueError(f"{name} must be a dense tensor, got {described(value)}.")
    value = value.detach()
    if value.is_neg():
        value = value.resolve_neg()
    known = not value.is_floating_point() or value.dtype in (torch.float32, torch.float64)
    try:
        return (value if known else value.double()).numpy()
    except (RuntimeError, TypeError) as error:  # complex, quantized
        raise ValueError(f"{name} must be a tensor of real numbers, got {described(value)} ({why(error)}).") from None


def described(value: Tensor) -> str:
    return f"a {'nested' if value.is_nested else str(value.layout).removeprefix('torch.')} tensor of {value.dtype}"


def tensor_like(array: Any, theta: Tensor) -> Tensor:
    tensor = array if isinstance(array, Tensor) else torch.from_numpy(np.asarray(array, order="C"))
    return tensor if tensor.dtype == theta.dtype else tensor.to(theta.dtype)


# --- derivatives -----------------------------------------------------------------------------------------------------


class Call(NamedTuple):
    """A call of a layer."""

    layer: Any
    problem: Any
    start: Any
    index: Any
    guide: Any
    number: int | None
    sizes: list[int] | None = None  # of a list of problems, whose θ arrive as one flat tensor


class Expectation(torch.autograd.Function):
    """E[T(Y)] with the covariance product as its derivative, forward and backward by running the chains again."""

    @staticmethod
    def forward(ctx: Any, theta: Tensor, call: Call) -> Tensor:
        array: Any = to_array(theta)
        if call.sizes is not None:
            array = array.split(call.sizes) if isinstance(array, Tensor) else np.split(array, np.cumsum(call.sizes)[:-1])
        run, begin = call.layer._run(array, call.problem, start=call.start, index=call.index, guide=call.guide, call=call.number)
        ctx.again = run, begin  # with copies of θ and of the guide; PyTorch watches their own
        guides = call.guide if isinstance(call.guide, (list, tuple)) else [call.guide]
        watched = (theta, *(g for g in guides if isinstance(g, Tensor) and not g.is_inference()))
        save(ctx, *watched)
        mean = run.mean()
        return tensor_like((run.batch.place.joined(mean) if isinstance(mean, list) else mean).reshape(theta.shape), theta)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple:
        return differentiated_once(product_of(gradient, ctx.again), ctx.saved_tensors[0]), None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: Any) -> Tensor:
        return differentiated_once(product_of(tangent, ctx.again), ctx.saved_tensors[0])


def product_of(direction: Tensor, again: Any) -> Tensor:
    """Cov(T(Y))/t · v along the chains of a run, which are run again."""
    return Product.apply(direction, again) if _differentiating() else Product.value(direction, again)


class Product(torch.autograd.Function):
    """The same as a function of v, in which it is linear and symmetric."""

    @staticmethod
    def value(direction: Tensor, again: Any) -> Tensor:
        if not bool(direction.isfinite().all()):  # as where gradients are scaled: whoever does so looks for them
            return torch.full_like(direction, torch.nan)
        v, (result, begin) = to_array(direction), again
        flat = v.double().reshape(-1) if isinstance(v, Tensor) else np.ascontiguousarray(v, np.float64).reshape(-1)
        product = covariance_over_t(run_again(result, begin, flat))
        flat = result.batch.place.joined(product) if isinstance(product, list) else product
        return tensor_like(flat.reshape(direction.shape), direction)

    @staticmethod
    def forward(ctx: Any, direction: Tensor, again: Any) -> Tensor:
        ctx.again = again
        return Product.value(direction, again)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple:
        return product_of(gradient, ctx.again), None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: Any) -> Tensor:
        return product_of(tangent, ctx.again)


def linear(theta: Tensor, gradient: Tensor) -> Tensor:
    """⟨θ, g⟩ with g held fixed; one θ for all rows of g, if it has no rows."""
    return FixedGradient.apply(theta if theta.shape == gradient.shape else theta.expand(gradient.shape), None, gradient)


class FixedGradient(torch.autograd.Function):
    """Given values with given gradients g in θ; ⟨θ, g⟩ if no values are given."""

    @staticmethod
    def forward(ctx: Any, theta: Tensor, values: Tensor | None, gradient: Tensor) -> Tensor:
        save(ctx, theta, gradient)
        return (theta * gradient).sum(-1) if values is None else values.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple:
        theta, gradient = ctx.saved_tensors
        return differentiated_once(grad[..., None] * gradient, theta), None, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: Any) -> Tensor:
        theta, gradient = ctx.saved_tensors
        return differentiated_once((gradient * tangent).sum(-1), theta)


def save(ctx: Any, *tensors: Tensor) -> None:
    """For derivatives of both modes; PyTorch complains if one is changed before it is used."""
    ctx.save_for_backward(*tensors)
    if forward_ad._current_level >= 0:
        ctx.save_for_forward(*tensors)


def differentiated_once(derivative: Tensor, theta: Tensor) -> Tensor:
    """A derivative in θ, which has none itself: to differentiate it is an error, where it would be 0 otherwise."""
    return Once.apply(derivative, theta) if _differentiating() else derivative


def _differentiating() -> bool:
    """Will anything done now be differentiated? Not in a usual backward pass: no graph is built there."""
    return torch.is_grad_enabled() or forward_ad._current_level >= 0


class Once(torch.autograd.Function):
    """The identity in the first argument, with an error for a derivative in the second."""

    generate_vmap_rule = True

    @staticmethod
    def forward(derivative: Tensor, theta: Tensor) -> Tensor:
        return derivative.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple:
        if ctx.needs_input_grad[1]:
            raise _twice()
        return gradient, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, theta_tangent: Tensor | None) -> Tensor:
        if theta_tangent is not None:
            raise _twice()
        return tangent.clone()


def _twice() -> RuntimeError:
    return RuntimeError("theta must not be differentiated twice: second derivatives of layers and losses are not estimated.")


# --- calls that are made again -----------------------------------------------------------------------------------------

_FILE = checkpoint.__file__
Replay = tuple[Any, "Tape"]  # the backward pass, and the tape that is played in it


class Tape:
    """Runs of the layers of a segment, in the order of their calls."""

    def __init__(self) -> None:
        self.runs: list[tuple[Any, Any]] = []  # (layer, its run)
        self._played: dict[Any, int] = {}  # in each backward pass

    def play(self, layer: Any, backward: Any) -> Any:
        """The next run in a backward pass."""
        at = self._played.get(backward, 0)
        self._played[backward] = at + 1
        if at >= len(self.runs) or self.runs[at][0] is not layer:
            raise RuntimeError("a checkpointed function must call the same layers in the same order when it is run again.")
        return self.runs[at][1]


def made_once(layer: Any, run: Callable[[], Any]) -> Any:
    """What ``run`` gives; what it gave in the forward pass, if the call is made again."""
    recording, replay = tapes()
    done = replay[1].play(layer, replay[0]) if replay is not None else run()
    for tape in recording:
        tape.runs.append((layer, done))
    return done


def tapes() -> tuple[list[Tape], Replay | None]:
    """The tapes that are to record a call, and the one that has it already, if the call is made again."""
    recording: list[Tape] = []
    for segment, backward in _segments():
        if not hasattr(segment, "_movegrad"):
            segment._movegrad = Tape()
        tape = segment._movegrad
        if backward is not None:
            return recording, (backward, tape)  # segments around it are not run by it
        recording.append(tape)
    return recording, None


def in_backward() -> bool:
    """Is this called in a backward pass?"""
    return torch._C._current_graph_task_id() != -1


def _segments() -> Iterator[tuple[Any, Any]]:
    """(what stands for the segment, its backward pass or None) of the checkpointed segments that are being run, innermost first."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename == _FILE:
            name, scope = frame.f_code.co_name, frame.f_locals
            if name == "forward" and "ctx" in scope:  # use_reentrant=True
                yield scope["ctx"], None
            elif name == "backward" and "ctx" in scope:
                yield scope["ctx"], torch._C._current_graph_task_id()
            elif name == "checkpoint" and getattr(scope.get("gen"), "gi_frame", None) is not None:  # use_reentrant=False
                yield scope["gen"].gi_frame.f_locals["new_frame"], None
            elif name == "unpack_hook" and "gid" in scope:
                yield scope["frame"], scope["gid"]
        frame = frame.f_back
