"""Calls of XLA into Python: the same numbers by every way, frames that are not understood, errors, what lives how long."""

import ctypes as c
import gc
import os
import subprocess
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

jax = pytest.importorskip("jax")
jnp = jax.numpy

import movegrad as mg  # noqa: E402
from movegrad import _jax_ffi as ffi  # noqa: E402
from movegrad.problems import TopK  # noqa: E402

TOP = TopK(8, k=3)
KEY = jax.random.key(5)


def scores(*shape, dtype=np.float32, seed=0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


@pytest.fixture(params=["ffi", "callback"])
def way(request, monkeypatch):
    """How XLA calls."""
    monkeypatch.setenv(ffi.SWITCH, "cpu" if request.param == "ffi" else "")
    assert ffi.in_use() == (request.param == "ffi")
    return request.param


# --- the same numbers ----------------------------------------------------------------------------------------------------

LAYERS = {
    "plain": {"steps": 30},
    "two chains, recycled": {"steps": 15, "chains": 2, "estimator": "recycled"},
    "schedule, greedy": {"steps": 20, "schedule": lambda k: 1.0 + k % 3, "start": "greedy", "burn_in": 4},
    "given start": {"steps": 5, "start": TOP.solution},
}


@pytest.mark.parametrize("name", LAYERS)
def test_eager_jit_and_vmap_give_the_same_bits(name, way):
    layer, theta = mg.jax.LocalSearchLayer(TOP, **LAYERS[name]), jnp.asarray(scores(4, 8))
    eager, ends = layer(theta, KEY, ends=True)
    jitted = jax.jit(lambda t, k: layer(t, k, ends=True))(theta, KEY)
    np.testing.assert_array_equal(jitted[0], eager)
    np.testing.assert_array_equal(jitted[1], ends)
    numbers = jnp.arange(4)
    mapped = jax.jit(jax.vmap(lambda t, i: layer(t, KEY, index=i, ends=True)))(theta, numbers)
    np.testing.assert_array_equal(mapped[0], eager)
    np.testing.assert_array_equal(mapped[1], ends)


def test_gradients_are_the_same_bits(way):
    layer, theta, v = mg.jax.LocalSearchLayer(TOP, steps=30, chains=2), jnp.asarray(scores(4, 8)), scores(4, 8, seed=1)
    loss, y = mg.jax.FenchelYoungLoss(layer), np.array([TOP.solution] * 4)
    for f in (
        lambda t: jax.vjp(lambda t: layer(t, KEY), t)[1](v)[0],
        lambda t: jax.grad(loss)(t, y, KEY),
        lambda t: jax.grad(mg.jax.OneStepLoss(TOP))(t, y),
    ):
        np.testing.assert_array_equal(jax.jit(f)(theta), f(theta))


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16, jnp.float32])
def test_results_have_the_dtype_of_theta(dtype, way):
    layer, theta = mg.jax.LocalSearchLayer(TOP, steps=30), jnp.asarray(scores(2, 8)).astype(dtype)
    out = jax.jit(layer)(theta, KEY)
    assert out.dtype == dtype
    np.testing.assert_array_equal(out.astype(jnp.float32), layer(theta, KEY).astype(jnp.float32))
    np.testing.assert_allclose(out.astype(float), layer(theta.astype(jnp.float32), KEY), atol=0.01)


def test_sixty_four_bits(way):
    with (jax if hasattr(jax, "enable_x64") else jax.experimental).enable_x64(True):
        layer, theta = mg.jax.LocalSearchLayer(TOP, steps=30), jnp.asarray(scores(2, 8, dtype=np.float64))
        out, index = jax.jit(layer)(theta, KEY), jnp.asarray([2**40, 7])
        assert out.dtype == np.float64
        np.testing.assert_array_equal(out, mg.sample(TOP, np.asarray(theta), steps=30, seed=5).mean)
        np.testing.assert_array_equal(
            jax.jit(lambda t: layer(t, KEY, index=index))(theta),
            mg.sample(TOP, np.asarray(theta), steps=30, seed=5, index=np.asarray(index)).mean,
        )


