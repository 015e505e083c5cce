"""What Numba does for each function is done where it is of use: memory is freed, variables are right, errors say where."""

import numba
import numpy as np
import pytest
from llvmlite.binding import create_context, parse_bitcode
from numba.core import ssa
from numba.core.compiler import run_frontend
from numba.core.errors import TypingError
from numba.core.registry import cpu_target

from support.allocations import all_freed
from windowgrad.kernels.runtime import jit, lowering, passes


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A cache of its own for each test."""
    monkeypatch.setenv("WINDOWGRAD_CACHE_DIR", str(tmp_path / "cache"))
    jit.cache_folder.cache_clear()
    yield
    jit.cache_folder.cache_clear()


def ones(n):
    return np.ones(n), n


ones_here = jit.helper(ones)


@jit.helper
def noted(x, i):
    x[i] = x[i] * 3 + 1


@jit.helper
def noted_by_cases(x, negative, odd):
    for i in range(len(x)):
        if negative:
            x[i] = -x[i]
        if odd:
            x[i] += 1
        noted(x, i)


def test_memory_is_freed_wherever_its_variable_ends():
    def totals(ones):
        def kernel(n):
            room, total = np.zeros(1), 0.0
            for i in range(1, n):
                room, length = ones(i)
                if i % 3 == 0:
                    continue
                pair = room, room[1:]
                total += pair[0].sum() + pair[1].sum() - length
                if i > 11:
                    return total
            return total + room[0]

        return kernel

    kernel, expected = jit.kernel(totals(ones_here)), totals(ones)

    assert kernel(2) == expected(2)
    with all_freed():
        assert [kernel(n) for n in (1, 2, 6, 12, 20)] == [expected(n) for n in (1, 2, 6, 12, 20)]


def test_types_that_hold_arrays_own_memory():
    array = numba.typeof(np.ones(1))
    kinds = (
        numba.types.int64,
        numba.types.Tuple((numba.types.int64, numba.types.float32)),
        numba.types.CPointer(numba.types.int8),
    )
    assert not any(map(lowering.owns_memory, kinds))
    assert all(map(lowering.owns_memory, (array, numba.types.Tuple((numba.types.int64, array)))))


def test_variables_with_several_values_have_the_right_one_everywhere():
    @jit.kernel
    def kernel(n):
        a, b, unused = 0, 1, 7
        for i in range(n):
            if i % 2:
                a, b = b, a + b
                continue
            if i % 5 == 0:
                b += 2
            else:
                a -= 1
            while a > 50:
                a, unused = a // 2, a
                if a % 3 == 0:
                    break
        return a * 1000 + b * 10 + unused % 10

    assert [kernel(n) for n in range(40)] == [kernel.py_func(n) for n in range(40)]


def several(n, m):
    a, b, c = n, m, 0
    while a > 0:
        if b > a:
            b, c = a, b
            continue
        if c:
            a -= 1
        for i in range(b):
            c += i * a
            a -= c
    return a, b, c


def test_variables_are_set_once_as_numba_does_it(monkeypatch):
    """The same statements, whichever blocks are looked at."""
    theirs = passes.run_ssa(run_frontend(several).blocks)
    monkeypatch.setattr(ssa, "_run_block_rewrite", passes.rewrite_mentioning)
    ours = passes.run_brief_ssa(run_frontend(several).blocks)
    assert {label: list(map(str, block.body)) for label, block in ours.items()} == {
        label: list(map(str, block.body)) for label, block in theirs.items()
    }


def test_a_call_of_a_helper_is_not_copied_before_it_is_inlined():
    @jit.kernel
    def kernel(x, negative, odd):
        noted_by_cases(x, negative, odd)

    x = np.arange(4.0)
    kernel(x, True, True)
    assert x.tolist() == [4, 1, -2, -5]
    (made,) = noted_by_cases.overloads.values()
    (code,) = made.library.codes
    module = parse_bitcode(code.simplified(cpu_target.target_context.codegen()._tm), create_context())
    (function,) = (each for each in module.functions if not each.is_declaration)
    calls = [str(each) for block in function.blocks for each in block.instructions if each.opcode == "call"]
    assert sum("noted" in each for each in calls) == 1


def test_only_kernels_that_ask_for_it_have_their_loops_unrolled():
    def double(x):
        for i in range(len(x)):
            x[i] *= 2

    for decorator, unrolls in ((jit.compiled, False), (jit.unrolled_kernel, True)):
        kernel, x = decorator(double), np.ones(5)
        kernel(x)
        assert x.tolist() == [2] * 5
        (made,) = kernel.overloads.values()
        assert made.library.unrolls == unrolls


def test_an_error_says_where_it_is():
    @jit.kernel
    def wrong(x):
        return x.no_such_thing

    with pytest.raises(TypingError, match=r"no_such_thing[\s\S]*During: typing of get attribute at .*test_front_end\.py"):
        wrong(np.ones(1))
