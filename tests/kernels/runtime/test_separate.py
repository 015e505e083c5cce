"""What has machine code of its own computes what it computes as a part of kernels, in every process."""

import os
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from numba.extending import intrinsic

from support.interpreter import fresh
from windowgrad.kernels.runtime import compiler, jit, object_code, separate, simplify
from windowgrad.kernels.vector.ops import address


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A cache of its own for each test."""
    monkeypatch.setenv("WINDOWGRAD_CACHE_DIR", str(tmp_path / "cache"))
    jit.cache_folder.cache_clear()
    yield tmp_path / "cache"
    jit.cache_folder.cache_clear()


@jit.helper
def square(v):
    return v * v


def made(times):
    """A kernel and what it calls: functions of the same names and types, which differ by a number."""

    @jit.separate_helper
    def energy(x, n):
        total = 0
        for i in range(n):
            total += times * square(x[i])
        return total

    @jit.kernel
    def kernel(x):
        return energy(address(x), len(x)) + energy(address(x), 1)

    return kernel


def separates(kernel):
    (own,) = kernel.overloads.values()
    return own.library.separates


def test_a_separate_function_is_called_by_the_digest_of_its_code():
    once, twice, x = made(1), made(2), np.array([2, 3])
    assert (once(x), twice(x)) == (4 + 9 + 4, 2 * (4 + 9 + 4))
    ((one, _),), ((other, _),) = separates(once).items(), separates(twice).items()
    assert one.startswith("separate_")
    assert one != other
    names = [function.name for function in next(iter(once.overloads.values())).library.get_defined_functions()]
    assert not any("energy" in name or "square" in name for name in names)


def test_kernels_are_loaded_with_it(folder):
    x = np.array([2, 3])
    assert made(1)(x) == 17
    loaded = made(1)
    assert loaded(x) == 17
    assert sum(loaded.stats.cache_hits.values()) == 1
    assert len(list(folder.rglob("*.kernel"))) == 1


@intrinsic
def long(typing, v):
    """Code that is too long to be inlined twice."""

    def emit(context, builder, signature, args):
        (v,) = args
        for i in range(300):
            v = builder.xor(builder.mul(v, v), v.type(i))
        return v

    return v(v), emit


def made_with_a_call(times):
    """The same where what is called is a part of the kernel, and is not inlined."""

    @jit.kernel
    def energy(v):
        return times * (long(v) & 15)

    @jit.kernel
    def kernel(x):
        return energy(x[0]) + energy(x[1])

    return kernel


PROCESS = """
import numpy as np
from test_separate import made, made_with_a_call

