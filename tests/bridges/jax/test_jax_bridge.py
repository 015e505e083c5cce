"""JAX arrays give what NumPy arrays give, in eager calls and in compiled ones."""

import subprocess
import sys
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import windowgrad as wg
from support.jax_cases import CASES, NAMED, Case
from windowgrad.bridges.jax import compute, host
from windowgrad.foreign import BRIDGES
from windowgrad.ops import OPS
from windowgrad.params import ConvParams, MaxParams, MeanParams, MinParams

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def same(got: object, right: np.ndarray) -> bool:
    """A jax.Array of the same dtype, shape and bits."""
    return isinstance(got, jax.Array) and got.dtype == right.dtype and np.asarray(got).tobytes() == right.tobytes()


@each_case
def test_an_eager_call_gives_the_bits_of_the_numpy_call(case: Case) -> None:
    arrays = case.arrays()
    assert same(case.call(*map(jnp.asarray, arrays)), case.call(*arrays))


@each_case
def test_a_compiled_call_gives_the_bits_of_the_numpy_call(case: Case) -> None:
    arrays = case.arrays()
    assert same(jax.jit(case.call)(*map(jnp.asarray, arrays)), case.call(*arrays))


def test_random_floats_give_the_bits_of_the_numpy_call_too() -> None:
    rng = np.random.default_rng(0)
    for name in ("avg_pool2d", "smooth_max_pool2d", "conv2d", "conv_transpose2d"):
        arrays = [rng.standard_normal(shape).astype(np.float32) for shape in NAMED[name].shapes]
        right = NAMED[name].call(*arrays)
        assert same(NAMED[name].call(*map(jnp.asarray, arrays)), right)
        assert same(jax.jit(NAMED[name].call)(*map(jnp.asarray, arrays)), right)


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
def test_indices_are_int32_without_x64_and_int64_with_it(jit: bool) -> None:
    x = NAMED["max_pool2d"].arrays()[0]
    values, indices = wg.max_pool2d(x, 3, 2, 1, return_indices=True)
    for x64, dtype in ((False, np.int32), (True, np.int64)):
        with jax.enable_x64(x64):
            f = lambda x: wg.max_pool2d(x, 3, 2, 1, return_indices=True)  # noqa: E731
            y, found = (jax.jit(f) if jit else f)(jnp.asarray(x))
            assert same(y, values)
            assert same(found, indices.astype(dtype))


@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.int64], ids=str)
def test_with_x64_on_64_bits_stay(dtype: type) -> None:
    for name in ("max_pool2d", "avg_pool2d", "conv2d", "pad"):
        arrays = NAMED[name].arrays(dtype)
        with jax.enable_x64(True):
            given = list(map(jnp.asarray, arrays))
            assert same(NAMED[name].call(*given), NAMED[name].call(*arrays))
            assert same(jax.jit(NAMED[name].call)(*given), NAMED[name].call(*arrays))


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int8, np.int16, np.int32, np.float16, jnp.bfloat16], ids=str)
def test_without_x64_a_64_bit_result_is_the_nearest_of_32_bits(dtype: type) -> None:
    """Which happens to the mean of 32-bit integers, and to convolutions of integers of more than 8 bits."""
    for name in ("max_pool2d", "avg_pool2d", "smooth_max_pool1d", "conv2d", "unpad"):
        arrays = NAMED[name].arrays(dtype)
        right = NAMED[name].call(*arrays)
        right = right.astype({"float64": np.float32, "int64": np.int32}.get(right.dtype.name, right.dtype))
        given = [jnp.asarray(a) for a in arrays]
        assert same(NAMED[name].call(*given), right)
        assert same(jax.jit(NAMED[name].call)(*given), right)


def test_an_integer_that_does_not_fit_32_bits_is_refused() -> None:
    x, w = jnp.full((1, 4), 2**20, jnp.int32), jnp.full((1, 1, 2), 2**20, jnp.int32)
    with pytest.raises(wg.WindowError, match="does not fit into int32"):
        wg.conv1d(x, w)
    with pytest.raises(jax.errors.JaxRuntimeError, match="does not fit into int32"):
        jax.jit(wg.conv1d)(x, w).block_until_ready()


def test_numbers_below_the_normal_range_are_not_flushed_by_a_compiled_program() -> None:
    x = np.array([1e-40, 3e-40, 5e-40, 7e-40], np.float32)
    assert np.all(np.asarray(jax.jit(lambda a: a * 2)(x)) == 0)  # as JAX itself does it
    assert same(jax.jit(lambda a: wg.avg_pool1d(a, 2))(jnp.asarray(x)), wg.avg_pool1d(x, 2))
    assert np.all(np.asarray(jax.jit(lambda a: a * 2)(x)) == 0)  # and goes on to, after us


