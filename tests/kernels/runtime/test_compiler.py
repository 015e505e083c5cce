"""Kernels are optimised once, with all they call; what Numba compiles for others stays as it was."""

import gc
import sys

import llvmlite.binding as llvm
import numba
import numpy as np
import pytest
from numba.core import ssa, typeinfer
from numba.core.base import BaseContext
from numba.core.compiler import run_frontend
from numba.core.cpu import CPUContext
from numba.core.ir import Inst
from numba.core.postproc import PostProcessor
from numba.core.registry import cpu_target
from numba.core.types.functions import BaseFunction
from numba.core.typing.templates import _OverloadFunctionTemplate
from numba.extending import intrinsic, overload

from support.allocations import all_freed
from support.interpreter import fresh
from windowgrad.kernels.runtime import compiler, jit, shortcuts, simplify


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
        contexts = BaseContext.get_abi_sizeof, BaseContext.refresh, CPUContext.create_cpython_wrapper
        passes = PostProcessor.run, ssa._run_ssa, typeinfer.new_error_context, typeinfer.ConstraintNetwork.propagate
        return theirs, contexts, passes, Inst._rec_list_vars, gc.get_threshold(), sys.getswitchinterval()

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

    assert kernel(3) == 4
    with all_freed():
        for n in range(1, 20):
            assert kernel(n) == 1 + n


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
    monkeypatch.setattr(shortcuts, "known", {})
    real = shortcuts.call_type

    def counting(function, context, args, kws):
        typed.append((function, args))
        return real(function, context, args, kws)

    monkeypatch.setattr(shortcuts, "call_type", counting)
    made()(np.array([4, 2, 3]))
    first = len(typed)
    assert first
    made()(np.array([4, 2, 3], np.int64))  # from the cache
    jit.compiled(made().py_func)(np.array([4, 2, 3]))
    assert len(typed) == first


@pytest.mark.parametrize(("threshold", "meanwhile"), [((700, 10, 10), 100_000), ((200_000, 5, 5), 200_000), ((0, 10, 10), 0)])
def test_the_garbage_collector_looks_seldom_while_a_kernel_is_compiled_and_then_as_before(threshold, meanwhile, monkeypatch):
    """One that is switched off stays so."""
    seen, list_variables = set(), shortcuts.list_variables
    monkeypatch.setattr(shortcuts, "list_variables", lambda *of: seen.add(gc.get_threshold()) or list_variables(*of))
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
    with shortcuts.own_ways(compiler.part_jit):
        ours = [each.list_vars() for each in statements]
    assert ours == theirs
    assert sum(map(len, theirs)) > 50


def calls_at_every_depth(deepest, again=100):
    """Recurses, and at each depth calls so often what ends at once."""
    for _ in range(again):
        ends_at_once()
    if deepest:
        calls_at_every_depth(deepest - 1)


def ends_at_once():
    one = two = three = four = five = six = seven = eight = None  # its frame is larger than the one that calls it
    return one, two, three, four, five, six, seven, eight


@pytest.mark.skipif(sys.platform != "linux", reason="page faults of a thread are counted by Linux")
def test_a_deep_call_with_room_asks_the_system_for_no_memory_at_each_call_within():
    import resource

    def faults(call):
        call(500)
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
        call(500)
        return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before

    assert faults(calls_at_every_depth) > 150  # once for each call at the end of a piece of the stack
    assert faults(shortcuts.with_room(calls_at_every_depth)) < 50


def test_a_call_with_room_is_the_call():
    def told(*args, **kws):
        return args, kws

    roomy = shortcuts.with_room(told)
    assert roomy(1, 2, a=3) == ((1, 2), {"a": 3})
    assert roomy.__name__ == "told"
    with pytest.raises(ZeroDivisionError):
        shortcuts.with_room(lambda: 1 // 0)()


def test_what_a_program_has_frozen_stays_frozen_and_nothing_else_does():
    assert gc.get_freeze_count() == 0
    assert made()(np.array([4, 2, 3])) == 5
    assert gc.get_freeze_count() == 0
    gc.freeze()
    frozen = gc.get_freeze_count()
    try:
        assert made()(np.array([4.0, 2.0, 3.0])) == 5
        assert gc.get_freeze_count() >= frozen * 0.9  # some of them may have died
    finally:
        gc.unfreeze()


def test_what_is_added_to_numba_after_a_kernel_was_compiled_is_found_by_the_next():
    made()(np.array([4, 2, 3]))

    def double(x):
        raise NotImplementedError

    @overload(double)
    def double_of(x):
        return lambda x: 2 * x

    @intrinsic
    def one_more(typingctx, x):
        return x(x), lambda context, builder, signature, values: builder.add(values[0], values[0].type(1))

    @jit.compiled
    def kernel(x):
        return one_more(double(x))

    assert kernel(20) == 41


def code_of(name):
    """A function of this name, as text, and the code generator of Numba."""
    text = f"define i64 @{name}(i64 %x) {{\nentry:\n %place = alloca i64\n store i64 %x, ptr %place\n"
    text += " %again = load i64, ptr %place\n %sum = add i64 %again, 0\n ret i64 %sum\n}\n"
    return simplify.Code(text, cpu_target.target_context.codegen())


def test_code_is_the_same_whichever_thread_simplifies_it():
    here, there = code_of("same"), code_of("same")
    bitcode = here.simplified(here.codegen._tm)
    with simplify.helper.working():
        simplify.helper.take(there)
    assert there.bitcode == bitcode  # the thread has ended, and done all that it was given
    assert "alloca" not in str(llvm.parse_bitcode(bitcode))


def test_what_llvm_says_of_wrong_code_reaches_the_thread_that_needs_it():
    wrong = simplify.Code("define nothing", cpu_target.target_context.codegen())
    with simplify.helper.working():
        simplify.helper.take(wrong)
    with pytest.raises(RuntimeError, match="LLVM IR parsing error"):
        wrong.simplified(wrong.codegen._tm)


def test_kernels_are_compiled_when_there_is_no_second_thread(monkeypatch):
    def none_left(*arguments):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(simplify, "start_new_thread", none_left)
    assert jit.compiled(made().py_func)(np.array([4.0, 2.0, 3.0], np.float32)) == 5
    assert simplify.helper.queue is None


DEAD = """
from windowgrad.kernels.runtime.jit import compiled, helper

@helper
def leaf(x):
    return 3 * x + 1

@helper
def dead(x):
    return leaf(x) if x - x != 0 else x  # LLVM sees that it is not called

@helper
def live(x):
    return leaf(x) + 1

@compiled
def both(x):
    return dead(x) + live(x)

print(both(5))
"""


def test_a_helper_is_there_for_who_calls_it_though_another_never_does():
    """It was linked in before the second one mentioned it, so it was left out: the process died in the call."""
    assert fresh(DEAD).split() == ["22"]


def test_what_is_in_no_library_is_an_error_and_no_call_of_nothing(monkeypatch):
    monkeypatch.setattr(compiler, "called", lambda library, machine: [])
    with pytest.raises(RuntimeError, match=r"kernel: calls _ZN.*least.*, which is in no library"):
        made()(np.array([4, 2, 3]))
