"""A call that needs more memory than there is, is refused before any work; one that can do with little is done with little."""

import json
import subprocess
import sys

import numpy as np
import pytest

import windowgrad as wg
from support.paths import BENCHMARKS
from windowgrad.dispatch import run
from windowgrad.geometry import Global, Sliding
from windowgrad.ops import OPS
from windowgrad.params import ConvParams, MaxParams, MeanParams, SmoothParams

HUGE = 1 << 45
FAR = Sliding((2,), 1 << 40)


def virtual(shape, dtype=np.float32):
    """An array of any size, in the memory of one cell."""
    return np.broadcast_to(np.ones((), dtype), shape)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "int16"])
def test_windows_far_apart_in_an_array_of_virtual_size_are_pooled(dtype):
    x = virtual((HUGE,), dtype)
    assert wg.max_pool1d(x, 2, stride=1 << 40).tolist() == [1] * 32
    assert wg.avg_pool1d(x, 2, stride=1 << 40).tolist() == [1] * 32
    np.testing.assert_allclose(wg.smooth_max_pool1d(x, 2, stride=1 << 40, beta=1.0), 1 + np.log(2), rtol=1e-3)
    values, indices = wg.max_pool1d(x, 2, stride=1 << 40, return_indices=True)
    assert values.tolist() == [1] * 32
    assert indices.tolist() == [i << 40 for i in range(32)]


@pytest.mark.parametrize(("op", "params"), [("max_pool", MaxParams(FAR)), ("avg_pool", MeanParams(FAR))])
def test_tangents_of_virtual_size_are_pooled(op, params):
    x = virtual((HUGE,))
    assert run(OPS[op], "jvp", params, x, x).tolist() == [1] * 32


REFUSED = {
    "gradient of a maximum": lambda: run(OPS["max_pool"], "vjp", MaxParams(FAR), virtual((HUGE,)), np.ones(32, np.float32)),
    "gradient of a mean": lambda: run(OPS["avg_pool"], "vjp", MeanParams(FAR), virtual((HUGE,)), np.ones(32, np.float32)),
    "gradient of a smooth maximum": lambda: run(
        OPS["smooth_max_pool"], "vjp", SmoothParams(FAR, 1.0), virtual((HUGE,)), np.ones(32, np.float32)
    ),
    "global maximum": lambda: wg.global_max_pool1d(virtual((HUGE,))),
    "global mean of float16": lambda: wg.global_avg_pool1d(virtual((HUGE,), np.float16)),
    "global smooth maximum": lambda: wg.global_smooth_max_pool1d(virtual((HUGE,)), beta=1.0),
    "tangents of a global maximum": lambda: run(
        OPS["max_pool"], "jvp", MaxParams(Global(1)), virtual((HUGE,)), virtual((HUGE,))
    ),
    "convolution": lambda: wg.conv1d(virtual((1, HUGE)), np.ones((1, 1, 2), np.float32), stride=1 << 40),
    "convolution of integers": lambda: wg.conv1d(virtual((1, HUGE), np.int8), np.ones((1, 1, 2), np.int8), stride=1 << 40),
    "weight of a convolution": lambda: wg.conv1d(np.ones((1, 2), np.float32), virtual((1 << 40, 1, 2)), None),
    "gradient of a weight": lambda: run(
        OPS["conv"],
        "vjp",
        ConvParams(Sliding((2,), 1 << 40)),
        virtual((1, HUGE)),
        np.ones((1, 1, 2), np.float32),
        np.ones((1, 32), np.float32),
    ),
    "padding": lambda: wg.pad(virtual((HUGE,)), (1,)),
    "cells taken away": lambda: wg.unpad(virtual((HUGE,)), (1,)),
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused_before_any_work(call):
    with pytest.raises(wg.WindowError, match="this machine has") as caught:
        call()
    assert len(str(caught.value)) < 500


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of a process's memory is Linux's")
def test_memory_that_runs_out_inside_a_kernel_is_the_librarys_error():
    script = """
        import resource
        import numpy as np
        import windowgrad as wg
        x = np.ones((64, 3, 224, 224), np.float16)
        wg.set_num_threads(1)
        wg.conv2d(x[:1], np.ones((64, 3, 3, 3), np.float16))
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20),) * 2)
        try:
            wg.conv2d(x, np.ones((64, 3, 3, 3), np.float16))
        except wg.WindowError as error:
            print("refused:", error)
    """
    lines = "\n".join(line[8:] for line in script.splitlines())
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, timeout=300)
    assert "refused: conv" in done.stdout, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("only", "calls"), [("vjp, ", 40), ("forward, 3 s1", 7)])
def test_extra_memory_is_that_of_the_output_and_little_more(only, calls):
    """Calls of `benchmarks/long_axes.py` on 8 M cells, in a process of their own; tables of an axis would take 500 MB."""
    script = [BENCHMARKS / "long_axes.py", "--memory", "--only", only]
    done = subprocess.run([sys.executable, *script], capture_output=True, text=True, timeout=900, check=True)
    beyond = json.loads(done.stdout)
    assert len(beyond) == calls
    assert {name: size for name, size in beyond.items() if size > 64 << 20} == {}