def test_not_a_number_is_the_greatest_in_a_compiled_program_too() -> None:
    x = np.array([1, np.nan, np.inf, 0, -0.0, -np.inf], np.float32)
    assert same(jax.jit(lambda a: wg.max_pool1d(a, 2))(jnp.asarray(x)), wg.max_pool1d(x, 2))


def test_an_empty_batch_is_an_empty_batch() -> None:
    x = jnp.zeros((0, 3, 4, 4))
    assert wg.max_pool2d(x, 2).shape == jax.jit(lambda a: wg.max_pool2d(a, 2))(x).shape == (0, 3, 2, 2)


def test_numpy_arrays_beside_jax_arrays_are_constants() -> None:
    x, w, b = NAMED["conv2d"].arrays()
    right = NAMED["conv2d"].call(x, w, b)
    swapped = w.astype(">f4")
    assert same(NAMED["conv2d"].call(jnp.asarray(x), w, b), right)
    assert same(NAMED["conv2d"].call(x, jnp.asarray(w), b), right)
    assert same(jax.jit(lambda a: NAMED["conv2d"].call(a, swapped, b))(x), right)


def test_the_rules_of_the_table_take_jax_arrays() -> None:
    x, w, b = NAMED["conv2d"].arrays()
    dx, dw, db = NAMED["conv2d"].arrays(seed=1)
    record = wg.geometry.Sliding((3, 2), 2, 1)
    for op, params, inputs, tangents in (
        ("conv", ConvParams(record), (x, w, b), (dx, dw, db)),
        ("conv", ConvParams(record), (x, w), (dx, dw)),
        ("max_pool", MaxParams(record, "all"), (x,), (dx,)),
        ("min_pool", MinParams(record, "split"), (x,), (dx,)),
        ("avg_pool", MeanParams(record), (x,), (dx,)),
    ):
        y = OPS[op].jvp(params, *inputs, *tangents)
        assert same(OPS[op].jvp(params, *map(jnp.asarray, (*inputs, *tangents))), y)
        pulled, right = OPS[op].vjp(params, *map(jnp.asarray, (*inputs, y))), OPS[op].vjp(params, *inputs, y)
        assert all(map(same, pulled, right))


def test_a_derivative_beside_integers_has_the_dtype_of_the_tangent() -> None:
    params, x = MeanParams(wg.geometry.Sliding((2,))), np.arange(6, dtype=np.int8)
    dx = np.arange(6, dtype=np.float32)
    assert same(OPS["avg_pool"].jvp(params, jnp.asarray(x), jnp.asarray(dx)), OPS["avg_pool"].jvp(params, x, dx))
    (right,) = OPS["avg_pool"].vjp(params, x, dx[:3])
    assert same(OPS["avg_pool"].vjp(params, jnp.asarray(x), jnp.asarray(dx[:3]))[0], right)


def test_beta_may_be_any_real_number() -> None:
    x = NAMED["smooth_max_pool1d"].arrays()[0]
    right = wg.smooth_max_pool1d(x, 3, beta=0.5)
    for beta in (Fraction(1, 2), np.float64(0.5)):
        assert same(jax.jit(lambda a, beta=beta: wg.smooth_max_pool1d(a, 3, beta=beta))(jnp.asarray(x)), right)


# --- memory ------------------------------------------------------------------------------------------------------

LARGE = 1 << 18  # cells of float32: a mebibyte, from which on results begin at a cache line


@pytest.fixture
def computed(monkeypatch) -> list[tuple]:
    """What was computed: the arrays of NumPy, where to, and the results."""
    calls, compute = [], host.computed

    def spy(op, rule, arrays, params, out=None, **static):
        results = compute(op, rule, arrays, params, out=out, **static)
        calls.append((arrays, out, results))
        return results

    monkeypatch.setattr(host, "computed", spy)
    return calls


def test_eager_calls_share_memory_with_numpy_both_ways(computed) -> None:
    x = jnp.arange(LARGE, dtype=jnp.float32)
    y = wg.max_pool1d(x, 1)
    ((arrays, _, results),) = computed
    assert arrays[0].ctypes.data == x.unsafe_buffer_pointer()
    assert results[0].ctypes.data == y.unsafe_buffer_pointer()


