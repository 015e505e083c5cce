"""Long rows are taken in sections, many in one call of a kernel. The results are those of the row as a whole, bit for bit."""

import random

import numpy as np
import pytest

import windowgrad as wg
from support.exact import same_bits
from windowgrad.dispatch import run, run_saving
from windowgrad.geometry import Sliding
from windowgrad.kernels.pool import blocks, long_rows
from windowgrad.kernels.pool.max import entry
from windowgrad.kernels.pool.max import long_rows as max_long_rows
from windowgrad.ops import OPS
from windowgrad.params import MaxParams, MeanParams, Params

MAX, MEAN = OPS["max_pool"], OPS["avg_pool"]


def some_windows(seed: int) -> tuple[Sliding, tuple[int, ...]]:
    """Windows along a row, and a shape that has outputs for them."""
    draw = random.Random(seed)
    while True:
        kernel, stride, dilation = draw.choice((1, 2, 3, 5, 20, 300)), draw.choice((1, 2, 3, 7)), draw.choice((1, 1, 1, 2, 5))
        padding = (draw.choice((0, 1, 2, 30)), draw.choice((0, 0, 1, 25)))
        geometry = Sliding((kernel,), (stride,), (padding,), (dilation,), (draw.random() < 0.5,))
        shape = *draw.choice(((), (1,), (2, 3))), draw.choice((97, 500, 1024))
        try:
            if geometry.grid(shape[-1:])[0] > 4:
                return geometry, shape
        except wg.WindowError:
            continue


def numbers(shape: tuple[int, ...], seed: int, dtype: str = "float32") -> np.ndarray:
    """Small whole numbers: every order of summation gives the same sum, and there are ties."""
    return np.random.default_rng(seed).integers(-9, 9, shape).astype(dtype)


def results(geometry: Sliding, shape: tuple[int, ...], dtype: str) -> dict[str, np.ndarray]:
    x, g = numbers(shape, 1, dtype), numbers(geometry.out_shape(shape), 2, dtype)
    params: Params = MaxParams(geometry, "first")
    found = {"max": run(MAX, "forward", params, x), "unsaved": run(MAX, "vjp", params, x, g)[0]}
    y, saved = run_saving(MAX, params, x)
    found |= {"saving": y, "saved": run(MAX, "vjp", params, x, g, saved=saved)[0]}
    for counted in (True, False):
        params = MeanParams(geometry, count_include_pad=counted)
        found |= {f"mean {counted}": run(MEAN, "forward", params, x), f"vjp {counted}": run(MEAN, "vjp", params, x, g)[0]}
    return found


@pytest.fixture
def short_sections(monkeypatch):
    """Every row is long, and its sections are short."""

    def use(outputs: int, cells: int) -> None:
        monkeypatch.setattr(blocks, "TABLES", 4)
        monkeypatch.setattr(long_rows, "OUTPUTS", outputs)
        monkeypatch.setattr(long_rows, "CELLS", cells)
        monkeypatch.setattr(max_long_rows, "SECTION", cells)
        clear()

    def clear() -> None:
        blocks.cut_up.cache_clear()
        entry.saved_kind.cache_clear()

    yield use
    monkeypatch.undo()
    clear()


@pytest.mark.parametrize("seed", range(40))
def test_sections_give_what_the_row_gives(short_sections, seed):
    geometry, shape = some_windows(seed)
    dtype = random.Random(seed).choice(("float32", "float64"))
    expected = results(geometry, shape, dtype)
    short_sections(*random.Random(seed).choice(((8, 16), (16, 64), (33, 100))))
    for name, found in results(geometry, shape, dtype).items():
        assert same_bits(found, expected[name]), (name, geometry, shape)


