"""What is kept for the next call stays small: many small results, a few large ones, none beyond."""

import pytest

from windowgrad.caches import LARGE, SMALL, keep


@pytest.mark.parametrize(("size", "made"), [(1, 20), (SMALL - 1, 20), (SMALL, 40), (LARGE - 1, 40), (LARGE, 40)])
def test_of_twenty_results_the_small_ones_are_made_once(size, made):
    calls = []
    kept = keep(lambda key: calls.append(key) or key)
    assert [kept(size, key) for key in [*range(20), *range(20)]] == [*range(20), *range(20)]
    assert len(calls) == made


@pytest.mark.parametrize(("size", "made"), [(SMALL, 1), (LARGE, 2)])
def test_a_large_result_is_made_once_for_calls_in_a_row(size, made):
    calls = []
    kept = keep(lambda key: calls.append(key) or key)
    assert (kept(size, 1), kept(size, 1)) == (1, 1)
    assert len(calls) == made
