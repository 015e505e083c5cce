"""What is written for LLVM is less than Numba's, and means the same: loops over ranges, calls, variables that are set once."""

import numpy as np
import pytest
from numba.core.compiler import run_frontend

from windowgrad.kernels.runtime import jit, lowering, writing

BOUNDS = [(0, 0), (0, 1), (0, 7), (3, 3), (5, 2), (-4, 9), (-9, -2), (2, -7)]


def noted(step):
    """A function that notes the numbers of a range by a step that is known when it is compiled."""

    def note(first, last, to):
        count = 0
        for i in range(first, last, step):
            to[count] = i
            count += 1
        return count

    return note


@jit.compiled
def noted_by(first, last, step, to):
    count = 0
    for i in range(first, last, step):
        to[count] = i
        count += 1
    return count


@jit.helper
def count_by(n, step):
    count = 0
    for _ in range(0, n, step):
        count += 1
    return count


@jit.helper
def twice(n, step):
    return 2 * count_by(n, step)


@jit.helper
def doubled(n):
    return 2 * n


@pytest.mark.parametrize("step", [1, 2, 3, 8, -1, -3])
def test_a_range_has_the_numbers_of_pythons(step):
    known = jit.compiled(noted(step))
    for first, last in BOUNDS:
        expected = list(range(first, last, step))
        for call in (lambda to, f=first, n=last: known(f, n, to), lambda to, f=first, n=last: noted_by(f, n, step, to)):
            to = np.zeros(32, np.int64)
            assert call(to) == len(expected)
            assert to[: len(expected)].tolist() == expected


def test_loops_may_end_early_or_go_on_and_leave_their_last_number():
    @jit.compiled
    def kernel(n, m):
        total, i = 0, -1
        for i in range(n):
            if i % 3 == 1:
                continue
            for j in range(i, m, 2):
                if j * i > 40:
                    break
                total += i * 100 + j
            else:
                total += 7
        return total * 100 + i

    cases = [(n, m) for n in range(12) for m in (0, 3, 9)]
    assert [kernel(*case) for case in cases] == [kernel.py_func(*case) for case in cases]


def test_a_range_may_be_kept_and_gone_through_again():
    @jit.compiled
    def kernel(n):
        some, total = range(1, n), 0
        for i in some:
            for j in some:
                total += i * j
        return total + len(some)

    assert [kernel(n) for n in range(1, 6)] == [kernel.py_func(n) for n in range(1, 6)]


def test_an_error_of_a_helper_is_raised_through_those_that_call_it():
    @jit.compiled
    def kernel(n, step):
        return doubled(twice(n, step))

    assert kernel(5, 2) == 12
    with pytest.raises(ValueError, match="must not be zero"):
        kernel(5, 0)
    assert [name(each) in writing.safe for each in (doubled, twice, count_by)] == [True, False, False]


def name(helper):
    (made,) = helper.overloads.values()
    return made.fndesc.llvm_func_name


def test_a_variable_is_its_value_where_every_way_to_its_readers_goes_by_its_setter():
    def function(n):
        always = n + 1
        if n > 3:
            local = n * 2
            sometimes = local + always
        else:
            sometimes = always
        last = sometimes
        while last > 0:
            carried = last - always
            last = carried
        return last

    found = lowering.set_before_read(run_frontend(function).blocks)
    assert {each: found.get(each) for each in ("n", "always", "local", "sometimes", "last", "carried")} == {
        "n": True,
        "always": True,
        "local": False,
        "sometimes": None,
        "last": None,
        "carried": False,
    }
