"""PyTorch front end: the layer θ ↦ E[T(Y)] and its Fenchel-Young losses. It only translates; chains run in :mod:`movegrad`.

Chains run where θ is: tensors on the CPU are seen as arrays, tensors on a CUDA device stay what they are. Results have the dtype of
θ; chains compute in float64.

Draws depend on (seed, number of the call, index of the example, number of the chain) alone. A layer counts its calls, one after
the other, from whichever threads they come; copies of a layer go on from the same number, each for itself. What follows:

* Threads: which of them gets which number is a matter of chance, unless ``call`` is given.
* Workers of a ``DataLoader`` have copies of a layer that all begin with the same number. Their seed is mixed with that of the
  worker, which is another one in every worker and epoch and depends on ``torch.manual_seed``. For numbers that do not depend on how
  many workers there are, give ``index`` (the position of the example) and ``call`` (the epoch).
* Processes of distributed training: examples without an ``index`` are numbered from rank · 2⁴⁰ on, so that ranks never share draws;
  with one, the number of an example in the data set, draws do not depend on the rank (docs/guides/scale.md).
* ``torch.utils.checkpoint`` runs a segment again in the backward pass: a layer in it does not draw anew.
* ``torch.compile`` and ``torch.func`` give the same numbers (movegrad/_torch_ops.py).

An empty batch gives an empty result, a sum of 0 and an error where a mean over examples is wanted. Nothing can be differentiated
twice.
"""

import warnings
from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch import distributed as _distributed
from torch.utils.data import get_worker_info

from movegrad import _torch_ops, _torch_state
from movegrad import start as starts
from movegrad._calls import (
    ESTIMATORS,
    Observed,
    begin_from,
    like_theta,
    make_batch,
    make_settings,
    observe,
    problems_of,
    run_from,
)
from movegrad._torch_autograd import (
    Call,
    Expectation,
    FixedGradient,
    described,
    in_backward,
    linear,
    made_once,
    tensor_like,
    to_array,
)
from movegrad._torch_state import gather_persistent
from movegrad._types import Arrays, Start
from movegrad._validate import (
    array_of,
    choice,
    encoded,
    flag,
    instance_of,
    integer_in,
    listed,
    must_be_free,
    positive,
    seed_in,
    sequence,
    shown,
)
from movegrad.diagnostics import Info
from movegrad.engine import Begin, Options, Run, Settings, on_gpu, place_of, stream_keys
from movegrad.neighborhoods import Neighborhoods
from movegrad.problem import Problem
from movegrad.sampling import one_step
from movegrad.schedules import Annealing, Schedule

__all__ = ["FenchelYoungLoss", "LocalSearchLayer", "OneStepLoss", "gather_persistent"]

REDUCTIONS = ("mean", "sum", "none")
MEANINGS = ("solution", "mean")  # of y
Problems = Problem | Sequence[Problem]
_are_transformed = torch._C._are_functorch_transforms_active  # does ``torch.func`` look on?
_CAN_BE_DISTRIBUTED = _distributed.is_available()
_GRAPHS = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 7)  # before, an error in an operator ends the process
_RANK = 40  # bits of an index that a rank leaves to its examples


