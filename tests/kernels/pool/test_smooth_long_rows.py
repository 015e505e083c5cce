"""Smooth maxima along a long row of windows side by side: the row is cut between windows, whatever its layout."""

import numpy as np
import pytest

import windowgrad as wg
from support.exact import same_bits
from windowgrad import dispatch
from windowgrad.dispatch import run, run_saving
from windowgrad.geometry import Adaptive, Sliding
from windowgrad.kernels.pool import blocks
from windowgrad.kernels.pool.smooth.entry import saved_kind
from windowgrad.kernels.pool.smooth.long_rows import PART, is_tiled
from windowgrad.ops import OPS
from windowgrad.params import SmoothParams

SMOOTH = OPS["smooth_max_pool"]
LONG = 2 * blocks.TABLES + 2


def numbers(shape: tuple[int, ...], seed: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def all_rules(params: SmoothParams, x: np.ndarray, g: np.ndarray) -> list[np.ndarray]:
    """The maximum, its tangent, and its gradient with and without what was saved."""
    y, saved = run_saving(SMOOTH, params, x)
    pulled = [run(SMOOTH, "vjp", params, x, g, saved=kept)[0] for kept in (None, saved)]
    return [run(SMOOTH, "forward", params, x), y, run(SMOOTH, "jvp", params, x, x), *pulled]


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize(("n", "k"), [(LONG, 2), (LONG + 1, 2), (3 * LONG + 2, 3), (128 * PART, 4), (65 * PART + 1, 2)])
def test_parts_of_a_row_are_planes(n, k, ceil_mode):
    """Whole parts have the bits that they have as planes; cells and outputs behind the last are those of a row of their own."""
    params = SmoothParams(Sliding((k,), k, ceil_mode=ceil_mode), 0.7)
    outputs = PART // k
    parts = (n - k) // (outputs * k) if n % (outputs * k) else n // (outputs * k)
    end = parts * outputs * k
    x, g = numbers((2, n), 1), numbers(params.geometry.out_shape((2, n)), 2)
    middle = all_rules(params, x[:, :end].reshape(2, parts, -1), g[:, : parts * outputs].reshape(2, parts, -1))
    has_more = g.shape[1] > parts * outputs
    rest = all_rules(params, x[:, end:], g[:, parts * outputs :]) if has_more else [np.empty((2, 0), np.float32)] * 5
    for found, some, more in zip(all_rules(params, x, g), middle, rest, strict=True):
        whole = np.concatenate([some.reshape(2, -1), more], axis=-1)
        assert same_bits(found[:, : whole.shape[1]], whole)
        assert (found[:, whole.shape[1] :] == 0).all()


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_no_layout_and_no_thread_changes_a_bit(dtype):
    params = SmoothParams(Sliding((2,), 2), 0.7)
    x, g = numbers((2, LONG + 1), 1, dtype), numbers((2, LONG // 2), 2, dtype)
    x[0, 5], x[1, 70_000] = np.inf, np.nan
    with np.errstate(invalid="ignore"):
        expected = all_rules(params, x, g)
        others = [(np.repeat(x, 2, axis=1)[:, ::2], g), (np.asfortranarray(x), np.asfortranarray(g))]
        for threads, (cells, gradient) in ((2, others[0]), (2, others[1]), (1, (x, g))):
            wg.set_num_threads(threads)
            assert all(map(same_bits, all_rules(params, cells, gradient), expected))


@pytest.mark.parametrize("outputs", [3, 40])
def test_parts_are_never_long_themselves(monkeypatch, outputs):
    """However short a row is long: the fuzzer makes it so."""
    params = SmoothParams(Sliding((3,), 3, ceil_mode=True), 0.7)
    x, g = numbers((2, 2344), 1), numbers((2, 782), 2)
    expected = all_rules(params, x, g)
    monkeypatch.setattr(blocks, "TABLES", outputs)
    monkeypatch.setattr(dispatch, "READY", False)
    saved_kind.cache_clear()
    for found, whole in zip(all_rules(params, x, g), expected, strict=True):
        np.testing.assert_allclose(found, whole, rtol=1e-5, atol=1e-6)
    saved_kind.cache_clear()


def test_only_long_rows_of_windows_side_by_side_are_cut_so():
    assert is_tiled(Sliding((2,), 2), (3, LONG))
    assert not is_tiled(Sliding((2,), 2), (3, LONG - 2))
    overlapping, apart, dilated = Sliding((3,), 2), Sliding((2,), 3), Sliding((2,), 2, 0, 2)
    padded = Sliding((2,), 2, ((0, 1),)), Sliding((2,), 2, 1)
    for geometry in (overlapping, apart, dilated, *padded, Adaptive((LONG,)), Sliding((1, 2), (1, 2))):
        assert not is_tiled(geometry, (3, 2 * LONG))
