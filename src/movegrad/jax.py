"""JAX front end: the layer θ ↦ E[T(Y)] and its Fenchel-Young losses, under ``jit``, ``grad``, ``vmap`` and ``shard_map``.

It only translates: chains run in compiled kernels, which XLA calls (:mod:`movegrad._jax_ffi`; ``MOVEGRAD_JAX_FFI=`` has JAX call
them back instead, more slowly). On the CPU they are threads; on a GPU they run on XLA's stream. Eager, jitted or vmapped, the same
arguments give the same numbers, bit for bit.

Functions are pure, and keys explicit: draws depend on (key, number of the example, number of the chain) alone. What follows:

* ``jax.random.key(n)`` gives the numbers of seed n in the other front ends. The same key gives the same draws again: split it.
* Examples of a call are numbered 0, 1, … in the order of the leading axes of θ, unless ``index`` numbers them.
* Under ``vmap`` all examples run as one batch, and each gets what it would get alone: numbers begin at 0 again for each of them, so
  that examples with the same key and θ get the same draws. Map over keys, too, or over ``index``.
* Under ``shard_map`` numbers go on from shard to shard, along the axes of the mesh, in its order, over which arguments differ (over
  all of them with ``check_vma=False``): rows of θ that are sharded along their first axis, over axes in that order, get the
  numbers, and so the results, that they have in one piece. With ``index`` that is so for any sharding.
* Chains go on where they ended if the caller says so: with ``ends=True`` they are returned, to be the ``start`` of the next call.

Nothing can be differentiated twice.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

from movegrad import _jax_ffi as ffi
from movegrad import _jax_runs as runs
from movegrad import start as starts
from movegrad._calls import ESTIMATORS, make_settings, problems_of
from movegrad._jax_runs import Call, Result
from movegrad._types import Arrays, Start
from movegrad._validate import array_of, choice, encoded, flag, instance_of, listed, must_be_free, native, positive, shown
from movegrad.engine import Options, Settings, on_gpu, place_of
from movegrad.neighborhoods import Neighborhoods
from movegrad.problem import Problem
from movegrad.schedules import Annealing, Schedule

__all__ = ["FenchelYoungLoss", "LocalSearchLayer", "OneStepLoss"]

REDUCTIONS = ("mean", "sum", "none")
MEANINGS = ("solution", "mean")  # of y
LAYER_STARTS = ("random", "greedy")
LOSS_STARTS = ("random", "greedy", "target", "heuristic", "data")
Problems = Problem | Sequence[Problem]


class LocalSearchLayer:
    """The layer ŷ_t(θ) = E[T(Y)] under π(y) ∝ exp((⟨θ, T(y)⟩ + φ(y))/t), estimated by local-search chains.

    Its Jacobian is Cov(T(Y))/t: reverse mode runs the same chains again and accumulates the product with the cotangent.

    Parameters
    ----------
    problem : Problem, or a sequence of them
        One for all θ, or one for each row of θ, which is padded to the largest then.
    steps : int
        K; time limits have no place in a pure function.
    temperature : float
        t > 0.
    schedule, burn_in, chains, estimator : as in :func:`movegrad.sample`
        What chains do. ``estimator`` is that of the output; the Jacobian is the covariance of the states that were visited.
    start : "random", "greedy", solutions or a callable
        It must not remember anything; see ``ends`` for chains that go on.

    References
    ----------
    Proposition 1 of "Learning with Local Search MCMC Layers".

    Examples
    --------
    >>> import jax
    >>> import jax.numpy as jnp
    >>> import movegrad as mg
    >>> layer = mg.jax.LocalSearchLayer(mg.problems.TopK(5, 2), steps=100, chains=4)
    >>> jax.grad(lambda theta: layer(theta, jax.random.key(0))[0])(jnp.zeros(5)).shape
    (5,)
    """

    def __init__(
        self,
        problem: Problems,
        steps: int,
        temperature: float = 1.0,
        *,
        schedule: Schedule | None = None,
        burn_in: int = 0,
        chains: int = 1,
        start: Start = "random",
        estimator: str = "mean",
    ) -> None:
        self.problem = _one_or_all(problem)
        choice(estimator, "estimator", ESTIMATORS)
        if isinstance(schedule, Annealing):
            raise ValueError(f"schedule must be a callable k → t, since a layer runs its chains again, got {schedule}.")
        self.start, self.estimator = _pure(start, LAYER_STARTS), estimator
        self.settings = make_settings(
            steps=steps, temperature=positive(temperature, "temperature"), schedule=schedule, burn_in=burn_in, chains=chains,
            options=Options(recycle=estimator == "recycled"),
        )  # fmt: skip
        self._calls = _Calls()

    def __setattr__(self, name: str, value: Any) -> None:
        must_be_free(self, name)
        super().__setattr__(name, value)

    def __call__(
        self,
        theta: Arrays,
        key: jax.Array,
        *,
        problem: Problems | None = None,
        start: Start | None = None,
        index: Arrays | None = None,
        guide: Arrays | None = None,
        ends: bool = False,
    ) -> Any:
        """Estimate ŷ_t(θ) with the randomness of a key.

        Parameters
        ----------
        theta : float array (…, d)
            θ. For a sequence of problems (E, largest d), padded with anything; or a sequence of (dᵢ,).
        key : one key of ``jax.random.key``
            The same key gives the same numbers.
        problem, start : optional
            Instead of those of the layer. Solutions are (m,), (…, m) or (…, chains, m), and may be traced;
            ``movegrad.start.Heuristic(solutions)`` improves them before.
        index : (…) or (E,) integers, optional
            Numbers of the examples, on which draws depend.
        guide : like θ, optional
            What guided moves look at instead of θ; it has no gradient.
        ends : bool
            Also return where chains ended: ``mean, ends = layer(theta, key, start=ends, ends=True)`` goes on with them.

        Returns
        -------
        mean : array (…, d)
            ŷ_t(θ), of the dtype of θ; padded with 0, or a list of (dᵢ,), as θ is.
        ends : array (…, chains, m), if asked for
            Padded with 0 where problems have different sizes.
        """
        problem = self.problem if problem is None else _one_or_all(problem)
        in_list = not isinstance(problem, Problem) and isinstance(theta, (list, tuple))
        theta, ends = _theta(theta, problem), flag(ends, "ends")
        given = _Arguments(problem, theta, self.settings.chains)
        given.take("key", _bits(key)).take_start(start, self.start, LAYER_STARTS).take_index(index).take_guide(guide)
        given.number_across_shards()
        forward = given.call(self, runs.mean, given.like_theta, *[given.ends] * ends)
        if _is_known(*given.operands.values()):
            out = _now(forward, given.operands)
        else:
            backward = given.call(self, runs.product, given.like_theta, direction=theta.ndim)
            out = _expectation((forward, backward), *given.apart)
        mean = [row[: p.size] for row, p in zip(out[0], _each(problem), strict=True)] if in_list else out[0]
        return (mean, out[1]) if ends else mean


class FenchelYoungLoss:
    """Fenchel-Young loss of a layer, with gradient ŷ_t(θ) − T(y).

    The value is ⟨θ, ŷ − T(y)⟩ with ŷ held fixed: its gradient is right, its value is no measure of progress.

    Parameters
    ----------
    layer : LocalSearchLayer
        Problem, steps, temperature, …
    start : "target", "heuristic", "data", "random", "greedy", solutions or a callable, optional
        Where chains begin; by default at the target, or where the layer says if y are means, or many for one θ.
    reduction : {"mean", "sum", "none"}
        Over examples, or over observations.
    y_is : {"solution", "mean"}
        Whether y are solutions (…, m), which must be in the set, or values of T (…, d), such as means of observations.

    Examples
    --------
    >>> import jax
    >>> import jax.numpy as jnp
    >>> import movegrad as mg
    >>> loss = mg.jax.FenchelYoungLoss(mg.jax.LocalSearchLayer(mg.problems.TopK(5, 2), steps=20))
    >>> y, key = jnp.array([1, 1, 0, 0, 0]), jax.random.key(0)
    >>> gradient = jax.grad(loss)(jnp.zeros(5), y, key)
    >>> abs(float(gradient.sum())) < 1e-6  # as many ones in ŷ as in y
    True

    Persistent chains are a state that goes in and comes out:

    >>> step = jax.jit(jax.value_and_grad(lambda theta, y, key, state: loss(theta, y, key, start=state, ends=True), has_aux=True))
    >>> state = y[None]
    >>> for k in range(3):
    ...     (value, state), gradient = step(jnp.zeros(5), y, jax.random.fold_in(key, k), state)
    >>> state.shape
    (1, 5)
    """

    def __init__(
        self, layer: LocalSearchLayer, *, start: Start | None = None, reduction: str = "mean", y_is: str = "solution"
    ) -> None:
        self.layer = instance_of(layer, "layer", LocalSearchLayer)
        self.start = None if start is None else _pure(start, LOSS_STARTS)
        self.reduction = choice(reduction, "reduction", REDUCTIONS)
        self.y_is = choice(y_is, "y_is", MEANINGS)
        self._calls = _Calls()

    def __call__(
        self,
        theta: Arrays,
        y: Arrays,
        key: jax.Array,
        *,
        problem: Problems | None = None,
        start: Start | None = None,
        index: Arrays | None = None,
        guide: Arrays | None = None,
        y_is: str | None = None,
        ends: bool = False,
    ) -> Any:
        """The loss; take its gradient in θ, and do not look at its value.

        Parameters
        ----------
        theta : float array (…, d)
            θ, as for a layer.
        y : (…, m)
            Observed solutions; or values of T (…, d), if ``y_is`` is "mean". With one θ (d,) they may be many, (N, size). Padded
            for a sequence of problems, as θ is, or a sequence.
        key, index, guide, ends : as in :meth:`LocalSearchLayer.__call__`
            What draws depend on, what guided moves look at, and where chains ended.
        problem, start, y_is : optional
            Instead of those of the layer and the loss; solutions to start at may be traced.

        Returns
        -------
        value : array
            A number; with reduction "none" one for each example or observation.
        ends : array (…, chains, m), if asked for
            As for a layer.
        """
        layer = self.layer
        problem = layer.problem if problem is None else _one_or_all(problem)
        y_is = self.y_is if y_is is None else choice(y_is, "y_is", MEANINGS)
        theta, ends = _theta(theta, problem), flag(ends, "ends")
        y = _observations(y, theta, problem, y_is)
        given = _Arguments(problem, theta, layer.settings.chains, y_is)
        given.take("y", y).take("key", _bits(key))
        own = self.start or (layer.start if y_is == "mean" or y.ndim > theta.ndim else starts.target)
        given.take_start(start, own, LOSS_STARTS).take_index(index).take_guide(guide)
        given.number_across_shards()
        shape = Result((*y.shape[:-1], theta.shape[-1]), np.dtype(theta.dtype))
        call = given.call(self, runs.difference, shape, *[given.ends] * ends, settings=layer.settings)
        out = _fenchel_young(call, *given.apart)
        value = _reduce(out[0], self.reduction)
        return (value, out[1]) if ends else value


class OneStepLoss:
    """The exact Fenchel-Young loss whose gradient is that of one step from the target, E[T(y⁽¹⁾)] − T(y): no sampling, no key.

    Value and gradient as in :func:`movegrad.one_step`.

    Parameters
    ----------
    problem : Problem
        One for all θ.
    temperature : float
        t > 0.
    reduction : {"mean", "sum", "none"}
        Over examples, or over observations.
    keep : bool
        List the neighborhood of each y once, and keep it (:class:`movegrad.Neighborhoods`): later calls run no move. This takes
        memory for every different y. Not for guided problems; on a GPU moves run in each call.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import movegrad as mg
    >>> loss = mg.jax.OneStepLoss(mg.problems.TopK(5, 2), keep=True)
    >>> float(loss(jnp.zeros(5), jnp.array([1, 1, 0, 0, 0])))
    1.0
    """

    def __init__(self, problem: Problem, temperature: float = 1.0, *, reduction: str = "mean", keep: bool = False) -> None:
        self.problem = instance_of(problem, "problem", Problem)
        self.temperature = positive(temperature, "temperature")
        self.reduction = choice(reduction, "reduction", REDUCTIONS)
        self._task = runs.ListedStep(Neighborhoods(problem)) if flag(keep, "keep") else runs.first_step
        self._calls = _Calls()

    def __call__(self, theta: Arrays, y: Arrays, *, guide: Arrays | None = None) -> jax.Array:
        """The loss.

        Parameters
        ----------
        theta : float array (…, d)
            θ.
        y : (…, m)
            Observed solutions; with one θ (d,) they may be many, (N, size).
        guide : like θ, optional
            What guided moves look at; must be given for them.

        Returns
        -------
        array
            A number; with reduction "none" one for each example or observation.
        """
        if self.problem.guided and guide is None:
            raise ValueError(f"guide must be given, since proposals of {self.problem.name} depend on theta, got None.")
        theta = _theta(theta, self.problem)
        y = _observations(y, theta, self.problem, "solution")
        guide = None if guide is None else _guide(guide, theta, self.problem)
        if y.ndim > theta.ndim:
            theta = jnp.broadcast_to(theta, (len(y), self.problem.size))
            guide = None if guide is None else jnp.broadcast_to(guide, theta.shape)
        given = _Arguments(self.problem, theta, 1)
        given.take("y", y).take_guide(guide).align()
        value = Result(theta.shape[:-1], np.dtype(theta.dtype))
        call = given.call(self, self._task, value, given.like_theta, settings=Settings(temperature=self.temperature))
        return _reduce(_one_step(call, *given.apart), self.reduction)


# --- derivatives -----------------------------------------------------------------------------------------------------


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _expectation(calls: tuple[Call, Call], theta: jax.Array, others: dict[str, jax.Array]) -> tuple:
    return _evaluated(calls[0], {"theta": theta, **others})


def _expectation_forward(calls: tuple[Call, Call], theta: jax.Array, others: dict[str, jax.Array]) -> tuple:
    return _expectation(calls, theta, others), (theta, others)


def _expectation_backward(calls: tuple[Call, Call], residuals: tuple, cotangents: tuple) -> tuple:
    theta, others = residuals
    (product,) = _evaluated(calls[1], {"theta": theta, **others, "direction": cotangents[0]})
    return _laid_out_as(theta, product), {name: _zero(other) for name, other in others.items()}


_expectation.defvjp(_expectation_forward, _expectation_backward)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _fenchel_young(call: Call, theta: jax.Array, others: dict[str, jax.Array]) -> tuple:
    difference, *ends = _evaluated(call, {"theta": theta, **others})
    return (theta * difference).sum(-1), *ends


@partial(_fenchel_young.defjvp, symbolic_zeros=True)
def _fenchel_young_tangent(call: Call, primals: tuple, tangents: tuple) -> tuple:
    difference, *ends = _evaluated(call, {"theta": primals[0], **primals[1]})
    value = (primals[0] * difference).sum(-1)
    return (value, *ends), (_along(difference, tangents, call), *map(_zero, ends))


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _one_step(call: Call, theta: jax.Array, others: dict[str, jax.Array]) -> jax.Array:
    return _evaluated(call, {"theta": theta, **others})[0]


@partial(_one_step.defjvp, symbolic_zeros=True)
def _one_step_tangent(call: Call, primals: tuple, tangents: tuple) -> tuple:
    value, gradient = _evaluated(call, {"theta": primals[0], **primals[1]})
    return value, _laid_out_as(value, _along(gradient, tangents, call))


def _along(gradient: jax.Array, tangents: tuple, call: Call) -> jax.Array:
    """The derivative in the direction of a tangent of θ; y has none."""
    theta, others = tangents
    if not _is_zero(others["y"]):
        because = "solutions are discrete" if call.y_is == "solution" else "the loss has no gradient in a mean of T"
        raise ValueError(f"y must not be differentiated, since {because}.")
    return jnp.zeros(gradient.shape[:-1], gradient.dtype) if _is_zero(theta) else (gradient * theta).sum(-1)


def _is_zero(tangent: Any) -> bool:
    return isinstance(tangent, SymbolicZero) or tangent.dtype == jax.dtypes.float0


def _zero(array: jax.Array) -> Any:
    """The tangent of what has none."""
    if jnp.issubdtype(array.dtype, jnp.floating):
        return jnp.zeros_like(array)
    return np.zeros(array.shape, jax.dtypes.float0)


# --- calls ---------------------------------------------------------------------------------------------------------------


def _evaluated(call: Call, operands: dict[str, jax.Array]) -> tuple:
    """The results of a call, at once where all operands are known, else when XLA calls it."""
    if _is_known(*operands.values()):
        return _now(call, operands)
    results = [jax.ShapeDtypeStruct(r.shape, r.dtype) for r in call.results]
    axes = tuple(sorted(frozenset().union(*map(_varying, operands.values()))))

    @jax.custom_jvp
    def later(*arrays: jax.Array) -> tuple:
        return tuple(_vary(a, axes) for a in ffi.call(call, results, *(_vary(a, axes) for a in arrays)))

    @partial(later.defjvp, symbolic_zeros=True)
    def differentiated(primals: tuple, tangents: tuple) -> tuple:
        if not all(map(_is_zero, tangents)):
            raise ValueError("theta must not be differentiated twice: second derivatives of layers and losses are not estimated.")
        out = later(*primals)
        return out, tuple(map(_zero, out))

    return later(*(operands[name] for name in call.names))


def _is_known(*arrays: Any) -> bool:
    return not any(isinstance(a, jax.core.Tracer) for a in arrays)


def _now(call: Call, operands: dict[str, jax.Array]) -> tuple:
    """Without JAX, which would compile, and wrap an error in a page of its own; arrays on a GPU change hands by DLPack."""
    if not on_gpu(operands["theta"]):
        return tuple(map(jnp.asarray, call(*(np.asarray(operands[name]) for name in call.names))))
    arrays = place_of(operands["theta"]).arrays
    of_host = ("key", "index")
    given = [np.asarray(operands[n]) if n in of_host else arrays.from_dlpack(jnp.asarray(operands[n])) for n in call.names]
    out = call(*given)
    arrays.wait()  # JAX works on another stream
    return tuple(map(jax.dlpack.from_dlpack, out))


class _Calls(dict):
    """Calls that were made for a layer or a loss, by what is known while JAX traces: one that was compiled serves again."""

    MOST = 64

    def __reduce__(self) -> tuple:
        """Copies begin without any."""
        return _Calls, ()

    def get_or_make(self, key: tuple, make: Callable[[], Call]) -> Call:
        """As it was made before, or new."""
        found = self.get(key)
        if found is None:
            if len(self) >= self.MOST:
                self.clear()  # executables hold theirs
            found = self[key] = make()
        return found


# --- arguments -----------------------------------------------------------------------------------------------------------


class _Arguments:
    """Arguments of a call, made operands one after the other."""

    def __init__(self, problem: Any, theta: jax.Array, chains: int, y_is: str = "solution") -> None:
        self.problem, self.chains, self.y_is = problem, chains, y_is
        self.shape = theta.shape[:-1]
        self.operands: dict[str, jax.Array] = {"theta": theta}
        self.start: Any = None
        self.improve = False

    @property
    def size(self) -> int:
        """Of a solution, the largest."""
        return max(len(p.solution) for p in _each(self.problem))

    @property
    def apart(self) -> tuple[jax.Array, dict[str, jax.Array]]:
        """θ and the others."""
        return self.operands["theta"], {name: a for name, a in self.operands.items() if name != "theta"}

    @property
    def like_theta(self) -> Result:
        theta = self.operands["theta"]
        return Result(theta.shape, np.dtype(theta.dtype))

    @property
    def ends(self) -> Result:
        dtype = jax.dtypes.canonicalize_dtype(_each(self.problem)[0].solution.dtype)
        return Result((*self.shape, self.chains, self.size), np.dtype(dtype))

    def take(self, name: str, value: jax.Array) -> "_Arguments":
        self.operands[name] = value
        return self

    def take_guide(self, guide: Any) -> "_Arguments":
        if guide is not None:
            self.operands["guide"] = _guide(guide, self.operands["theta"], self.problem)
        return self

    def take_index(self, index: Any) -> "_Arguments":
        if index is None:
            return self
        index, n = _whole_numbers(index, "index"), int(np.prod(self.shape))
        if index.shape not in (self.shape, (n,)):
            raise ValueError(f"index must be {n} integers, one for each row of theta, got shape {index.shape}.")
        return self.take("index", index.reshape(self.shape))

    def take_start(self, start: Any, own: Any, words: tuple[str, ...]) -> "_Arguments":
        """The start of this call, or that which is the loss's or the layer's own; solutions are an operand, which may be traced."""
        chosen = own if start is None else start
        inner = chosen
        while isinstance(inner, starts.Heuristic):
            inner, self.improve = inner.first, True
        if isinstance(inner, starts.Given) and start is not None:
            inner = inner.solutions
        if isinstance(inner, (str, type)) or callable(inner):
            self.start, self.improve = chosen if start is None else _pure(start, words), False
        else:
            self.take("start", self._solutions(inner))
        if self.y_is == "mean" and starts.looks_at_targets(self.start):
            name = getattr(self.start, "__name__", self.start)
            raise ValueError(f"start must not be that of observed solutions where y is a mean of T, got {name!r}.")
        return self

    def _solutions(self, start: Any) -> jax.Array:
        """(…, 1 or chains, size)"""
        array = _padded(start, self.problem, "start", [len(p.solution) for p in _each(self.problem)], encode=True)
        if array.shape == (self.size,):
            return jnp.broadcast_to(array, (*self.shape, 1, self.size))
        if array.shape == (*self.shape, self.size):
            return array[..., None, :]
        if array.shape != (*self.shape, self.chains, self.size):
            wanted = f"{(self.size,)}, {(*self.shape, self.size)} or {(*self.shape, self.chains, self.size)}"
            raise ValueError(f"start must have shape {wanted}, got {array.shape}.")
        return array

    def number_across_shards(self) -> "_Arguments":
        """In ``shard_map``, examples of a shard are numbered after those of the shards before it, unless they have numbers."""
        mesh, names = _manual_axes()
        if not names:
            return self
        axes = _axes_of_shards(mesh, names, self.operands.values())
        if axes and "index" not in self.operands:
            shard = jnp.zeros((), jnp.int32)
            for name, size in axes.items():
                shard = shard * size + jax.lax.axis_index(name)
            n = int(np.prod(self.shape))
            self.take("index", (shard * n + jnp.arange(n, dtype=jnp.int32)).reshape(self.shape))
        return self.align()

    def align(self) -> "_Arguments":
        """All operands are to vary over the same axes of a mesh: then JAX sums gradients of those that did not."""
        if not _manual_axes()[1]:
            return self
        axes = tuple(sorted(frozenset().union(*map(_varying, self.operands.values()))))
        self.operands = {name: _vary(a, axes) for name, a in self.operands.items()}
        return self

    def call(self, owner: Any, task: Callable, *results: Result, settings: Settings | None = None, **more: int) -> Call:
        """What JAX is to call; ``more`` are operands that are not known yet, and their numbers of axes."""
        axes = {name: a.ndim for name, a in self.operands.items()} | more
        settings = owner.settings if settings is None else settings
        alone, problems = isinstance(self.problem, Problem), tuple(map(id, _each(self.problem)))  # of objects that the call holds
        key = (task, settings.temperature, alone, problems, id(self.start), self.improve, self.y_is, tuple(axes.items()), results)

        def make() -> Call:
            named = settings._replace(start_name="y" if self.start is starts.target else "start")
            fixed = self.problem, named, self.start, self.improve, self.y_is
            return Call(task, *fixed, tuple(axes), tuple(axes.values()), results)

        return owner._calls.get_or_make(key, make)


def _one_or_all(problem: Problems) -> Any:
    """A problem, or a tuple of them."""
    return problem if isinstance(problem, Problem) else tuple(problems_of(problem))


def _each(problem: Any) -> Sequence[Problem]:
    return (problem,) if isinstance(problem, Problem) else problem


def _pure(start: Any, words: tuple[str, ...]) -> Any:
    """A start that remembers nothing."""
    if isinstance(start, str):
        choice(start, "start", words)
    elif starts.memory(start) is not None:
        raise ValueError(f"start must not remember where chains ended, since functions of JAX are pure, got {start!r}.")
    return starts.resolve(start)


def _bits(key: Any) -> jax.Array:
    """The two words of a key, new style or old."""
    if not isinstance(key, jax.Array):
        raise ValueError(f"key must be made by jax.random.key, got {type(key).__name__}.")
    data = key
    if jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        data = (_key_data if _is_known(key) else jax.random.key_data)(key)
    if data.shape != (2,) or data.dtype != jnp.uint32:
        raise ValueError(f"key must be one key of two words, got shape {data.shape} of {data.dtype}.")
    return data


_key_data = jax.jit(jax.random.key_data)  # 5 µs instead of 60 where nothing is traced


def _theta(theta: Any, problem: Any) -> jax.Array:
    """What can be known of θ while JAX traces; its values are checked when the chains run."""
    sizes = [p.size for p in _each(problem)]
    theta, d = _padded(theta, problem, "theta", sizes), max(sizes)
    if not jnp.issubdtype(theta.dtype, jnp.floating):
        raise ValueError(f"theta must be of a floating dtype, got {theta.dtype}.")
    if theta.ndim == 0 or theta.shape[-1] != d or theta.size == 0:
        raise ValueError(f"theta must have a last axis of {d} entries and not be empty, got shape {theta.shape}.")
    if isinstance(problem, Problem):
        return theta
    if theta.shape != (len(problem), d):
        raise ValueError(f"theta must have shape {(len(problem), d)}, a row for each problem, got {theta.shape}.")
    return jnp.where(np.arange(d) < np.array(sizes)[:, None], theta, 0)  # whatever the padding is


def _guide(guide: Any, theta: jax.Array, problem: Any) -> jax.Array:
    array = _padded(guide, problem, "guide", [p.size for p in _each(problem)])
    if array.shape != theta.shape or not jnp.issubdtype(array.dtype, jnp.floating):
        raise ValueError(f"guide must be a floating array of shape {theta.shape}, as theta is, got {array.shape} of {array.dtype}.")
    return array


def _observations(y: Any, theta: jax.Array, problem: Any, y_is: str) -> jax.Array:
    """y of the leading axes of θ, or many for one θ."""
    sizes = [p.size if y_is == "mean" else len(p.solution) for p in _each(problem)]
    y, shape = _padded(y, problem, "y", sizes, encode=y_is == "solution"), (*theta.shape[:-1], max(sizes))
    many = theta.ndim == 1 and y.ndim == 2 and y.shape[-1] == shape[-1] and y.size > 0
    if y.shape != shape and not many:
        raise ValueError(f"y must have shape {shape}, got {y.shape} for theta of shape {theta.shape}.")
    return y


def _padded(value: Any, problem: Any, name: str, sizes: Sequence[int], encode: bool = False) -> jax.Array:
    """An array of JAX; a sequence of them for a sequence of problems is padded with 0."""

    def read(problem: Problem, value: Arrays, name: str) -> jax.Array:
        value = encoded(problem, value, name) if encode and not isinstance(value, jax.Array) else value
        return _jax_array(value, name)

    if isinstance(problem, Problem):
        return read(problem, value, name)
    if not isinstance(value, (list, tuple)):
        return _jax_array(value, name)
    values, width, rows = listed(value, name, len(problem), "problems"), max(sizes), []
    for e, (one, entry, size) in enumerate(zip(problem, values, sizes, strict=True)):
        row = read(one, entry, f"{name}[{e}]")
        if row.ndim == 0 or row.shape[-1] != size:
            raise ValueError(f"{name}[{e}] must have a last axis of {size} entries, got shape {row.shape}.")
        rows.append(jnp.pad(row, [*[(0, 0)] * (row.ndim - 1), (0, width - size)]))
    if len({row.shape for row in rows}) > 1:
        raise ValueError(f"{name} must have the same axes for each problem, got shapes {[row.shape for row in rows]} with padding.")
    return jnp.stack(rows)


def _whole_numbers(value: Any, name: str) -> jax.Array:
    array = _jax_array(value, name)
    if not jnp.issubdtype(array.dtype, jnp.integer):
        raise ValueError(f"{name} must be integers, got {array.dtype}.")
    if not isinstance(value, jax.Array) and np.max(np.abs(value), initial=0) > np.iinfo(array.dtype).max:
        raise ValueError(f"{name} must be integers below 2**31 unless jax_enable_x64 is set, got {shown(value)}.")
    return array


def _jax_array(value: Any, name: str) -> jax.Array:
    if isinstance(value, jax.Array):
        return value
    with np.errstate(over="ignore"):  # what is beyond float32 is infinite, and refused as such
        return jnp.asarray(native(array_of(value, name)))


def _reduce(values: jax.Array, reduction: str) -> jax.Array:
    return values if reduction == "none" else values.mean() if reduction == "mean" else values.sum()


# --- meshes --------------------------------------------------------------------------------------------------------------


def _manual_axes() -> tuple[Any, list[str]]:
    """The mesh of ``shard_map``, and its axes along which each shard is on its own; none outside of it."""
    mesh: Any = getattr(jax.sharding, "get_abstract_mesh", lambda: None)()
    manual = getattr(mesh, "manual_axes", ())
    return mesh, [name for name in mesh.axis_names if name in manual] if manual else []


def _axes_of_shards(mesh: Any, names: list[str], arrays: Any) -> dict[str, int]:
    """Axes along which shards are to be numbered, and their sizes.

    Where JAX knows over which axes arrays vary, these: the same arguments give the same results on all shards. Else all axes.
    """
    if _varying(jax.lax.axis_index(names[0])):
        varying = frozenset().union(*map(_varying, arrays))
        names = [name for name in names if name in varying]
    return {name: mesh.shape[name] for name in names}


def _varying(array: Any) -> frozenset[str]:
    """Axes of the mesh over which an array is known to vary."""
    kind = jax.typeof(array) if hasattr(jax, "typeof") else None
    kind = getattr(kind, "manual_axis_type", getattr(kind, "mat", kind))  # names of several versions
    return getattr(kind, "varying", getattr(kind, "vma", frozenset()))


def _laid_out_as(other: jax.Array, array: jax.Array) -> jax.Array:
    """The same array, sharded as another one: on a mesh with explicit axes that is part of its type."""
    kind = getattr(jax.typeof(other), "sharding", None) if hasattr(jax, "typeof") else None
    if kind is None or kind == jax.typeof(array).sharding or not getattr(kind.mesh, "explicit_axes", ()):
        return array
    return jax.sharding.reshard(array, kind)


def _vary(array: jax.Array, axes: tuple[str, ...]) -> jax.Array:
    """The same array, known to vary over these axes."""
    more = tuple(axis for axis in axes if axis not in _varying(array))
    if not more:
        return array
    lax: Any = jax.lax  # which had another name for it
    return lax.pcast(array, more, to="varying") if hasattr(lax, "pcast") else lax.pvary(array, more)
