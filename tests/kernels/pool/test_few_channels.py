"""Windows two cells apart over a few channels that stand last: the bits of channels first, in memory of exactly its size."""

import numpy as np
import pytest

from support.exact import same_bits
from support.guarded import exact_memory, guarded
from windowgrad.geometry import Adaptive, Global, Sliding
from windowgrad.kernels.pool.few_channels import LONGEST, RUNS, has_few_channels, is_thinned
from windowgrad.kernels.pool.max import entry as max_entry
from windowgrad.kernels.pool.max.few_channels import max_few_channels
from windowgrad.kernels.pool.mean import entry as mean_entry
from windowgrad.kernels.pool.window_spans import DIRECT
from windowgrad.kernels.runtime import threads
from windowgrad.params import MaxParams, MeanParams

GEOMETRIES = [
    Sliding((3, 3), 2, 1),
    Sliding((2, 2), 2),
    Sliding((1, 1), 2),
    Sliding((2, 5), (1, 2), (0, 2)),
    Sliding((3, 3), 2, (1, 2), (1, 2), ceil_mode=True),
    Sliding((3, 3), 2, 4),  # windows without a cell
]


def channels_last(x):
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)


def numbers(shape, dtype):
    """Zeros of both signs everywhere, and in some planes NaN, infinities and sums that overflow."""
    rng = np.random.default_rng(shape[-1])
    if np.dtype(dtype).kind != "f":
        return rng.integers(0, 2 if dtype == "bool" else 120, shape).astype(dtype)
    x = rng.standard_normal(shape).astype(dtype)
    x[rng.random(shape) < 0.3], x[rng.random(shape) < 0.2] = -0.0, 0.0
    x[1, 0, 0, ::3], x[1, -1, -1, ::2], x[2, 1] = np.nan, np.inf, np.finfo(dtype).max
    return x


@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8", "int16", "bool"])
@pytest.mark.parametrize("channels", RUNS)
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_few_channels_that_stand_last_have_the_bits_of_channels_first(geometry, channels, dtype):
    """Widths of all residues of a vector, and outputs of fewer."""
    for width in (*range(5, 24), 65):
        x = numbers((3, channels, 5, width), dtype)
        assert has_few_channels(geometry, x.shape)
        last = np.moveaxis(channels_last(x), 1, -1)
        with exact_memory():
            for edge in ("start", "end"):
                given = np.moveaxis(guarded(last, edge), -1, 1)
                assert same_bits(
                    max_entry.max_forward(MaxParams(geometry), given), max_entry.max_forward(MaxParams(geometry), x)
                )
                if dtype in ("float32", "float64"):
                    assert same_bits(
                        mean_entry.mean_forward(MeanParams(geometry), given), mean_entry.mean_forward(MeanParams(geometry), x)
                    )


@pytest.mark.parametrize("count", [1, 2, 3])
def test_threads_do_not_change_a_bit(count):
    x = channels_last(numbers((4, 3, 64, 199), "float32"))
    params = MaxParams(Sliding((3, 3), 2, 1))
    one_by_one = np.concatenate([max_entry.max_forward(params, x[i : i + 1]) for i in range(len(x))])
    before = threads.get_num_threads()
    threads.set_num_threads(count)
    try:
        assert same_bits(max_entry.max_forward(params, x), one_by_one)
    finally:
        threads.set_num_threads(before)


def test_channels_are_few_up_to_four_in_short_rows_of_windows_two_cells_apart():
    window = Sliding((3, 3), 2, 1)
    assert [c for c in range(1, 9) if has_few_channels(window, (1, c, 9, 9))] == list(RUNS)
    assert has_few_channels(window, (1, 4, 9, LONGEST // 4))
    assert not has_few_channels(window, (1, 4, 9, LONGEST // 4 + 1))
    assert has_few_channels(Sliding((3, DIRECT), (1, 2), 1), (1, 3, 9, 9))
    assert not has_few_channels(Sliding((3, DIRECT + 1), 2, 1), (1, 3, 9, 9))
    assert not has_few_channels(Sliding((3, 3), (2, 1), 1), (1, 3, 9, 9))
    assert not has_few_channels(Sliding((3, 3), (2, 3), 1), (1, 3, 9, 9))
    assert has_few_channels(Adaptive((3, 4)), (1, 3, 9, 8))
    assert not has_few_channels(Adaptive((3, 4)), (1, 3, 9, 9))
    assert not has_few_channels(Global(2), (1, 3, 9, 9))
    assert not has_few_channels(window, (9, 9))


def test_only_rows_that_were_kept_together_are_thinned():
    x, window = np.zeros((1, 3, 9, 9), np.uint8), Sliding((3, 3), 2, 1)
    for given, last in ((x, False), (channels_last(x), True)):
        layout = max_entry.top_layout(MaxParams(window), given)
        assert is_thinned(layout.plan) == layout.last == last
        chosen = max_entry.topper(window, layout.plan, x.dtype, layout.planes, last)[0]
        assert (chosen is max_few_channels) == last
    layout = max_entry.top_layout(MaxParams(Sliding((3, 3), 1, 1)), channels_last(x))
    assert layout.plan.run == 3
    assert not is_thinned(layout.plan)
