"""Which cells an output sees: the three geometries, their tables, and all shape arithmetic, at small sizes and absurd ones."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest

import windowgrad as wg
from windowgrad.geometry import Adaptive, Global, Sliding, index_of, named_padding, place_of, resized
from windowgrad.ops import OPS
from windowgrad.params import MaxParams, MeanParams, SmoothParams

GEOMETRIES = [Sliding((2, 3), 1, ((0, 1), 2), 2, (True, False)), Adaptive((2, None)), Global(2, keepdims=False)]


def columns(table):
    """A table as plain numbers: (start, count, step, padded, skip)."""
    return [c if isinstance(c, int) else c.tolist() for c in (table.start, table.count, table.step, table.padded, table.skip)]


# --- records -----------------------------------------------------------------------------------------------------


def test_one_value_stands_for_every_axis():
    geometry = Sliding((2, 3), 4, 1, 2, True)
    assert (geometry.kernel, geometry.stride, geometry.dilation) == ((2, 3), (4, 4), (2, 2))
    assert (geometry.padding, geometry.ceil_mode, geometry.rank) == (((1, 1), (1, 1)), (True, True), 2)


def test_no_stride_is_the_kernel():
    assert Sliding((2, 3)).stride == (2, 3)


def test_a_padding_entry_is_an_integer_or_a_pair():
    assert Sliding((2, 2, 2), padding=(1, (0, 2), [3, 4])).padding == ((1, 1), (0, 2), (3, 4))


def test_any_spelling_of_the_same_windows_is_equal_and_hashes_alike():
    plain = Sliding((2, 2), 2, 1)
    for other in (
        Sliding([2, 2], (2, 2), (1, 1)),
        Sliding(np.array([2, 2]), np.int8(2), ((1, 1), 1)),
        Sliding((2, 2), None, [[1, 1], [1, 1]], (1, 1), (False, np.False_)),
    ):
        assert other == plain
        assert hash(other) == hash(plain)
        assert repr(other) == repr(plain)


def test_different_geometries_are_unequal():
    different = [Sliding((2,)), Sliding((3,)), Sliding((2,), 1), Sliding((2,), padding=1), Sliding((2,), padding=((0, 1),))]
    different += [Sliding((2,), dilation=2), Sliding((2,), ceil_mode=True), Adaptive((2,)), Adaptive((None,)), Global(1)]
    different += [Global(1, keepdims=False), Global(2)]
    assert all((a == b) == (a is b) for a, b in itertools.product(different, repeat=2))


def test_a_geometry_prints_as_the_call_that_makes_it():
    sliding, adaptive, everything = GEOMETRIES
    assert repr(sliding) == (
        "Sliding(kernel=(2, 3), stride=(1, 1), padding=((0, 1), (2, 2)), dilation=(2, 2), ceil_mode=(True, False))"
    )
    assert repr(adaptive) == "Adaptive(output_size=(2, None))"
    assert repr(everything) == "Global(rank=2, keepdims=False)"
    assert all(eval(repr(geometry)) == geometry for geometry in GEOMETRIES)


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=repr)
def test_a_geometry_pickles_copies_and_cannot_be_changed(geometry):
    assert pickle.loads(pickle.dumps(geometry)) == copy.deepcopy(geometry) == geometry
    for field in dataclasses.fields(geometry):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(geometry, field.name, 1)


# --- sizes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lead", [(), (3,), (0, 3), (2, 1, 4)], ids=str)
def test_leading_axes_are_kept(lead):
    assert Sliding((2, 2)).out_shape((*lead, 6, 7)) == (*lead, 3, 3)
    assert Adaptive((2, None)).out_shape((*lead, 6, 7)) == (*lead, 2, 7)
    assert Global(2).out_shape((*lead, 6, 7)) == (*lead, 1, 1)
    assert Global(2, keepdims=False).out_shape((*lead, 6, 7)) == lead


def test_ceil_mode_holds_axis_by_axis():
    assert Sliding((3, 3), 2, ceil_mode=(True, False)).out_shape((6, 6)) == (3, 2)


def test_a_ceil_mode_window_must_start_in_the_input_or_the_padding_before_it():
    assert Sliding((2,), 2, 1, ceil_mode=True).out_shape((3,)) == (2,)  # a third would start at cell 3, past the last
    assert Sliding((2,), 3, 1, ceil_mode=True).out_shape((3,)) == (2,)  # the second starts at cell 2, the last


def test_the_adjoint_size_is_the_smallest_that_convolves_to_it():
    for k, s, p, d, n in itertools.product((1, 2, 3), (1, 2, 3), (0, 1, 2), (1, 2), range(1, 5)):
        window = Sliding((k,), s, p, d)
        if (n - 1) * s + d * (k - 1) + 1 - 2 * p < 1:
            continue
        (size,) = window.adjoint((n,), (0,))
        assert window.out_shape((size,)) == (n,)
        assert size == 1 or d * (k - 1) + 1 > size - 1 + 2 * p or window.out_shape((size - 1,)) == (n - 1,)
        assert window.adjoint((n,), (2,)) == (size + 2,)


def test_same_padding_puts_the_odd_cell_after_and_keeps_the_size():
    assert named_padding("same", (3, 4), 1, 1) == ((1, 1), (1, 2))
    assert named_padding("same", (4, 2), (1, 1), (1, 3)) == ((1, 2), (1, 2))
    for k, d in itertools.product(range(1, 6), range(1, 4)):
        assert wg.conv_out_shape((7,), (k,), padding="same", dilation=d) == (7,)


def test_other_paddings_of_conv_pass_through():
    assert named_padding("valid", (3,), 2, 1) == 0
    assert named_padding(((1, 2),), (3,), 2, 1) == ((1, 2),)


def test_pad_and_unpad_change_the_last_axes():
    assert resized((5, 4, 3), ((1, 2), (0, 3)), 1) == (5, 7, 6)
    assert resized((5, 7, 6), ((1, 2), (0, 3)), -1) == (5, 4, 3)


# --- tables ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("geometry", "n", "start", "count", "step", "padded", "skip"),
    [
        (Sliding((3,), 2, 1), 5, [0, 1, 3], [2, 3, 2], 1, [1, 0, 1], [1, 0, 0]),  # padded
        (Sliding((3,), 2, ((0, 2),)), 5, [0, 2, 4], [3, 3, 1], 1, [0, 0, 2], [0, 0, 0]),  # padded after only
        (Sliding((3,), 1, 0, 2), 6, [0, 1], [3, 3], 2, [0, 0], [0, 0]),  # dilated
        (Sliding((3,), 1, 3, 2), 2, [1, 0, 1, 0], [1, 1, 1, 1], 2, [2, 2, 2, 2], [2, 1, 1, 0]),  # dilated and padded
        (Sliding((3,), 2, 0, 1, True), 6, [0, 2, 4], [3, 3, 2], 1, [0, 0, 0], [0, 0, 0]),  # overhang
        (Sliding((3,), 3, 1, 1, True), 6, [0, 2, 5], [2, 3, 1], 1, [1, 0, 1], [1, 0, 0]),  # padding and overhang
        (Sliding((2,), 2, 2), 2, [0, 0, 0], [0, 2, 0], 1, [2, 0, 2], [2, 0, 0]),  # windows of padding alone
        (Sliding((2,), 1, 1, 2), 1, [0], [0], 2, [2], [1]),  # empty by dilation
        (Adaptive((3,)), 5, [0, 1, 3], [2, 3, 2], 1, [0, 0, 0], [0, 0, 0]),  # bins that overlap
        (Adaptive((4,)), 2, [0, 0, 1, 1], [1, 1, 1, 1], 1, [0] * 4, [0] * 4),  # more bins than cells
        (Adaptive((None,)), 3, [0, 1, 2], [1, 1, 1], 1, [0] * 3, [0] * 3),  # an axis kept
        (Global(1), 4, [0], [4], 1, [0], [0]),  # everything
    ],
)
def test_a_table_has_start_count_step_padded_and_skip(geometry, n, start, count, step, padded, skip):
    assert columns(geometry.table(0, n)) == [start, count, step, padded, skip]


def test_tables_are_what_counting_every_tap_gives():
    """Tap j of window i is cell i·s − lo + j·d: real inside [0, n), padded inside [−lo, n + hi), else overhang."""
    sizes = itertools.product(range(1, 5), (1, 2, 3), (1, 2, 3), (0, 1, 3), (0, 2), (1, 2), (False, True))
    for n, k, s, lo, hi, d, ceil in sizes:
        if n + lo + hi <= d * (k - 1):
            continue
        window = Sliding((k,), s, ((lo, hi),), d, ceil)
        table = window.table(0, n)
        for i in range(*window.out_shape((n,))):
            taps = [i * s - lo + j * d for j in range(k)]
            real = [t for t in taps if 0 <= t < n]
            assert window.taps((i,), (n,)) == [(t,) for t in real]
            assert table.count[i] == len(real)
            assert table.padded[i] == window.padded((i,), (n,)) == sum(-lo <= t < n + hi for t in taps) - len(real)
            assert table.skip[i] == sum(t < 0 for t in taps)


def test_taps_come_in_row_major_order_with_their_place_in_the_kernel():
    window = Sliding((2, 2), 1, ((1, 0), 0), (1, 2))
    assert window.taps((1, 0), (2, 3)) == [(0, 0), (0, 2), (1, 0), (1, 2)]
    assert window.taps((0, 0), (2, 3)) == [(0, 0), (0, 2)]
    assert window.reach((0, 0), (2, 3)) == [((1, 0), (0, 0)), ((1, 1), (0, 2))]
    assert window.padded((0, 0), (2, 3)) == 2


def test_everything_has_one_region_with_and_without_its_axes():
    cells = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert Global(2).taps((0, 0), (2, 3)) == Global(2, keepdims=False).taps((), (2, 3)) == cells


@pytest.mark.parametrize("place", [(4,), (-1,), (0, 0)], ids=str)
def test_an_output_that_is_not_there_is_an_error(place):
    with pytest.raises(wg.WindowgradError):
        Sliding((2,)).taps(place, (8,))


def test_an_axis_with_more_outputs_than_can_be_listed_is_an_error():
    with pytest.raises(wg.WindowgradError):
        Sliding((2,)).taps((0,), (10**30,))


def test_tables_cannot_be_written_for_they_are_shared():
    table = Sliding((3,), 2, 1).table(0, 5)
    assert Sliding((3,), 2, 1).table(0, 5) is table
    for column in (table.start, table.count, table.padded, table.skip):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 1


# --- absurd sizes ------------------------------------------------------------------------------------------------


def test_shapes_of_absurd_sizes_are_exact():
    assert wg.pool_out_shape((10**30,), (3,)) == ((10**30 - 3) // 3 + 1,)
    assert wg.pool_out_shape((10**5000,), (3,), 1, 1) == (10**5000,)
    assert wg.pool_out_shape((10**30 + 1,), (2,), ceil_mode=True) == (5 * 10**29 + 1,)
    assert wg.conv_out_shape((10**30,), (3,), padding="same") == (10**30,)
    assert wg.conv_transpose_out_shape((10**30,), (3,), stride=2, output_padding=1) == (2 * 10**30 + 2,)


def test_beyond_machine_integers_tables_hold_pythons():
    assert Sliding((3,), 2, 1).table(0, 5).start.dtype == np.int64
    table = Sliding((2 * 10**30,), 1, 10**30).table(0, 4)
    assert columns(table) == [[0] * 5, [4] * 5, 1, [2 * 10**30 - 4] * 5, [10**30 - i for i in range(5)]]


X = np.array([[1.0, 2.0, 4.0, 3.0]])
WIDE = Sliding((2 * 10**30,), 10**40, 10**30)


def test_a_kernel_beyond_machine_integers_pools_a_real_array():
    value, index = wg.max_pool1d(X, 2 * 10**30, 10**40, 10**30, return_indices=True)
    assert (value.tolist(), index.tolist()) == ([[4]], [[2]])
    assert wg.avg_pool1d(X, 2 * 10**30, 10**40, 10**30).item() == float(Fraction(10, 2 * 10**30))
    assert wg.avg_pool1d(X, 2 * 10**30, 10**40, 10**30, count_include_pad=False).item() == 2.5
    smooth = wg.smooth_max_pool1d(X, 2 * 10**30, 10**40, 10**30, beta=1.0).item()
    assert smooth == pytest.approx(math.log(2e30), rel=2**-50)  # the four cells are below half an ulp of the sum


def test_a_kernel_beyond_machine_integers_has_derivatives():
    g = np.array([[2e30]])
    assert OPS["max_pool"].vjp(MaxParams(WIDE), X, g)[0].tolist() == [[0, 0, 2e30, 0]]
    assert OPS["avg_pool"].vjp(MeanParams(WIDE), X, g)[0].tolist() == [[1, 1, 1, 1]]
    assert OPS["avg_pool"].jvp(MeanParams(WIDE), X, X * 1e30).tolist() == [[5]]
    (spread,) = OPS["smooth_max_pool"].vjp(SmoothParams(WIDE, 1.0), X, g)
    assert spread.ravel().tolist() == pytest.approx(np.exp(X).ravel().tolist(), rel=2**-48)


def test_windows_whose_cells_no_machine_integer_counts_have_the_right_mean():
    """2⁴⁰ × 2⁴⁰ cells: each axis fits an int64, their product does not."""
    assert wg.avg_pool2d(np.ones((2, 2)), 2**40, padding=2**39).item() == 4 / 2**80
    assert wg.avg_pool2d(np.full((2, 2), Fraction(1)), 2**40, padding=2**39).item() == Fraction(4, 2**80)
    smooth = wg.smooth_max_pool2d(np.ones((2, 2)), 2**40, padding=2**39, beta=1.0).item()
    assert smooth == pytest.approx(80 * math.log(2), rel=2**-50)


def test_a_divisor_beyond_every_float_is_refused_for_floats_and_exact_for_fractions():
    for call in (
        lambda x: wg.avg_pool1d(x, 4, divisor_override=10**5000),
        lambda x: wg.avg_pool1d(x, 10**5000, padding=5 * 10**4999),
    ):
        with pytest.raises(
            wg.WindowgradError, match=r"too (large|many cells) for float64; use x.astype\(object\) to compute exactly"
        ):
            call(X)
        assert call(X.astype(int).astype(object)).tolist() == [[Fraction(10, 10**5000)]]


def test_a_stride_beyond_machine_integers_gives_one_output():
    assert wg.max_pool1d(X, 2, 10**40).tolist() == [[2]]
    assert wg.conv1d(X, np.ones((1, 1, 2)), stride=10**40).tolist() == [[3]]


@pytest.mark.parametrize("shape", [(10_000, 1), (3, 8193, 1), (2, 5000, 2), ()])
def test_places_and_flat_indices_are_inverse_for_arrays_of_any_shape(shape):
    """NumPy's own `unravel_index` is wrong for the first two in 2.3 and 2.4."""
    sides = (5, 1, 7, 11)
    index = np.random.default_rng(0).integers(0, math.prod(sides), shape)
    every = list(np.ndindex(*sides))
    place = place_of(index, sides)
    assert np.array_equal(np.stack(place, -1), np.array(every)[index])
    assert np.array_equal(index_of(place, sides), index)