class _Module(nn.Module):
    """What operators of a compiled graph find by its handle (movegrad/_torch_ops.py)."""

    def __init__(self) -> None:
        super().__init__()
        self._handle = _torch_ops.register(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Copies and pickles have handles of their own."""
        super().__setstate__(state)
        self._handle = _torch_ops.register(self)


class LocalSearchLayer(_Module):
    """The layer ŷ_t(θ) = E[T(Y)] under π(y) ∝ exp((⟨θ, T(y)⟩ + φ(y))/t), estimated by local-search chains.

    Its Jacobian is Cov(T(Y))/t. The backward pass runs the same chains again from the same generators and accumulates the product
    with the incoming gradient, so that any loss can stand behind the layer and nothing is stored. For learning from observed
    solutions :class:`FenchelYoungLoss` is better: its gradient needs the forward pass only.

    Parameters
    ----------
    problem : Problem, or a sequence of them
        One for all θ, or one for each.
    steps : int
        K steps of each chain. Give this or a time limit.
    temperature : float
        t > 0.
    time_limit : float
        Seconds of chain time for each example.
    schedule, burn_in, chains, estimator : as in :func:`movegrad.sample`
        What chains do. ``estimator`` is that of the output; the Jacobian is the covariance of the states that were visited.
    start : str, solutions or callable
        Where chains begin when the layer is called by itself (a loss has a ``start`` of its own); see :mod:`movegrad.start`.
    seed : int
        Results depend on (seed, number of the call, index of the example, number of the chain) alone.

    References
    ----------
    Proposition 1 of "Learning with Local Search MCMC Layers".

    Examples
    --------
    >>> import torch
    >>> import movegrad as mg
    >>> layer = mg.torch.LocalSearchLayer(mg.problems.TopK(5, 2), steps=100, chains=4)
    >>> theta = torch.zeros(3, 5, requires_grad=True)
    >>> layer(theta).square().sum().backward()
    >>> theta.grad.shape
    torch.Size([3, 5])
    """

    def __init__(
        self,
        problem: Problems,
        steps: int | None = None,
        temperature: float = 1.0,
        *,
        time_limit: float | None = None,
        schedule: Schedule | None = None,
        burn_in: int = 0,
        chains: int = 1,
        start: Start = "random",
        estimator: str = "mean",
        seed: int = 0,
    ) -> None:
        super().__init__()
        choice(estimator, "estimator", ESTIMATORS)
        problem = problem if isinstance(problem, Problem) else problems_of(problem)
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
        self._shape = _torch_ops.shape_of(problem, self.settings.chains) if isinstance(problem, Problem) else None

    def __setattr__(self, name: str, value: Any) -> None:
        must_be_free(self, name)
        super().__setattr__(name, value)

    @property
    def calls(self) -> int:
        """Number of calls so far; part of the key of every generator."""
        return self._memory.calls

    @property
    def info(self) -> Info | None:
        """Diagnostics of the last call."""
        return None if self._memory.last is None else Info(self._memory.last.on_host)

    def forward(
        self,
        theta: Tensor | Sequence[Tensor],
        *,
        problem: Problems | None = None,
        start: Start | None = None,
        index: Arrays | None = None,
        guide: Arrays | None = None,
        call: int | None = None,
    ) -> Any:
        """Estimate ŷ_t(θ).

        Parameters
        ----------
        theta : float tensor (…, d)
            A sequence of (dᵢ,) for a sequence of problems. Chains run where it is.
        problem, start : as in the layer, optional
            Replace the layer's own in this call.
        index : (E,) integers, optional
            Numbers of the examples, on which draws depend; 0, 1, … by default.
        guide : like θ, optional
            What guided moves look at instead of θ.
        call : int, optional
            Number of the call, which is not counted then.

        Returns
        -------
        tensor (…, d), or a list of (dᵢ,) for a sequence of problems
            ŷ_t(θ), of the dtype of θ.
        """
        if torch.compiler.is_compiling():
            options = start, index, guide, call
            if problem is None and self._shape is not None and isinstance(theta, Tensor) and _are_plain(*options):
                return _torch_ops.mean_in_graph(self, self, theta, None, options, None)[0]
            return torch.compiler.disable(self.forward)(theta, problem=problem, start=start, index=index, guide=guide, call=call)
        if _are_transformed():
            _refuse_others(self, problem)
            keys = {"start": start, "call": call}
            return _torch_ops.Expectation.apply(theta, _as_tensor(guide), _as_tensor(index), self, keys)[0]
        return self._forward(theta, problem, start, index, guide, call)

    def _forward(self, theta: Any, problem: Any, start: Any, index: Any, guide: Any, call: int | None) -> Any:
        """The call, as it is."""
        problem = self.problem if problem is None else problem
        if isinstance(problem, Problem):
            if _is_empty(_tensor(theta), problem):
                return theta.clone()
            return Expectation.apply(theta, Call(self, problem, start, index, guide, call))
        theta = [_tensor(t) for t in listed(theta, "theta", len(problems_of(problem)), "problems")]
        for e, t in enumerate(theta):
            if t.ndim != 1 or not t.is_floating_point():
                raise ValueError(f"theta[{e}] must have one axis and a floating dtype, got shape {tuple(t.shape)} of {t.dtype}.")
        flat, sizes = torch.cat(theta), [t.numel() for t in theta]
        means = Expectation.apply(flat, Call(self, problem, start, index, guide, call, sizes)).split(sizes)
        return [m.to(t.dtype) for m, t in zip(means, theta, strict=True)]

    def _run(
        self,
        theta: Any,
        problem: Problems,
        *,
        start: Any = None,
        observed: Any = None,
        start_name: str = "start",
        index: Any = None,
        guide: Any = None,
        call: int | None = None,
    ) -> tuple[Run, Begin]:
        """Run the chains on arrays; returns the run and where it began."""

        def run() -> tuple[Run, Begin]:
            batch = make_batch(problem, theta)
            seed, number = self._seed_and_call(call)
            settings = Settings(*self.settings[:-3], seed, number, start_name)  # its last fields; _replace takes 3 times as long
            chosen = self.start if start is None else start
            indices = _indices(index, chosen, batch.examples, batch.shape != ())
            done = run_from(batch, settings, problem, chosen, observed=observed, index=indices, guide=_guide(guide))
            self._memory.last = done[0]
            return done

        return made_once(self, run)

    def _start_of(self, start: Any, y_is: Any = None, many: bool = False) -> Any:
        return self.start if start is None else starts.resolve(start)

    def _begun(
        self, theta: Tensor, y: None, index: Any, guide: Any, start: Any, y_is: None, call: int | None, number: int | None = None
    ) -> _torch_ops.Begun:
        """The first part of a call in a graph."""
        return self._begun_at(_tensor(theta), self._start_of(start), index, guide, call, number)

    def _begun_at(
        self, theta: Tensor, start: Any, index: Any, guide: Any, call: int | None, number: int | None, observed: Any = None,
        statistics: Any = None,
    ) -> _torch_ops.Begun:  # fmt: skip
        """The same from a start, for the loss too. ``number`` is that of a call that the graph counts."""
        problem: Any = self.problem
        if _is_empty(theta, problem):
            return _torch_ops.begun(self, 0, 0, Begin(problem.solution[:0], _NOBODY), _NOBODY, statistics)
        batch = make_batch(self.problem, to_array(theta))
        if guide is not None:
            like_theta(_guide(guide), "guide", batch, self.problem)
        if starts.memory(start) is not None and in_backward():
            raise ValueError("start must not be persistent in a compiled segment that is run again in the backward pass, got one.")
        seed, call = self._seed_and_call(call, number)
        settings = self.settings._replace(seed=seed, call=call, start_name=_blamed(start))
        index = _indices(index, start, batch.examples, batch.shape != ())
        begin, indices, _ = begin_from(batch, settings, self.problem, start, observed=observed, index=index)
        return _torch_ops.begun(self, seed, call, begin, indices, statistics)

    def _expected(self, theta: Tensor, guide: Any, index: Any, options: dict[str, Any]) -> tuple[Tensor, ...]:
        """A whole call for ``torch.func``: the mean, and tensors from which the same chains can be run again."""
        problem: Any = self.problem
        if _is_empty(_tensor(theta), problem):
            done = _torch_ops.begun(self, 0, 0, Begin(problem.solution[:0], _NOBODY), _NOBODY)
            return theta.clone(), *done[:4], torch.from_numpy(_NOBODY.copy())
        run, begin = self._run(to_array(theta), self.problem, index=index, guide=guide, **options)
        done = _torch_ops.begun(self, run.settings.seed, run.settings.call, begin, np.asarray(run.on_host.chains.indices))
        return tensor_like(run.mean().reshape(theta.shape), theta), *done[:4], torch.from_numpy(np.array(run.on_host.steps))

    def _seed_and_call(self, call: int | None, number: int | None = None) -> tuple[int, int]:
        """What the draws of a call depend on, beside examples and chains; ``number`` is that of a call counted elsewhere."""
        seed = self.settings.seed
        if call is not None:
            return seed, seed_in(call, "call")
        if in_backward():
            raise ValueError("call must be given where a layer is called in a backward pass, lest it draw anew, got None.")
        if (worker := get_worker_info()) is not None:
            seed = int(stream_keys(seed, worker.seed % 2**63, np.zeros(1, np.int64), 1)[0, 0]) >> 1
        return seed, self._memory.count() if number is None else number

    def get_extra_state(self) -> dict[str, Any]:
        """For ``state_dict``: the number of calls, and where persistent chains ended."""
        return {"calls": self.calls, "ends": _torch_state.ends_of(self.start)}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """For ``load_state_dict``."""
        state = _torch_state.saved(state, self, "calls", "ends")
        calls = integer_in(state["calls"], "calls in the state_dict of LocalSearchLayer", 0)
        _torch_state.set_ends(self.start, state["ends"], self.settings.chains, "ends in the state_dict of LocalSearchLayer")
        self._memory.calls = calls

    def extra_repr(self) -> str:
        """Problem and settings, for ``print``."""
        budget = f"steps={self.settings.steps}" if self.settings.time_limit is None else f"time_limit={self.settings.time_limit}"
        shown = f"temperature={self.settings.temperature}, chains={self.settings.chains}, estimator={self.estimator!r}"
        return f"{self.problem!r}, {budget}, {shown}, seed={self.settings.seed}"


class _Memory:
    """What a layer changes when it is called; a plain object, since setting attributes of a module is slow."""

    last: Run | None = None

    def __init__(self, calls: int = 0) -> None:
        array = np.array([calls])
        self._calls = memoryview(array.data)  # read and written faster than arrays and tensors are
        self.state = torch.from_numpy(array)  # the same memory: compiled graphs count here

    @property
    def calls(self) -> int:
        return self._calls[0]

    @calls.setter
    def calls(self, calls: int) -> None:
        self._calls[0] = calls

    def count(self) -> int:
        """The number of a new call; threads never get the same."""
        with _COUNTING:
            self._calls[0] += 1
            return self._calls[0] - 1

    def __getstate__(self) -> dict[str, Any]:
        """Copies of a layer do not hold chains."""
        return {"calls": self.calls}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


_COUNTING = Lock()
_NOBODY = np.zeros(0, np.int64)


class FenchelYoungLoss(_Module):
    """Fenchel-Young loss of a layer, with gradient ŷ_t(θ) − T(y).

    The value A_t(θ) + Ω_t(y) − ⟨θ, T(y)⟩ is intractable (:func:`movegrad.exact.fenchel_young` has it where it is not). What is
    returned is ⟨θ, ŷ − T(y)⟩ with ŷ held fixed: its gradient is right, its value is no measure of progress.

    Parameters
    ----------
    layer : LocalSearchLayer
        Problem, steps, temperature, …
    start : str, solutions or callable, optional
        Where chains begin; by default at the target (conditional), or where they ended (one θ for many observations), or where the
        layer says (y is a mean).
    reduction : {"mean", "sum", "none"}
        Over examples (conditional) or observations (unconditional).
    y_is : {"solution", "mean"}
        Whether y are solutions (…, m), which must be in the set, or values of T (…, d), such as means of observations, which
        need not be; chains cannot start at those. It is never guessed from what y holds.

    Examples
    --------
    >>> import torch
    >>> import movegrad as mg
    >>> loss = mg.torch.FenchelYoungLoss(mg.torch.LocalSearchLayer(mg.problems.TopK(5, 2), steps=20))
    >>> theta = torch.zeros(3, 5, requires_grad=True)
    >>> y = torch.tensor([[1, 1, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 0, 1, 1]])
    >>> loss(theta, y).backward()
    >>> theta.grad.sum(-1).abs().max().item() < 1e-6  # as many ones in ŷ as in y
    True
    >>> loss(theta[0], torch.full((1, 5), 0.4), y_is="mean").shape
    torch.Size([])
    """

    def __init__(
        self, layer: LocalSearchLayer, *, start: Start | None = None, reduction: str = "mean", y_is: str = "solution"
    ) -> None:
        super().__init__()
        self.layer = instance_of(layer, "layer", LocalSearchLayer)
        self.start = None if start is None else starts.resolve(start, lasting=True)
        self.persistent = starts.Persistent()  # for one θ and many observations
        self.reduction = choice(reduction, "reduction", REDUCTIONS)
        self.y_is = choice(y_is, "y_is", MEANINGS)
        self._name = "y"  # of the observations, in errors

    def forward(
        self,
        theta: Tensor | Sequence[Tensor],
        y: Arrays,
        *,
        problem: Problems | None = None,
        start: Start | None = None,
        index: Arrays | None = None,
        guide: Arrays | None = None,
        y_is: str | None = None,
        call: int | None = None,
    ) -> Tensor:
        """The loss; call ``backward`` on it, and do not look at its value.

        Parameters
        ----------
        theta : float tensor (…, d)
            A sequence of vectors for a sequence of problems. Chains run where it is.
        y : (…, m)
            Observed solutions, in any words that the problem understands; or values of T (…, d), if ``y_is`` is "mean". With one θ
            (d,) they may be many, (N, size): the unconditional case. A sequence of vectors for a sequence of problems.
        problem, start, y_is : as in the layer and in the loss, optional
            Replace what was given before in this call.
        index, guide, call : as in :meth:`LocalSearchLayer.forward`
            What draws depend on, and what guided moves look at.

        Returns
        -------
        tensor
            A number; with reduction "none" one for each example or observation.
        """
        if torch.compiler.is_compiling():
            options = start, index, guide, call
            if (
                problem is None
                and self.layer._shape is not None
                and _are_plain(*options)
                and _can_be_traced(theta, y, y_is or self.y_is)
            ):
                return self._in_graph(theta, y, options, y_is or self.y_is)  # type: ignore[arg-type]
            keys = {"problem": problem, "start": start, "index": index, "guide": guide, "y_is": y_is, "call": call}
            return torch.compiler.disable(self.forward)(theta, y, **keys)
        if _are_transformed():
            _refuse_others(self.layer, problem)
            keys = {"start": start, "y_is": y_is, "call": call}
            y = y if isinstance(y, Tensor) else torch.as_tensor(encoded(self.layer.problem, y, self._name))
            gradient = _torch_ops.Difference.apply(_tensor(theta), y, _as_tensor(guide), _as_tensor(index), self, keys)
            return _reduce(_torch_ops.FixedGradient.apply(theta.expand(gradient.shape), None, gradient), self.reduction)  # type: ignore[union-attr]
        return self._forward(theta, y, problem, start, y_is, index=index, guide=guide, call=call)

    def _forward(self, theta: Any, y: Any, problem: Any, start: Any, y_is: str | None, **keys: Any) -> Tensor:
        """The call, as it is."""
        layer: Any = self._modules["layer"]  # a microsecond faster than self.layer
        problem = layer.problem if problem is None else problem
        if not isinstance(problem, Problem):
            return self._of_list(theta, y, problem, start, self._meaning(y, y_is), keys)
        return _reduce(linear(theta, self._gradient(theta, y, problem, start, y_is, **keys)), self.reduction)

    def _meaning(self, y: Any, y_is: str | None) -> str:
        y_is = self.y_is if y_is is None else choice(y_is, "y_is", MEANINGS)
        if y_is == "mean":
            _without_gradient(y)
        return y_is

    def _gradient(
        self, theta: Any, y: Any, problem: Problem | None = None, start: Any = None, y_is: str | None = None, **keys: Any
    ) -> Tensor:
        """E[T(Y)] − T(y), for each example or observation."""
        layer: Any = self._modules["layer"]
        problem, y_is = problem or layer.problem, self._meaning(y, y_is)  # type: ignore[assignment]
        theta, y, many = self._pair(theta, y, problem, y_is)
        if 0 in y.shape:
            return theta.new_zeros(*y.shape[:-1], problem.size)
        begin = self._start(start, y_is, many)
        observed = _observed(problem, y.reshape(-1, y.shape[-1]), y_is, self._name)
        run, _ = layer._run(to_array(theta), problem, start=begin, observed=observed.solutions, start_name=_blamed(begin), **keys)
        mean, statistics = run.mean().reshape(theta.shape), observed.statistics.reshape(*y.shape[:-1], problem.size)
        return tensor_like(mean - statistics, theta)

    def _pair(self, theta: Any, y: Any, problem: Problem, y_is: str) -> tuple[Tensor, Any, bool]:
        """θ, y as rows, and whether one θ has many observations."""
        theta = _tensor(theta, problem.size)
        y = _rows(problem, theta, y, y_is, self._name)
        many = theta.ndim == 1 and y.ndim == 2
        if not many and tuple(y.shape[:-1]) != tuple(theta.shape[:-1]):
            raise ValueError(f"y must have the leading axes {tuple(theta.shape[:-1])} of theta, got shape {tuple(y.shape)}.")
        return theta, y, many

    def _in_graph(self, theta: Tensor, y: Tensor, options: tuple, y_is: str) -> Tensor:
        mean, statistics = _torch_ops.mean_in_graph(self, self.layer, theta, y, options, y_is)
        values = (theta * (mean - statistics).to(theta.dtype)).sum(-1)
        return values if self.reduction == "none" else values.mean() if self.reduction == "mean" else values.sum()

    def _begun(
        self, theta: Tensor, y: Tensor, index: Any, guide: Any, start: Any, y_is: str, call: int | None, number: int | None = None
    ) -> _torch_ops.Begun:
        """The first part of a call in a graph."""
        problem = self.layer.problem
        theta, y, many = self._pair(theta, y, problem, choice(y_is, "y_is", MEANINGS))
        begin, observed = self._start(start, y_is, many), Observed(None, np.empty((0, problem.size)))
        if 0 not in y.shape:
            observed = _observed(problem, y.reshape(-1, y.shape[-1]), y_is, self._name)
        elif self.reduction == "mean":
            raise _nothing(y.shape[:-1])
        statistics = observed.statistics.reshape(*y.shape[:-1], problem.size)
        return self.layer._begun_at(theta, begin, index, guide, call, number, observed.solutions, statistics)

    def _start_of(self, start: Any, y_is: str, many: bool) -> Any:
        return self._start(start, y_is, many)

    def _of_list(self, theta: Any, y: Any, problem: Sequence[Problem], start: Any, y_is: str, keys: dict[str, Any]) -> Tensor:
        """The same for a list of problems."""
        thetas = listed(theta, "theta", len(problems_of(problem)), "problems")
        theta = [_tensor(t, p.size) for t, p in zip(thetas, problem, strict=True)]
        rows = [
            _rows(p, t, v, y_is, self._name)
            for t, p, v in zip(theta, problem, listed(y, "y", len(problem), "problems"), strict=True)
        ]
        for row in rows:
            if row.ndim != 1:
                raise ValueError(f"y must have one axis for each problem, got shape {tuple(row.shape)}.")
        begin = self._start(start, y_is, many=False)
        each = [_observed(p, row[None], y_is, self._name) for p, row in zip(problem, rows, strict=True)]
        observed = None if y_is == "mean" else [o.solutions[0] for o in each]
        run, _ = self.layer._run(
            [to_array(t) for t in theta], problem, start=begin, observed=observed, start_name=_blamed(begin), **keys
        )
        means = zip(theta, run.mean(), each, strict=True)
        return _reduce(torch.stack([linear(t, tensor_like(mean - o.statistics[0], t)) for t, mean, o in means]), self.reduction)

    def _start(self, start: Any, y_is: str, many: bool) -> Any:
        """Where chains of a call begin."""
        chosen = self.persistent if isinstance(start, str) and start == "persistent" else start
        chosen = self.start if chosen is None else starts.resolve(chosen)
        if chosen is None:
            chosen = self.persistent if many else self.layer.start if y_is == "mean" else starts.target
        if y_is == "mean" and starts.looks_at_targets(chosen):
            name = getattr(chosen, "__name__", chosen)
            raise ValueError(f"start must not be that of observed solutions where y is a mean of T, got {name!r}.")
        return chosen

    def get_extra_state(self) -> dict[str, Any]:
        """For ``state_dict``: where persistent chains ended."""
        return {"persistent": _torch_state.ends_of(self.persistent), "start": _torch_state.ends_of(self.start)}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """For ``load_state_dict``."""
        state, chains = _torch_state.saved(state, self, "persistent", "start"), self.layer.settings.chains
        _torch_state.set_ends(self.persistent, state["persistent"], chains, "persistent in the state_dict of FenchelYoungLoss")
        _torch_state.set_ends(self.start, state["start"], chains, "start in the state_dict of FenchelYoungLoss")


class OneStepLoss(_Module):
    """The exact Fenchel-Young loss whose gradient is that of one step from the target, E[T(y⁽¹⁾)] − T(y): no sampling.

    Value and gradient as in :func:`movegrad.one_step`; unlike the loss of a long chain, the value is exact. The expected gradient
    is short (a few percent of the full one): use an optimizer that rescales, such as Adam.

    Parameters
    ----------
    problem : Problem
        One for all θ.
    temperature : float
        t > 0.
    reduction : {"mean", "sum", "none"}
        Over examples or observations.
    keep : bool
        List the neighborhood of each y once, and keep it (:class:`movegrad.Neighborhoods`): later calls run no move. This takes
        memory for every different y. Not for guided problems; where θ is on a GPU, moves run there in each call.

    Examples
    --------
    >>> import torch
    >>> import movegrad as mg
    >>> loss = mg.torch.OneStepLoss(mg.problems.TopK(5, 2), keep=True)
    >>> loss(torch.zeros(5), torch.tensor([1, 1, 0, 0, 0])).item()
    1.0
    """

    def __init__(self, problem: Problem, temperature: float = 1.0, *, reduction: str = "mean", keep: bool = False) -> None:
        super().__init__()
        self.problem = instance_of(problem, "problem", Problem)
        self.temperature = positive(temperature, "temperature")
        self.reduction = choice(reduction, "reduction", REDUCTIONS)
        self._kept = Neighborhoods(problem) if flag(keep, "keep") else None

    def forward(self, theta: Tensor, y: Arrays, *, guide: Arrays | None = None) -> Tensor:
        """The loss.

        Parameters
        ----------
        theta : float tensor (…, d)
            θ.
        y : (…, m)
            Observed solutions; with one θ (d,) they may be many, (N, size).
        guide : like θ, optional
            What guided moves look at; must be given for them.

        Returns
        -------
        tensor
            A number; with reduction "none" one for each example or observation.
        """
        if torch.compiler.is_compiling():
            if _can_be_traced(theta, y, "solution") and _are_plain(None, None, guide, None):
                values, _ = torch.ops.movegrad.one_step(theta, y, guide, _torch_ops.handle_of(self), self.problem.size)
                return values if self.reduction == "none" else values.mean() if self.reduction == "mean" else values.sum()
            return torch.compiler.disable(self.forward)(theta, y, guide=guide)
        if not _are_transformed():
            return self._forward(theta, y, guide)
        y = y if isinstance(y, Tensor) else torch.as_tensor(encoded(self.problem, y, "y"))
        values, gradient = _torch_ops.OneStep.apply(_tensor(theta), y, _as_tensor(guide), self)
        return _reduce(_torch_ops.FixedGradient.apply(theta.expand(gradient.shape), values, gradient), self.reduction)

    def _forward(self, theta: Tensor, y: Any, guide: Any) -> Tensor:
        """The call, as it is."""
        values, gradient = self._values(theta, y, guide)
        return _reduce(FixedGradient.apply(theta.expand(gradient.shape), values, gradient), self.reduction)

    def _values(self, theta: Tensor, y: Any, guide: Any) -> tuple[Tensor, Tensor]:
        """Loss and gradient of each example or observation."""
        theta, guide = _tensor(theta, self.problem.size), _guide(guide)
        values = _beside(theta, y if isinstance(y, Tensor) else encoded(self.problem, y, "y"), "y")
        if theta.ndim == 1 and values.ndim == 2:
            theta = theta.expand(len(values), -1)
            if guide is not None:
                guide = place_of(guide).vectors(guide, "guide", self.problem.size)
                guide = guide.expand(theta.shape) if isinstance(guide, Tensor) else np.broadcast_to(guide, theta.shape)
        if values.shape[:-1] != tuple(theta.shape[:-1]) or values.shape[-1:] != (len(self.problem.solution),):
            wanted, given = (*theta.shape[:-1], len(self.problem.solution)), tuple(values.shape)
            raise ValueError(f"y must have shape {wanted}, got {given} for theta of shape {tuple(theta.shape)}.")
        if _is_empty(theta, self.problem):
            if self.reduction == "mean":
                raise _nothing(theta.shape[:-1])
            return theta.new_zeros(theta.shape[:-1]), torch.zeros_like(theta)
        kept = self._kept
        if kept is not None and kept.problem is self.problem and guide is None and not theta.is_cuda:
            rows = kept.rows_of(values.reshape(-1, values.shape[-1]))
            flat = kept.one_step(to_array(theta).reshape(-1, self.problem.size), rows, temperature=self.temperature)
            loss, gradient = flat[0].reshape(theta.shape[:-1]), flat[1].reshape(theta.shape)
        else:
            loss, gradient = one_step(self.problem, to_array(theta), values, temperature=self.temperature, guide=guide)
        return tensor_like(loss, theta), tensor_like(gradient, theta)


# --- arguments -------------------------------------------------------------------------------------------------------


def _guide(value: Any) -> Any:
    """A guide for one problem or a list of them, as arrays."""
    if value is None or isinstance(value, (Tensor, np.ndarray)):
        return None if value is None else to_array(value, "guide")
    return [to_array(v, "guide") for v in sequence(value, "guide", "tensors, or one")]


def _tensor(value: Any, size: int | None = None) -> Tensor:
    """θ; that of a loss must have the right size, before others are compared with it, and a dtype that can be multiplied."""
    if not isinstance(value, Tensor):
        raise ValueError(f"theta must be a tensor, got {type(value).__name__}.")
    if value.layout is not torch.strided or value.is_nested:
        raise ValueError(f"theta must be a dense tensor, got {described(value)}.")
    if size is not None and value.itemsize == 1:
        raise ValueError(f"theta must be of a floating dtype of 16 bits or more, got {value.dtype}.")
    if size is not None and (value.ndim == 0 or value.shape[-1] != size):
        raise ValueError(f"theta must have a last axis of {size} entries, got shape {tuple(value.shape)}.")
    return value


def _beside(theta: Tensor, value: Any, name: str) -> Any:
    """What belongs to θ: on a CUDA device it is brought to θ; on the CPU it must not be elsewhere."""
    if theta.is_cuda:
        value = value if isinstance(value, Tensor) or on_gpu(value) else np.array(array_of(value, name))
        return torch.as_tensor(value, device=theta.device).detach()
    array = to_array(value, name)
    if isinstance(array, Tensor):
        raise ValueError(f"{name} must be on the CPU, as theta is, got device {array.device}.")
    return array


def _is_empty(theta: Tensor, problem: Problem) -> bool:
    """No examples: there is nothing to run."""
    return theta.numel() == 0 and theta.ndim > 1 and theta.shape[-1] == problem.size


def _blamed(start: Any) -> str:
    """The argument that is wrong if a start is not in the set."""
    return "y" if start is starts.target else "start"


def _rows(problem: Problem, theta: Tensor, y: Any, y_is: str, name: str) -> Any:
    """y as an array where θ is, of the right last axis."""
    values = _beside(theta, y if isinstance(y, Tensor) else encoded(problem, y, name), name)
    size = problem.size if y_is == "mean" else len(problem.solution)
    if values.ndim == 0 or values.shape[-1] != size:
        raise ValueError(f"{name} must have a last axis of {size} entries, got shape {tuple(values.shape)}.")
    return values


def _observed(problem: Problem, y: Any, y_is: str, name: str) -> Observed:
    """Solutions to start at (None where y are means) and T(y), as rows."""
    if y_is == "mean":
        return Observed(None, _means(problem, y))
    return observe(problem, y, f"{name}, unless y_is is 'mean'," if _is_float(y) else name)


def _without_gradient(y: Any) -> None:
    """Means could be differentiated, and are not."""
    parts = y if isinstance(y, (list, tuple)) else [y]
    if torch.is_grad_enabled() and any(isinstance(v, Tensor) and v.requires_grad for v in parts):
        raise ValueError("y must not require a gradient, since the loss has none in a mean of T: give y.detach().")


def _means(problem: Problem, values: Any) -> Any:
    """Values of T as rows (n, d)."""
    values = values if _is_float(values) else values.double() if isinstance(values, Tensor) else array_of(values, "y").astype(float)
    array = place_of(values).vectors(values, "y", problem.size)
    if isinstance(array, Tensor) and not bool(array.isfinite().all()):
        raise ValueError(f"y must be finite, got {array[~array.isfinite()][0].item()} among its entries.")
    return array.reshape(-1, problem.size)


def _is_float(array: Any) -> bool:
    return array.is_floating_point() if isinstance(array, Tensor) else array.dtype.kind == "f"


def _reduce(values: Tensor, reduction: str) -> Tensor:
    if reduction == "mean" and values.numel() == 0:
        raise _nothing(values.shape)
    return values if reduction == "none" else values.mean() if reduction == "mean" else values.sum()


def _indices(index: Any, start: Any, examples: int, in_batch: bool) -> Any:
    """Numbers of the examples where none are given: those of another rank are other examples."""
    if index is not None:
        return index
    if in_batch and start is not starts.target:
        _warn_of_strangers(starts.memory(start))
    rank = _rank()
    return (rank << _RANK) + np.arange(examples) if rank else None


def _rank() -> int:
    """Of this process in distributed training; 0 elsewhere."""
    return _distributed.get_rank() if _CAN_BE_DISTRIBUTED and _distributed.is_initialized() else 0


def _warn_of_strangers(memory: Any) -> None:
    """Once, where chains of a batch go on and nothing says whose they are."""
    if isinstance(memory, starts.Persistent) and memory.ends and not memory.warned:
        memory.warned = True
        warnings.warn(
            "index should be given where persistent chains meet batches, since a chain goes on for whichever example has its place "
            "in the next batch: give index, the number of each example in the data set (range(n), if all batches are the same).",
            UserWarning,
            stacklevel=2,
        )


def _nothing(shape: Any) -> ValueError:
    return ValueError(f"y must hold at least one example where reduction is 'mean', got losses of shape {tuple(shape)}.")


# --- graphs ----------------------------------------------------------------------------------------------------------


def _are_plain(start: Any, index: Any, guide: Any, call: Any) -> bool:
    """Can operators take these arguments? Others break a graph, and so does ``torch.func``, whose rules operators do not have."""
    plain = _GRAPHS and not _are_transformed() and isinstance(start, (str, type(None))) and isinstance(guide, (Tensor, type(None)))
    return plain and isinstance(index, (Tensor, list, tuple, range, type(None))) and isinstance(call, (int, type(None)))


def _can_be_traced(theta: Any, y: Any, y_is: str) -> bool:
    return isinstance(theta, Tensor) and isinstance(y, Tensor) and not (y_is == "mean" and y.requires_grad)


def _as_tensor(value: Any) -> Tensor | None:
    return None if value is None else torch.as_tensor(value)


def _refuse_others(layer: LocalSearchLayer, problem: Any) -> None:
    if problem is not None or layer._shape is None:
        got = shown(layer.problem if problem is None else problem)
        raise ValueError(f"problem must be the layer's own and one for all where torch.func looks on, got {got}.")