def test_a_scan_of_jitted_calls_continues_chains(way):
    """Persistent chains: a state that goes in and comes out, compiled or not, as a Persistent start has it."""
    layer, theta, keys = mg.jax.LocalSearchLayer(TOP, steps=3, chains=2), jnp.asarray(scores(2, 8)), jax.random.split(KEY, 5)
    state = first = jnp.asarray(np.broadcast_to(TOP.solution, (2, 2, 8)))
    means = []
    for key in keys:
        mean, state = layer(theta, key, start=state, ends=True)
        means.append(mean)

    def step(state, key):
        mean, state = layer(theta, key, start=state, ends=True)
        return state, mean

    last, scanned = jax.jit(lambda: jax.lax.scan(step, first, keys))()
    np.testing.assert_array_equal(scanned, jnp.stack(means))
    np.testing.assert_array_equal(last, state)

    memory = mg.start.Persistent(np.asarray(first))
    seeds = [int(a) << 32 | int(b) for a, b in np.asarray(jax.random.key_data(keys)).astype(np.uint64)]
    for seed in seeds:
        mg.sample(TOP, np.asarray(theta), steps=3, chains=2, start=memory, seed=seed % 2**63)
    np.testing.assert_array_equal(state, [memory.ends[0], memory.ends[1]])


def test_threads_may_call_what_was_compiled_while_chains_use_threads():
    layer, theta = mg.jax.LocalSearchLayer(TOP, steps=3000, chains=4), jnp.asarray(scores(4, 8))
    run, keys = jax.jit(layer), jax.random.split(KEY, 6)
    expected = [layer(theta, key) for key in keys]
    with ThreadPoolExecutor(3) as pool:
        for found, wanted in zip(pool.map(lambda key: run(theta, key), keys), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)


# --- one batch -----------------------------------------------------------------------------------------------------------


def test_a_vmapped_call_with_many_keys_is_one_run(monkeypatch, way):
    ran = []
    execute = mg.engine.HOST.execute
    monkeypatch.setattr(mg.engine.host.Host, "execute", lambda self, batch, *a: ran.append(batch.examples) or execute(batch, *a))
    layer, theta, keys = mg.jax.LocalSearchLayer(TOP, steps=3), jnp.asarray(scores(7, 2, 8)), jax.random.split(KEY, 7)
    together = jax.vmap(layer)(theta, keys)
    assert ran == [14]
    np.testing.assert_array_equal(together, jnp.stack([layer(t, k) for t, k in zip(theta, keys, strict=True)]))


def test_what_was_compiled_for_a_layer_serves_again():
    """vmap outside of jit compiles too, and once is enough."""
    layer, theta = mg.jax.LocalSearchLayer(TOP, steps=3), jnp.asarray(scores(4, 8))
    mapped = jax.vmap(layer, in_axes=(0, None))
    mapped(theta, KEY)
    before = len(ffi._functions)
    mapped(theta, KEY)
    assert len(ffi._functions) == before


# --- errors --------------------------------------------------------------------------------------------------------------

