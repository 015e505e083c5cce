"""A child forked while another thread is in its first call of something: it finds no lock that nobody will release."""

import os

import numpy as np
import pytest

import windowgrad as wg
from support.interpreter import fresh

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")

FORK = """
import os, signal, sys, threading, warnings
import numpy as np
import windowgrad as wg
warnings.simplefilter("ignore")    # newer Pythons warn of fork with threads, which is what is tested

{prepare}

def call():
    {call}

reached, forked = threading.Event(), threading.Event()

class Finder:
    '''Stops the import of one module, until the process has forked or waits for it.'''
    def find_spec(self, name, path=None, target=None):
        if name == {module!r} and not reached.is_set():
            reached.set()
            forked.wait(1)

sys.meta_path.insert(0, Finder())
first = threading.Thread(target=call)
first.start()
assert reached.wait(60), "the module was not imported"
child = os.fork()
if child == 0:
    signal.alarm(100)
    call()
    os._exit(0)
forked.set()
assert os.waitpid(child, 0)[1] == 0, "the child does not get through"
first.join()
call()
"""


@pytest.fixture(scope="module", autouse=True)
def compiled():
    """The kernels are in the cache: what is tested takes a moment, unless it waits for ever."""
    wg.max_pool2d(np.ones((1, 4, 4), np.float32), 2)
    x = np.ones(1 << 16, np.float32)
    wg.vjp(wg.relu, x)[1](x)


POOL = "wg.max_pool2d(np.ones((1, 4, 4), np.float32), 2)"
TORCH = "wg.max_pool2d(torch.ones(1, 4, 4), 2)"


@pytest.mark.parametrize(
    ("prepare", "call", "module"),
    [
        ("", POOL, "windowgrad.kernels.pool.max.entry"),
        ("", POOL, "numba"),
        ("", POOL, "numba.core.typing.templates"),
        ("", "wg.grad(wg.relu)(1.0); wg.nn.sgd(0.1).init((np.ones(3, np.float32),))", "optree"),
        (
            "x = np.ones(1 << 16, np.float32)",
            "wg.vjp(wg.relu, x)[1](x)",
            "windowgrad.kernels.elementwise.relu",
        ),
        ("import torch", TORCH, "windowgrad.bridges.torch"),
        (
            "import io, pathlib, tempfile; path = pathlib.Path(tempfile.mkdtemp()) / 'p'",
            "wg.nn.save(path, ()); wg.nn.load(path)",
            "safetensors",
        ),
    ],
    ids=["a kernel", "numba", "a part of numba", "optree", "relu", "a bridge", "files"],
)
def test_a_child_forked_while_another_thread_imports_for_its_first_call_can_call(prepare, call, module):
    fresh(FORK.format(prepare=prepare, call=call, module=module), seconds=200)