def test_sections_do_without_python_what_is_alike(short_sections):
    """A row has a few sections of its own at its ends, and one for all between."""
    short_sections(8, 16)
    for sections in (long_rows.for_outputs(Sliding((3,), 2, 1), 1000), long_rows.for_cells(Sliding((3,), 2, 1), 1000, 16)):
        assert len(sections) <= 4
        assert max(section.count for section in sections) > 55


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "float16"])
@pytest.mark.parametrize("layout", ["strided", "reversed", "first"])
def test_no_layout_changes_a_bit(dtype, layout):
    """A row that is no run of memory is taken in blocks, not in sections."""
    n = (1 << 17) + 777
    x = np.random.default_rng(0).standard_normal((2, n)).astype(dtype)
    other = {"strided": np.repeat(x, 2, axis=-1)[:, ::2], "reversed": x[:, ::-1].copy()[:, ::-1], "first": np.asfortranarray(x)}
    for op, params in ((MAX, MaxParams(Sliding((5,), 1, 2), "first")), (MEAN, MeanParams(Sliding((5,), 1, 2)))):
        y, saved = run_saving(op, params, x)
        again, saved_again = run_saving(op, params, other[layout])
        assert same_bits(y, again)
        if np.dtype(dtype).kind == "f":
            g = np.random.default_rng(1).standard_normal(y.shape).astype(dtype)
            (gx,) = run(op, "vjp", params, x, g, saved=saved)
            assert same_bits(gx, run(op, "vjp", params, other[layout], g[:, ::-1].copy()[:, ::-1], saved=saved_again)[0])
            assert same_bits(gx, run(op, "vjp", params, x, g)[0])


def test_threads_change_no_bit():
    x = np.random.default_rng(0).standard_normal((1, 1 << 19)).astype(np.float32)
    g = np.random.default_rng(1).standard_normal((1, 1 << 18)).astype(np.float32)
    found = []
    for threads in (1, 2, 3):
        wg.set_num_threads(threads)
        for op, params in ((MAX, MaxParams(Sliding((4,), 2, 1), "first")), (MEAN, MeanParams(Sliding((4,), 2, 1)))):
            found += [run(op, "forward", params, x), run(op, "vjp", params, x, g)[0]]
    assert all(same_bits(a, b) for a, b in zip(found, found[4:], strict=False))


def test_nan_and_zeros_of_both_signs_are_found_in_every_section():
    x = np.zeros((1 << 17) + 100, np.float32)
    x[::3] = -0.0
    x[50_000] = np.nan
    y, index = wg.max_pool1d(x, 2, 1, return_indices=True)
    assert same_bits(wg.max_pool1d(x, 2, 1), y)
    assert same_bits(run_saving(MAX, MaxParams(Sliding((2,), 1), "first"), x)[0], x[index])


def test_only_long_rows_of_short_windows_are_taken_in_sections():
    outputs, most = blocks.TABLES, long_rows.MOST
    assert not long_rows.is_long(Sliding((2,), 2), (3, 2 * outputs))
    assert long_rows.is_long(Sliding((2,), 2), (3, 2 * outputs + 2))
    assert not long_rows.is_long(Sliding((9,), 9), (blocks.ROW,))
    assert long_rows.is_long(Sliding((9,), 9), (blocks.ROW + 1,))
    assert not long_rows.is_long(Sliding((1, 2), (1, 2)), (1, 1 << 20))
    assert not long_rows.is_long(Sliding((2,), 2), (0, 1 << 20))
    for longest in (Sliding((most,), 1), Sliding((2,), most), Sliding((2,), 1, most, most - 1)):
        assert long_rows.is_long(longest, (1 << 21,))
    for longer in (
        Sliding((most + 1,), 1),
        Sliding((2,), most + 1),
        Sliding((2,), 1, 0, most),
        Sliding((2,), 1, most + 1, most),
    ):
        assert not long_rows.is_long(longer, (1 << 21,))


def test_codes_of_sections_are_as_wide_as_those_of_rows():
    """With 256 taps, a section in which a window has no cell would need a code more than fits into a byte."""
    wide = [max_long_rows.code_dtype(Sliding((taps,), 1)) for taps in (255, 256, 257)]
    assert wide == [np.uint8, None, np.uint16]
    x, params = numbers((1 << 18,), 1), MaxParams(Sliding((256,), 1), "first")
    assert run_saving(MAX, params, x)[1] is None
    assert run(MAX, "vjp", params, x, numbers(((1 << 18) - 255,), 2))[0].sum() == numbers(((1 << 18) - 255,), 2).sum()