WRONG = {
    "nan": (lambda layer: (jnp.full(8, jnp.nan), TOP.solution), "theta must be finite, got nan among its entries."),
    "start": (lambda layer: (jnp.zeros(8), jnp.ones(8, jnp.uint8)), "start must be in the set, got"),
    "fraction": (lambda layer: (jnp.zeros(8), jnp.full(8, 0.5)), "start must be in the set, got the entry 0.5."),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_error_in_a_compiled_call_is_one_sentence(name, monkeypatch):
    monkeypatch.setenv(ffi.SWITCH, "cpu")
    arguments, message = WRONG[name]
    layer = mg.jax.LocalSearchLayer(TOP, steps=3)
    run = jax.jit(lambda theta, start: layer(theta, KEY, start=start))
    with pytest.raises(Exception, match=r"^INVALID_ARGUMENT: ") as caught:
        run(*arguments(layer)).block_until_ready()
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 2
    assert np.isfinite(run(jnp.zeros(8), TOP.solution)).all()  # and the next call is right


def test_a_start_that_raises_is_told(monkeypatch):
    def start(request):
        raise KeyError("nothing here")

    layer = mg.jax.LocalSearchLayer(TOP, steps=3, start=start)
    with pytest.raises(Exception, match=r"KeyError: 'nothing here'"):
        jax.jit(layer)(jnp.zeros(8), KEY).block_until_ready()


def test_a_direction_that_is_not_finite_gives_nan_there_alone(way):
    layer = mg.jax.LocalSearchLayer(TOP, steps=30)
    theta, v = jnp.asarray(scores(3, 8)), scores(3, 8, seed=1)
    product = lambda v: jax.jit(lambda t, v: jax.vjp(lambda t: layer(t, KEY), t)[1](v)[0])(theta, v)  # noqa: E731
    good = product(v)
    v[1, 3] = np.inf
    bad = product(v)
    assert np.isnan(bad[1]).all()
    np.testing.assert_array_equal(bad[::2], good[::2])


# --- frames ----------------------------------------------------------------------------------------------------------------


class Made:
    """A frame as XLA would make it."""

    def __init__(self, function, arrays, results, major=0, size=0, number=None, extension=None, stage=ffi.EXECUTE):
        self.errors = []

        @dict(ffi.Api._fields_)["create_error"]
        def create(pointer):
            self.errors.append((pointer.contents.message.decode(), pointer.contents.code))
            return 77

        self.keep = [create, arrays, results, function]
        self.api = ffi.Api(struct_size=c.sizeof(ffi.Api), create_error=create)
        self.api.version.major, self.api.version.minor = major, 9
        number = ffi.number_of(function) if number is None else number
        value = c.c_int64(number)
        scalar = ffi.Scalar(5, c.pointer(value))
        values = (c.POINTER(ffi.Scalar) * 1)(c.pointer(scalar))
        attributes = ffi.Attributes(struct_size=c.sizeof(ffi.Attributes), size=1, values=values)
        self.keep += [value, scalar, values]
        self.frame = ffi.Frame(
            struct_size=size or c.sizeof(ffi.Frame), api=c.pointer(self.api), stage=stage, operands=self.buffers(arrays),
            results=self.buffers(results), attributes=attributes,
        )  # fmt: skip
        if extension is not None:
            self.frame.extension = c.cast(c.pointer(extension), c.POINTER(ffi.Extension))

    def buffers(self, arrays):
        codes = {dtype: code for code, dtype in ffi.DTYPES.items()}
        made = []
        for a in arrays:
            dims = (c.c_int64 * a.ndim)(*a.shape)
            self.keep.append(dims)
            place = c.cast(dims, c.c_void_p)
            made.append(ffi.Buffer(c.sizeof(ffi.Buffer), None, codes[a.dtype], a.ctypes.data, a.ndim, place))
        pointers = (c.POINTER(ffi.Buffer) * len(made))(*map(c.pointer, made))
        self.keep += [made, pointers]
        return ffi.Buffers(struct_size=c.sizeof(ffi.Buffers), size=len(made), buffers=pointers)


class Plus:
    """A function that can be weakly referenced, and counts."""

    def __init__(self):
        self.calls = 0

    def __call__(self, a, b):
        self.calls += 1
        if a[0] < 0:
            raise ValueError("a must be ≥ 0, got -1.")
        return a + b, np.full(3, self.calls)


def test_a_frame_is_read_and_written():
    function, handle = Plus(), ffi.handler(ffi.run_on_cpu)
    a, b, out, count = np.arange(3.0), np.arange(3, dtype=np.uint8), np.zeros(3, np.float32), np.zeros(3, np.int32)
    made = Made(function, [a, b], [out, count])
    assert handle(c.pointer(made.frame)) is None
    np.testing.assert_array_equal(out, a + b)
    np.testing.assert_array_equal(count, 1)


def test_shapes_of_any_rank():
    for shape in ((), (2,), (2, 0), (2, 3, 4)):
        a = np.full(shape, 3.0, np.float32)
        made = Made(Plus(), [a], [])
        seen = (
            ffi.array_at(made.frame.operands.buffers[0].contents)
            if a.size
            else ffi.described(made.frame.operands.buffers[0].contents)
        )
        assert (seen.shape if a.size else seen[1]) == shape


def test_what_is_raised_is_an_error_of_the_interface():
    function, handle = Plus(), ffi.handler(ffi.run_on_cpu)
    a = np.array([-1.0, 0.0, 0.0])
    made = Made(function, [a, a], [a, a])
    assert handle(c.pointer(made.frame)) == 77
    assert made.errors == [("a must be ≥ 0, got -1.", ffi.INVALID_ARGUMENT)]
    stale = Made(function, [a, a], [a, a], number=1)
    assert handle(c.pointer(stale.frame)) == 77
    assert "in the process that compiled it" in stale.errors[0][0]


@pytest.mark.parametrize("wrong", [{"major": 1}, {"size": 100}, {"stage": 1}])
def test_a_frame_of_another_version_or_stage_is_left_alone(wrong):
    function, handle = Plus(), ffi.handler(ffi.run_on_cpu)
    a, out = np.arange(3.0), np.zeros(3)
    made = Made(function, [a, a], [out, out], **wrong)
    assert handle(c.pointer(made.frame)) is None
    assert function.calls == 0
    assert not made.errors


def test_metadata_tell_the_version_of_the_interface():
    metadata = ffi.Metadata(struct_size=c.sizeof(ffi.Metadata), traits=5)
    extension = ffi.MetadataExtension(ffi.Extension(c.sizeof(ffi.MetadataExtension), ffi.METADATA, None), c.pointer(metadata))
    function = Plus()
    made = Made(function, [], [], extension=extension)
    assert ffi.handler(ffi.run_on_cpu)(c.pointer(made.frame)) is None
    assert (metadata.version.major, metadata.version.minor, metadata.traits, function.calls) == (0, 9, 0, 0)


def test_structs_have_the_sizes_of_the_header():
    """As far as the header that comes with JAX can be read without a compiler: names in the order in which they stand."""
    text = (Path(jax.ffi.include_dir()) / "xla/ffi/api/c_api.h").read_text(encoding="utf-8")
    version = [int(text.split(f"#define XLA_FFI_API_{part} ")[1].split()[0]) for part in ("MAJOR", "MINOR")]
    assert version[0] == ffi.MAJOR
    frame = text.split("struct XLA_FFI_CallFrame {")[1].split("};")[0]
    order = ["struct_size", "extension_start", "api;", "ctx;", "stage;", "args;", "rets;", "attrs;"]
    assert [frame.index(name) for name in order] == sorted(frame.index(name) for name in order)
    api = text.split("struct XLA_FFI_Api {")[1].split("};")[0]
    order = ["api_version", "internal_api", "Error_Create", "Error_GetMessage", "Error_Destroy", "Handler_Register", "Stream_Get"]
    assert [api.index(name) for name in order] == sorted(api.index(name) for name in order)
    assert api.count("_XLA_FFI_API_STRUCT_FIELD", 0, api.index("XLA_FFI_Stream_Get")) == 5


def test_where_a_handler_does_not_work_the_callback_does(monkeypatch):
    """Another version of the interface: the known result does not come."""
    monkeypatch.setattr(ffi, "MAJOR", 99)
    monkeypatch.setattr(ffi, "TARGET", "movegrad_of_another_version")
    monkeypatch.setattr(ffi, "_known", {})
    assert not ffi.works("cpu")
    assert not ffi.in_use()
    layer = mg.jax.LocalSearchLayer(TOP, steps=3)
    np.testing.assert_array_equal(jax.jit(layer)(jnp.zeros(8), KEY), layer(jnp.zeros(8), KEY))


# --- what lives how long -------------------------------------------------------------------------------------------------


def test_an_executable_holds_what_it_calls_and_lets_it_go(monkeypatch):
    monkeypatch.setenv(ffi.SWITCH, "cpu")
    held = []

    def layer(theta):
        problem = TopK(8, k=2)
        held.append(weakref.ref(problem))
        return mg.jax.LocalSearchLayer(problem, steps=3)(theta, KEY)

    run = jax.jit(layer).lower(jnp.zeros(8)).compile()
    first = run(jnp.zeros(8))
    jax.clear_caches()
    gc.collect()
    np.testing.assert_array_equal(run(jnp.zeros(8)), first)  # the layer is gone, its call is not
    assert [there() is not None for there in held] == [True]
    del run, first
    gc.collect()
    assert held[0]() is None


# --- shards --------------------------------------------------------------------------------------------------------------

SHARDS = """
import sys
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, PartitionSpec as P
import movegrad as mg

assert len(jax.devices()) == 4
shard_map = getattr(jax, "shard_map", None)
if shard_map is None:
    from jax.experimental.shard_map import shard_map
key = jax.random.key(3)
layer = mg.jax.LocalSearchLayer(mg.problems.TopK(8, 3), steps=20, chains=2)
loss = mg.jax.FenchelYoungLoss(layer, reduction="none")
theta = jnp.asarray(np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32))
y = jnp.asarray(np.array([mg.problems.TopK(8, 3).solution] * 8))
whole = layer(theta, key)
row = Mesh(np.array(jax.devices()), ("data",))
square = Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"))
spec, none = P("data"), P()

for checked in ({}, {"check_vma": False}):
    sharded = jax.jit(shard_map(layer, mesh=row, in_specs=(spec, none), out_specs=spec, **checked))
    np.testing.assert_array_equal(sharded(theta, key), whole)
    same = jnp.broadcast_to(theta[0], theta.shape)
    assert len(np.unique(np.asarray(sharded(same, key)), axis=0)) == 8, "draws differ"

    # Numbers of one's own, in any order.
    numbers = jnp.array([5, 2, 7, 0, 1, 6, 3, 4])
    f = lambda t, i: layer(t, key, index=i)
    indexed = jax.jit(shard_map(f, mesh=row, in_specs=(spec, spec), out_specs=spec, **checked))
    np.testing.assert_array_equal(indexed(theta, numbers), f(theta, numbers))

    # Gradients of layer and loss.
    g = lambda t, i: jax.grad(lambda t: (layer(t, key, index=i) ** 2).sum())(t)
    graded = jax.jit(shard_map(g, mesh=row, in_specs=(spec, spec), out_specs=spec, **checked))
    np.testing.assert_array_equal(graded(theta, numbers), g(theta, numbers))
    h = lambda t, y: jax.grad(lambda t: loss(t, y, key).sum())(t)
    graded = jax.jit(shard_map(h, mesh=row, in_specs=(spec, spec), out_specs=spec, **checked))
    np.testing.assert_array_equal(graded(theta, y), h(theta, y))

# Along the axes over which arguments vary; what does not vary stays so.
sharded = jax.jit(shard_map(layer, mesh=square, in_specs=(spec, none), out_specs=spec))
np.testing.assert_array_equal(sharded(theta, key), whole)
same = jax.jit(shard_map(layer, mesh=square, in_specs=(none, none), out_specs=none))
np.testing.assert_array_equal(same(theta, key), whole)

# One theta on all shards, numbers of their own: its gradient is the sum.
one = lambda t, i: jax.grad(lambda t: (layer(jnp.broadcast_to(t, (2, 8)), key, index=i) ** 2).sum())(t)
summed = jax.jit(shard_map(one, mesh=row, in_specs=(none, spec), out_specs=none))
apart = sum(one(theta[0], jnp.arange(2 * s, 2 * s + 2)) for s in range(4))
np.testing.assert_allclose(summed(theta[0], jnp.arange(8)), apart, rtol=1e-5)

# Without shard_map, on sharded arrays.
placed = jax.device_put(theta, jax.sharding.NamedSharding(row, spec))
np.testing.assert_array_equal(jax.jit(layer)(placed, key), whole)

# On a mesh with explicit axes, where shards are part of the type of an array.
if hasattr(jax, "set_mesh") and hasattr(jax.sharding, "AxisType"):
    one_step = mg.jax.OneStepLoss(mg.problems.TopK(8, 3))
    explicit = jax.make_mesh((2, 2), ("data", "model"), axis_types=(jax.sharding.AxisType.Explicit, jax.sharding.AxisType.Auto))
    for f in (lambda t, y: (layer(t, key) ** 2).sum(), lambda t, y: loss(t, y, key).sum(), one_step):
        wanted = jax.grad(f)(theta, y)
        with jax.set_mesh(explicit):
            shards = [jax.device_put(a, jax.sharding.NamedSharding(explicit, spec)) for a in (theta, y)]
            for g in (jax.grad(f), jax.jit(jax.grad(f))):
                np.testing.assert_allclose(g(*shards), wanted, rtol=1e-6)
print("done", mg._jax_ffi.in_use())
"""


@pytest.mark.parametrize("switch", ["cpu", ""])
def test_shards_have_the_numbers_of_the_whole(switch):
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu", ffi.SWITCH: switch}
    found = subprocess.run([sys.executable, "-c", SHARDS], env=os.environ | flags, capture_output=True, text=True, timeout=600)
    assert found.returncode == 0, found.stderr[-3000:]
    assert found.stdout.split() == ["done", str(switch == "cpu")]


# --- on a GPU ------------------------------------------------------------------------------------------------------------


def test_a_buffer_on_a_gpu_is_described_as_libraries_exchange_them():
    from movegrad._jax_gpu import Memory

    for dtype, seen in ((np.float32, "<f4"), (np.uint32, "<i4"), (np.uint8, "|u1"), (np.bool_, "|b1"), (jnp.bfloat16, "<i2")):
        array = np.zeros((2, 3), dtype)
        buffer = Made(Plus(), [array], []).frame.operands.buffers[0].contents
        interface = Memory(buffer).__cuda_array_interface__
        assert interface["data"] == (array.ctypes.data, False)
        assert (interface["shape"], interface["typestr"], interface["strides"]) == ((2, 3), seen, None)


def test_the_stream_is_that_of_the_frame():
    made = Made(Plus(), [], [])

    @dict(ffi.Api._fields_)["stream"]
    def stream(pointer):
        arguments = pointer.contents
        assert arguments.struct_size == c.sizeof(ffi.StreamArguments)
        if arguments.context != 12:
            return 1
        arguments.stream = 34
        return None

    made.api.stream = stream
    made.frame.context = 12
    assert ffi.stream_of(made.frame) == 34
    made.frame.context = 13
    with pytest.raises(RuntimeError, match="XLA must have a stream"):
        ffi.stream_of(made.frame)


@pytest.mark.skipif(jax.default_backend() != "gpu", reason="needs JAX with a GPU")
def test_compiled_calls_on_a_gpu_agree_with_torch():
    torch = pytest.importorskip("torch")
    if not ffi.in_use():
        pytest.skip(f"needs custom calls on the GPU: {ffi.why_not}")
    theta, v = scores(5, 8), scores(5, 8, seed=1)
    layer, key = mg.jax.LocalSearchLayer(TOP, steps=100, chains=3), jax.random.key(3)
    mean, ends = jax.jit(lambda t: layer(t, key, ends=True))(theta)
    leaf = torch.from_numpy(theta).cuda().requires_grad_()
    other = mg.torch.LocalSearchLayer(TOP, steps=100, chains=3, seed=3)
    expected = other(leaf)
    (product,) = torch.autograd.grad(expected, leaf, torch.from_numpy(v).cuda())
    np.testing.assert_array_equal(mean, expected.detach().cpu().numpy())
    np.testing.assert_array_equal(ends, mg.sample(TOP, leaf.detach(), steps=100, chains=3, seed=3).solutions.cpu().numpy())
    pulled = jax.jit(lambda t: jax.vjp(lambda t: layer(t, key), t)[1](v)[0])(theta)
    np.testing.assert_allclose(pulled, product.cpu().numpy(), rtol=1e-6, atol=1e-7)
    with pytest.raises(Exception, match="theta must be finite, got nan"):
        jax.jit(layer)(jnp.full(8, jnp.nan), key).block_until_ready()
