"""Any layout of memory gives the same values, no input is ever written, and neither blocks nor threads change a bit."""

import os
import subprocess
import sys

import numpy as np
import pytest

import windowgrad as wg
from support.exact import DTYPES, same_bits
from support.strategies import ORDINARY
from windowgrad.geometry import Adaptive, Global, Sliding
from windowgrad.kernels.conv import plan as conv_plan
from windowgrad.ops import OPS
from windowgrad.params import MaxParams, MeanParams

every_op = pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)


def inputs(op, dtype=np.float32, seed=0):
    """(params, primals, tangents, gradient) of ordinary numbers, with ties among them."""
    rng = np.random.default_rng(seed)
    params, shapes = ORDINARY[op.name]

    def draw(shape):
        return (rng.integers(0 if np.dtype(dtype).kind == "u" else -8, 8, shape) / 4).astype(dtype)

    def primal(name, shape):
        if name in op.facts.indices:
            return rng.integers(-1, 8, shape)
        return rng.integers(1, 4, shape).astype(np.promote_types(dtype, np.int8)) if name == "beta" else draw(shape)

    xs = [primal(name, shape) for name, shape in zip(op.inputs, shapes, strict=False)]
    return params, xs, [draw(shape) for shape in shapes], draw(params.out_shape(*shapes))


def results(op, params, xs, dxs, g):
    """Everything an operator computes."""
    indices = op.with_indices(params, *xs) if op.with_indices else ()
    return [op.forward(params, *xs), op.jvp(params, *xs, *dxs), *op.vjp(params, *xs, g), *indices]


def read_only(a):
    a = a.copy()
    a.flags.writeable = False
    return a


def sliced(a):
    """Every second cell of a larger array with other numbers between them."""
    larger = np.full([2 * n for n in a.shape], 99, dtype=a.dtype)
    larger[tuple(slice(0, None, 2) for _ in a.shape)] = a
    return larger[tuple(slice(0, None, 2) for _ in a.shape)]


def unaligned(a):
    """At an odd address."""
    raw = np.zeros(a.nbytes + 1, dtype=np.uint8)
    view = raw[1:].view(a.dtype).reshape(a.shape)
    view[...] = a
    return view


LAYOUTS = {
    "negative strides": lambda a: np.flip(np.ascontiguousarray(np.flip(a))),
    "Fortran order": np.asfortranarray,
    "channels last": lambda a: np.moveaxis(
        np.ascontiguousarray(np.moveaxis(a, min(1, a.ndim - 1), -1)), -1, min(1, a.ndim - 1)
    ),
    "read-only": read_only,
    "byte-swapped": lambda a: a.astype(a.dtype.newbyteorder()),
    "sliced": sliced,
    "unaligned": unaligned,
}


@every_op
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_any_layout_gives_the_same_values(op, layout, dtype):
    params, xs, dxs, g = inputs(op, dtype)
    laid = [LAYOUTS[layout](a) for a in (*xs, *dxs, g)]
    changed = laid[: len(xs)], laid[len(xs) : -1], laid[-1]
    found, expected = results(op, params, *changed), results(op, params, xs, dxs, g)
    assert all(same_bits(one, other) for one, other in zip(found, expected, strict=True))


@every_op
def test_a_broadcast_array_gives_the_same_values(op):
    """A stride of 0 on every axis: all cells are one cell."""
    params, xs, dxs, g = inputs(op)
    wide = [np.broadcast_to(a.ravel()[0], a.shape) for a in (*xs, *dxs, g)]
    dense = [a.copy() for a in wide]
    found, expected = (results(op, params, r[: len(xs)], r[len(xs) : -1], r[-1]) for r in (wide, dense))
    assert all(same_bits(one, other) for one, other in zip(found, expected, strict=True))


@every_op
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
def test_inputs_are_never_written_and_results_are_new(op, dtype):
    params, xs, dxs, g = inputs(op, dtype)
    given = [*xs, *dxs, g]
    before = [a.tobytes() for a in given]
    found = results(op, params, xs, dxs, g)
    assert [a.tobytes() for a in given] == before
    assert not any(np.shares_memory(one, other) for one in found for other in given)
    for one in found:
        one[...] = 1  # a result is its owner's to write
    assert [a.tobytes() for a in given] == before


