"""Ctrl-C reaches the caller, wherever it is pressed, and what it interrupted can be called again."""

import signal
import sys
import threading

import pytest

from support.interpreter import fresh
from windowgrad.interrupts import put_off

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="signals"),
    pytest.mark.usefixtures("ctrl_c"),
]

COMPILE = """
import os, signal, sys
import numba.core.typeinfer
import numpy as np
from windowgrad import saving
from windowgrad.kernels.runtime import jit, separate

ENGINE = jit.cpu_target.target_context.codegen()._engine._ee  # LLVM, which calls back into Python

def press(owner, name):
    real, pressed = getattr(owner, name), []
    def pressing(*arguments, **options):
        if not pressed:
            pressed.append(True)
            os.kill(os.getpid(), signal.SIGINT)
        return real(*arguments, **options)
    setattr(owner, name, pressing)

@jit.separate_helper
def twice(v):
    return v + v

@jit.kernel
def double(x):
    return twice(x[0])
"""
INTERRUPTED = """
press({where})
try:
    double(np.full(1, 3.0))
except KeyboardInterrupt:
    print("interrupted")
print(double(np.full(1, 3.0)), double(np.full(1, 4.0, np.float32)))
print(sorted(name.partition("-")[0] for name in os.listdir(jit.cache_folder(__name__))))
"""
MOMENTS = {
    "types are inferred": "numba.core.typeinfer.TypeInferer, 'propagate'",
    "code of its own is generated": "separate, 'emitted'",
    "code is generated": "ENGINE, '_object_cache_notify'",
    "it is linked": "ENGINE, '_object_cache_getbuffer'",
    "it is packed": "jit, 'pack'",
    "it is written": "saving, 'give_name'",
    "it is moved into place": "os, 'replace'",
}


@pytest.mark.parametrize("where", MOMENTS.values(), ids=MOMENTS)
def test_ctrl_c_while_a_kernel_is_compiled_is_raised_and_the_next_call_computes(tmp_path, where):
    printed = fresh(COMPILE + INTERRUPTED.format(where=where), WINDOWGRAD_CACHE_DIR=str(tmp_path / "cache"))
    assert printed == "interrupted\n6.0 8.0\n['double', 'double']\n"


def test_ctrl_c_while_a_kernel_is_loaded_is_raised_and_the_next_call_computes(tmp_path):
    assert fresh(COMPILE + "double(np.full(1, 3.0))", WINDOWGRAD_CACHE_DIR=str(tmp_path / "cache")) == ""
    code = COMPILE + INTERRUPTED.format(where=MOMENTS["it is linked"]) + "print(sum(double.stats.cache_hits.values()))"
    printed = fresh(code, WINDOWGRAD_CACHE_DIR=str(tmp_path / "cache"))
    assert printed == "interrupted\n6.0 8.0\n['double', 'double']\n1\n"


IMPORT = """
import os, signal, sys
import numpy as np
import windowgrad as wg

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
x = np.arange(16, dtype=np.float32).reshape(4, 4)
try:
    wg.max_pool2d(x, 2)
except KeyboardInterrupt:
    print("interrupted")
print(wg.max_pool2d(x, 2).tolist())
"""


@pytest.mark.parametrize("module", ["numba.core.types", "numba.core.typing.templates", "windowgrad.kernels.runtime.jit"])
def test_ctrl_c_while_numba_is_imported_is_raised_and_the_next_call_computes(module):
    assert fresh(IMPORT.format(module=module)) == "interrupted\n[[5.0, 7.0], [13.0, 15.0]]\n"


def test_ctrl_c_that_is_put_off_goes_to_the_handler_that_was_there():
    seen, within = [], []
    before = signal.signal(signal.SIGINT, lambda *_: seen.append("handled"))
    try:
        with put_off(), put_off():
            signal.raise_signal(signal.SIGINT)
            within += seen
        assert (within, seen) == ([], ["handled"])
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with put_off():
            signal.raise_signal(signal.SIGINT)
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_ctrl_c_that_is_put_off_is_raised_behind_an_error_too():
    def both():
        with put_off():
            signal.raise_signal(signal.SIGINT)
            raise ValueError("within")

    with pytest.raises(KeyboardInterrupt) as caught:
        both()
    assert isinstance(caught.value.__context__, ValueError)


def test_another_thread_leaves_the_handler_alone():
    found = []

    def within():
        with put_off():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=within)
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler]
