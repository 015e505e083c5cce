"""Kernels are optimised once, with all they call; what Numba compiles for others stays as it was."""

import gc

import numba
import numpy as np
import pytest
from numba.core.base import BaseContext
from numba.core.compiler import run_frontend
from numba.core.ir import Inst
from numba.core.types.functions import BaseFunction
from numba.core.typing.templates import _OverloadFunctionTemplate

from support.interpreter import fresh
from windowgrad.kernels.runtime import compiler, jit


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A cache of its own for each test."""
    monkeypatch.setenv("WINDOWGRAD_CACHE_DIR", str(tmp_path / "cache"))
    jit.cache_folder.cache_clear()
    yield tmp_path / "cache"
    jit.cache_folder.cache_clear()


@jit.helper
def less(a, b):
    return min(a, b)


@jit.helper
def least(x):
    found = x[0]
    for i in range(1, len(x)):
        found = less(found, x[i])
    return found


def made():
    @jit.kernel
    def kernel(x):
        return least(x) + len(np.empty(3))

    return kernel


def test_a_helper_has_no_machine_code_of_its_own():
    kernel, x = made(), np.array([4, 2, 3])
    assert kernel(x) == 5
    (own,) = kernel.overloads.values()
    assert own.library._finalized
    names = [function.name for function in own.library.get_defined_functions() if not function.name.startswith("NRT_")]
    assert names == [own.fndesc.llvm_func_name, own.fndesc.llvm_cpython_wrapper_name]
    assert not any(part.library._finalized for helper in (least, less) for part in helper.overloads.values())


def test_a_function_of_the_users_may_call_a_helper_and_a_kernel():
    kernel = made()

    @numba.njit(nogil=True, error_model="numpy")
    def theirs(x):
        return kernel(x) + least(x) + min(x[0], x[1])

    assert theirs(np.array([4, 2, 3])) == 5 + 2 + 2
    assert kernel(np.array([4.0, 2.0, 3.0])) == 5
    assert made()(np.array([4, 2, 3])) == 5


def test_a_kernel_that_another_one_calls_is_a_part_of_that_and_has_no_machine_code_of_its_own(folder):
    inner = made()

    @jit.kernel
    def outer(x):
        return 2 * inner(x) + inner(x[1:])

    assert outer(np.array([4, 2, 3])) == 15
    assert not inner.overloads
    assert [path.name.partition("-")[0] for path in folder.rglob("*.kernel")] == ["outer"]
    assert inner(np.array([4, 2, 3])) == 5
    assert len(inner.overloads) == 1


def test_a_kernel_may_call_one_that_was_loaded_from_the_cache():
    assert made()(np.array([4, 2, 3])) == 5
    loaded = made()
    assert loaded(np.array([4, 2, 3])) == 5
    assert sum(loaded.stats.cache_hits.values()) == 1

    @jit.kernel
    def outer(x):
        return 2 * loaded(x)

    assert outer(np.array([4, 2, 3])) == 10


def test_numba_is_as_it_was_after_a_kernel_is_compiled_and_after_one_cannot_be():
    def now():
        theirs = _OverloadFunctionTemplate._get_jit_decorator, BaseFunction.get_call_type
        return theirs, Inst._rec_list_vars, BaseContext.get_abi_sizeof, gc.get_threshold()

    before = now()

    @jit.kernel
    def wrong(x):
        return x.nothing

    made()(np.array([4, 2, 3]))
    with pytest.raises(numba.core.errors.TypingError, match="nothing"):
        wrong(np.ones(2))
    assert now() == before


def test_memory_that_a_kernel_allocates_is_freed():
    @jit.kernel
    def kernel(n):
        room = np.ones(n)
        return least(room) + room.sum()

    def live():
        gc.collect()
        stats = numba.core.runtime.rtsys.get_allocation_stats()
        return stats.alloc - stats.free

    numba.core.runtime._nrt_python.memsys_enable_stats()
    try:
        kernel(3)
        before = live()
        for n in range(1, 20):
            assert kernel(n) == 1 + n
        assert live() == before
    finally:
        numba.core.runtime._nrt_python.memsys_disable_stats()


BLAS = """
import sys
import numpy as np, numba
from windowgrad.kernels.runtime import jit

@jit.kernel
def kernel(x):
    return x[0]

kernel(np.ones(1))
print("scipy.linalg" in sys.modules)
from numba.np import arraymath, linalg
print(arraymath._HAVE_BLAS, arraymath.ensure_blas is linalg.ensure_blas, linalg.ensure_blas.__name__)
print(numba.njit(lambda a, b: np.dot(a, b))(np.full((2, 2), 2.0), np.full((2, 2), 3.0)).tolist())
print("scipy.linalg" in sys.modules)
"""


def test_scipy_is_loaded_when_a_function_of_the_users_needs_it(folder):
    pytest.importorskip("scipy")
    printed = fresh(BLAS, WINDOWGRAD_CACHE_DIR=str(folder))
    assert printed == "False\nTrue True ensure_blas\n[[12.0, 12.0], [12.0, 12.0]]\nTrue\n"


def test_a_call_that_was_typed_is_not_typed_again(monkeypatch):
    typed = []
    monkeypatch.setattr(compiler, "known", {})
    real = compiler.call_type

    def counting(function, context, args, kws):
        typed.append((function, args))
        return real(function, context, args, kws)

    monkeypatch.setattr(compiler, "call_type", counting)
    made()(np.array([4, 2, 3]))
    first = len(typed)
    assert first
    made()(np.array([4, 2, 3], np.int64))  # from the cache
    jit.compiled(made().py_func)(np.array([4, 2, 3]))
    assert len(typed) == first


@pytest.mark.parametrize(("threshold", "meanwhile"), [((700, 10, 10), 100_000), ((200_000, 5, 5), 200_000), ((0, 10, 10), 0)])
def test_the_garbage_collector_looks_seldom_while_a_kernel_is_compiled_and_then_as_before(threshold, meanwhile, monkeypatch):
    """One that is switched off stays so."""
    seen, list_variables = set(), compiler.list_variables
    monkeypatch.setattr(compiler, "list_variables", lambda *of: seen.add(gc.get_threshold()) or list_variables(*of))
    before = gc.get_threshold()
    try:
        gc.set_threshold(*threshold)
        assert made()(np.array([4, 2, 3])) == 5
        assert gc.get_threshold() == threshold
    finally:
        gc.set_threshold(*before)
    assert seen == {(meanwhile, *threshold[1:])}


def test_the_variables_of_a_statement_are_those_that_numba_finds():
    def function(x, *rest, most=3):
        found = [x[i : most + 1] for i in range(3)]
        for a, b in zip(found, rest, strict=True):
            if a is None or not b:
                raise ValueError(f"{a}", {"b": b})
            yield -a, print(found, *rest)

    statements = [each for block in run_frontend(function).blocks.values() for each in block.body]
    theirs = [each.list_vars() for each in statements]
    with compiler.own_ways():
        ours = [each.list_vars() for each in statements]
    assert ours == theirs
    assert sum(map(len, theirs)) > 50