def test_pooling_in_a_compiled_program_writes_where_the_program_reads(computed) -> None:
    x = jnp.arange(8, dtype=jnp.float32)
    jax.jit(lambda x: wg.max_pool1d(x, 2))(x).block_until_ready()
    jax.jit(lambda x: wg.max_pool1d(x, 2, return_indices=True))(x)[0].block_until_ready()
    (_, room, (y,)), (_, (values, indices), (z, _)) = computed
    assert y is room
    assert z is values
    assert indices is None  # the program has 32 bits for them


def test_memory_that_jax_took_over_is_not_used_again_while_it_holds_it() -> None:
    ones, twos = (jnp.full(LARGE, value, jnp.float32) for value in (1, 2))
    y = wg.max_pool1d(ones, 1)
    pushed = jax.jit(lambda a: a + 0, donate_argnums=0)(wg.max_pool1d(ones, 1))
    for _ in range(3):
        wg.max_pool1d(twos, 1)
        wg.max_pool1d(np.asarray(twos), 1)
    assert np.all(np.asarray(y) == 1)
    assert np.all(np.asarray(pushed) == 1)


# --- refusals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: wg.max_pool1d(jnp.zeros(3), 4), wg.WindowError, r"covers 4 cells.*\[max_pool1d\(x: float32\(3,\)"),
        (lambda: jax.jit(lambda x: wg.max_pool1d(x, 4))(jnp.zeros(3)), wg.WindowError, r"covers 4 cells.*\[max_pool1d\(x:"),
        (lambda: wg.max_pool1d(jnp.zeros(4), 2, padding=3, empty="raise"), wg.WindowError, "covers no cell"),
        (lambda: wg.avg_pool1d(jnp.zeros(4, jnp.complex64), 2), wg.KindError, "unsupported dtype complex64"),
        (lambda: wg.avg_pool1d(jax.random.split(jax.random.key(0)), 2), wg.KindError, "x: unsupported dtype key"),
        (lambda: wg.conv1d(jnp.zeros((1, 4)), jnp.zeros((1, 1, 2)), [1.0]), wg.KindError, "bias: must be a JAX or NumPy array"),
        (
            lambda: wg.conv1d(jnp.zeros((1, 4)), np.full((1, 1, 2), Fraction(1))),
            wg.KindError,
            "weight: unsupported dtype object",
        ),
        (lambda: wg.conv1d(jnp.zeros((1, 4)), np.ma.zeros((1, 1, 2))), wg.KindError, "weight: must not be a masked array"),
        (lambda: wg.max_pool1d(jnp.zeros(4), 2, out=np.zeros(2)), wg.KindError, "out: only supported with NumPy arrays"),
        (lambda: wg.smooth_max_pool1d(jnp.zeros(4), 2, beta=Fraction(10**400)), wg.OptionError, "too large for float64"),
    ],
)
def test_what_is_refused_of_numpy_arrays_is_refused_with_the_same_words(call, error, message) -> None:
    with pytest.raises(error, match=message):
        call()


def test_a_program_for_another_platform_is_refused() -> None:
    traced = jax.jit(lambda x: wg.max_pool1d(x, 2)).trace(jnp.zeros(4))
    with pytest.raises(wg.KindError, match="max_pool1d is supported on the CPU only, not on tpu"):
        traced.lower(lowering_platforms=("tpu",))


SEVERAL = """
import jax, jax.numpy as jnp, numpy as np, windowgrad as wg
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()), ("batch",))
host = np.arange(2 * 8, dtype=np.float32).reshape(2, 8) % 5
x, right = jax.device_put(host, NamedSharding(mesh, P("batch"))), wg.max_pool1d(host, 2)
f = lambda x: wg.max_pool1d(x, 2)
try:
    f(x)
except wg.KindError as error:
    print(error)
assert np.array_equal(jax.jit(f)(x), right)
mapped = jax.jit(jax.shard_map(f, mesh=mesh, in_specs=P("batch"), out_specs=P("batch")))(x)
assert np.array_equal(mapped, right) and mapped.sharding == x.sharding
second = jax.device_put(host, jax.devices()[1])
assert f(second).devices() == jax.jit(f)(second).devices() == second.devices()
"""


def test_several_devices_compute_inside_jit_and_are_refused_outside() -> None:
    code = "import os; os.environ['XLA_FLAGS'] = '--xla_force_host_platform_device_count=2'\n" + SEVERAL
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "float32(2, 8) is sharded over 2 devices" in done.stdout


def test_an_operator_without_kernels_is_left_to_others() -> None:
    stranger = type("Stranger", (), {"name": "stranger", "facts": None})()
    assert compute(jnp.zeros(2), stranger, "forward", None, ()) is NotImplemented
    assert BRIDGES["jax"] == BRIDGES["jaxlib"] == compute.__module__