@pytest.mark.parametrize("op", [OPS["conv"], OPS["conv_transpose"]], ids=lambda op: op.name)
@pytest.mark.parametrize("room", [1, 7, 64])
def test_the_size_of_a_block_changes_nothing(op, room, monkeypatch):
    """Few products, pixels and weights at a time, so that every convolution needs several blocks."""
    params, xs, dxs, g = inputs(op)
    expected = results(op, params, xs, dxs, g)
    for limit in ("STEPS", "PIXELS", "PANELS", "WEIGHTS"):
        monkeypatch.setattr(conv_plan, limit, room)
    found = results(op, params, xs, dxs, g)
    assert all(same_bits(one, other) for one, other in zip(found, expected, strict=True))


DIGEST = """
import hashlib
import numpy as np
import windowgrad as wg
from windowgrad.geometry import Adaptive, Global, Sliding
from windowgrad.ops import OPS
from windowgrad.params import MaxParams, MeanParams
from windowgrad.params import ConvParams
from windowgrad.geometry import Sliding

rng = np.random.default_rng(0)
x, w, b = (rng.standard_normal(s).astype(np.float32) for s in ((2, 32, 40, 40), (64, 32, 3, 3), (64,)))
params = ConvParams(Sliding((3, 3), 1, 1))
g = rng.standard_normal((2, 64, 40, 40)).astype(np.float32)
results = [wg.conv2d(x, w, b, padding=1), *OPS["conv"].vjp(params, x, w, b, g), wg.conv_transpose2d(g, w, padding=1)]
results += [wg.avg_pool2d(x, 3, 2, 1), wg.max_pool2d(x, 3, 2, 1), wg.smooth_max_pool2d(x, 3, 2, 1, beta=2)]
results += [wg.global_avg_pool2d(x)]
print(*(hashlib.sha256(result.tobytes()).hexdigest() for result in results))
"""


def digest(threads):
    """The bits of large convolutions and pools, computed by a process that has this many threads."""
    number = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), threads)
    command = [sys.executable, "-c", DIGEST]
    return subprocess.run(command, env={**os.environ, **number}, capture_output=True, text=True, check=True).stdout


def test_the_number_of_threads_changes_no_bit():
    one, two = digest("1"), digest("2")
    assert len(one.split()) == 9
    assert one == two


def test_a_window_with_more_rows_than_memory_can_list_is_refused():
    x = np.broadcast_to(np.float32(0), (4096, 4096, 8))
    with pytest.raises(wg.WindowError, match=r"the list of rows \(outputs, rows of a window\) of shape \(\d+, \d+\): needs"):
        wg.smooth_max_pool3d(x, (2048, 2048, 4), 1, beta=1)


@pytest.mark.parametrize("channels", [2, 8, 21])
@pytest.mark.parametrize(
    "geometry",
    [
        Sliding((3, 3), 2, 1),
        Sliding((3, 3), 1, 1),
        Sliding((12, 9), 1, 4),
        Sliding((3, 2), (1, 3), 1, (2, 1)),
        Sliding((3, 3), (2, 1), ((4, 0), (1, 5)), 1, True),
        Sliding((3,), 1, 1),
        Sliding((2, 2, 2), 2),
        Adaptive((3, 4)),
        Global(2, keepdims=False),
    ],
    ids=repr,
)
@pytest.mark.parametrize("record", [MaxParams, MeanParams], ids=lambda record: record.__name__)
def test_channels_last_are_pooled_where_they_stand(record, geometry, channels):
    """The same bits as channels first, and the result stands channels last as well."""
    op, params = OPS["max_pool" if record is MaxParams else "avg_pool"], record(geometry)
    rng = np.random.default_rng(0)
    first = rng.integers(-9, 9, (2, channels, *(13, 11, 5)[: geometry.rank])).astype(np.float32)
    first[first == 1], first[0, 0, 3], first[1, 1, 7] = -0.0, np.nan, np.inf
    last = np.moveaxis(np.ascontiguousarray(np.moveaxis(first, 1, -1)), -1, 1)
    with np.errstate(invalid="ignore"):
        y, expected = op.forward(params, last), op.forward(params, first)
        assert same_bits(y, expected)
        assert np.moveaxis(y, 1, -1).flags.c_contiguous
        g = rng.integers(-9, 9, expected.shape).astype(np.float32) * 720720  # what divisors up to 16 divide
        gx = op.vjp(params, last, np.moveaxis(np.ascontiguousarray(np.moveaxis(g, 1, -1)), -1, 1))[0]
        assert np.array_equal(gx, op.vjp(params, first, g)[0])