kernels = [MADE(times) for times in TIMES]
print([int(kernel(np.array([2, 3]))) for kernel in kernels], sum(sum(each.stats.cache_hits.values()) for each in kernels))
"""


@pytest.mark.parametrize("factory", ["made", "made_with_a_call"])
def test_functions_of_one_name_from_several_processes_are_told_apart(folder, factory):
    """Each is the first function that its process compiles, so Numba gives them the same name."""

    def printed(*times):
        path = f"import sys; sys.path[:0] = {[str(Path(__file__).parent), *sys.path]}; TIMES = {times}\n"
        return fresh(path + PROCESS.replace("MADE", factory), WINDOWGRAD_CACHE_DIR=str(folder))

    assert printed(3) == "[51] 0\n"
    assert printed(5) == "[85] 0\n"
    assert printed(3, 5, 7) == "[51, 85, 119] 2\n"


def test_what_allocates_memory_is_a_part_of_the_kernel():
    @jit.separate_helper
    def room(n):
        return np.ones(n).sum()

    @jit.kernel
    def kernel(n):
        return room(n)

    assert kernel(3) == 3
    assert not separates(kernel)


def test_an_error_in_a_separate_function_is_raised(folder):
    @jit.separate_helper
    def refuses(n):
        if n < 0:
            raise ValueError("below 0")
        return n

    def made():
        @jit.kernel
        def kernel(n):
            return 2 * refuses(n)

        return kernel

    for kernel in (made(), made()):  # compiled, and loaded
        assert kernel(3) == 6
        with pytest.raises(ValueError, match="below 0"):
            kernel(-1)


def test_a_separate_function_is_compiled_when_there_is_no_second_thread(monkeypatch):
    def none_left(*arguments):
        raise RuntimeError("can't start new thread")

    there, x = made(4), np.array([2, 3])
    there(x)
    monkeypatch.setattr(simplify, "start_new_thread", none_left)
    monkeypatch.setattr(object_code, "loaded", {})
    here = jit.compiled(there.py_func)
    assert here(x) == there(x) == 68
    assert separates(here) == separates(there)  # the same code under the same name


def test_all_code_can_be_part_of_the_kernel(monkeypatch):
    monkeypatch.setattr(compiler, "separately", False)
    kernel = made(6)
    assert kernel(np.array([2, 3])) == 102
    assert not separates(kernel)


def test_what_llvm_says_of_wrong_code_reaches_the_thread_that_needs_it(monkeypatch):
    def wrong(*given):
        raise RuntimeError("no machine code")

    monkeypatch.setattr(separate, "compiled", wrong)
    with pytest.raises(RuntimeError, match="no machine code"):
        made(8)(np.array([2, 3]))
    monkeypatch.undo()
    assert made(8)(np.array([2, 3])) == 136


def test_many_threads_may_need_it_at_once():
    kernels, x, found = [made(times) for times in range(10, 14)], np.array([2, 3]), {}
    threads = [threading.Thread(target=lambda i=i: found.__setitem__(i, int(kernels[i % 4](x))), daemon=True) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {i: 17 * (10 + i % 4) for i in range(8)}


def test_what_is_damaged_is_compiled_again(folder):
    x, first = np.array([2, 3]), made(9)
    assert first(x) == 153
    ((_, code),), (file,) = separates(first).items(), folder.rglob("*.kernel")
    content = file.read_bytes()
    place = content.index(code) + len(code) // 2
    for damaged in (content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :], content[:place]):
        file.write_bytes(damaged)
        again = made(9)
        assert again(x) == 153
        assert sum(again.stats.cache_hits.values()) == 0
        assert file.read_bytes() not in (damaged, b"")


FORK = """
import os, signal, threading, time, warnings
import numpy as np
from test_separate import made
from windowgrad.kernels.runtime import separate

warnings.simplefilter("ignore")  # newer Pythons warn of fork with threads, which is what is tested
begun, real, x = threading.Event(), separate.emitted, np.array([2, 3])

def slow(*given):
    begun.set()
    time.sleep(0.1)
    return real(*given)

separate.emitted = slow
here = made(3)
compiling = threading.Thread(target=here, args=(x,))
compiling.start()
begun.wait()
child = os.fork()
if child == 0:
    signal.alarm(30)
    os._exit(0 if (here(x), made(5)(x)) == (51, 85) else 1)
assert os.waitpid(child, 0)[1] == 0
compiling.join()
print(here(x), made(7)(x))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_forked_while_machine_code_is_made_can_compile(folder):
    path = f"import sys; sys.path[:0] = {[str(Path(__file__).parent), *sys.path]}\n"
    assert fresh(path + FORK, WINDOWGRAD_CACHE_DIR=str(folder)) == "51 119\n"


EXIT = """
import threading, time
import numpy as np
from test_separate import made
from windowgrad.kernels.runtime import separate

begun, real = threading.Event(), separate.emitted

def slow(*given):
    begun.set()
    time.sleep(0.05)
    return real(*given)

separate.emitted = slow
threading.Thread(target=made(3), args=(np.array([2, 3]),), daemon=True).start()
begun.wait()
print("ends")
"""


def test_python_can_end_while_machine_code_is_made(folder):
    path = f"import sys; sys.path[:0] = {[str(Path(__file__).parent), *sys.path]}\n"
    assert fresh(path + EXIT, WINDOWGRAD_CACHE_DIR=str(folder)) == "ends\n"
