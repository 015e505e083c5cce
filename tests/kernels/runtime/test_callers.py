"""Many callers at once, and a forked child: every result is the one a lone caller gets."""

from __future__ import annotations

import os
import random
import threading

import numpy as np
import pytest

import windowgrad as wg
from support.interpreter import fresh

X = np.random.default_rng(3).standard_normal((2, 3, 12, 11)).astype(np.float32)
CALLERS, ROUNDS = 32, 1000


def call(number):
    """One of many small calls, each with its own shape and options."""
    pick = random.Random(number)
    x = X[..., : pick.randint(4, 12), : pick.randint(4, 11)].astype(pick.choice([np.float32, np.float64]))
    kernel, stride, padding = (pick.randint(1, 3), pick.randint(1, 3)), pick.randint(1, 3), pick.randint(0, 1)
    kind = pick.randrange(6)
    if kind == 0:
        return wg.max_pool2d(x, kernel, stride, padding)
    if kind == 1:
        return wg.avg_pool2d(x, kernel, stride, padding, count_include_pad=pick.random() < 0.5)
    if kind == 2:
        return wg.smooth_max_pool2d(x, kernel, stride, padding, beta=pick.choice([0.5, 2.0]))
    if kind == 3:
        return np.stack(wg.max_pool2d(x, kernel, stride, padding, return_indices=True))
    if kind == 4:
        return wg.adaptive_avg_pool2d(x, (pick.randint(1, 4), None))
    out = np.empty(wg.pool_out_shape(x.shape, kernel, stride), x.dtype)
    return wg.max_pool2d(x, kernel, stride, out=out)


def test_many_callers_get_the_bits_that_one_gets():
    wanted = [call(number).tobytes() for number in range(200)]
    wrong: list[object] = []

    def caller(seed):
        try:
            for number in random.Random(seed).choices(range(len(wanted)), k=ROUNDS):
                if call(number).tobytes() != wanted[number]:
                    wrong.append(number)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=caller, args=(seed,)) for seed in range(CALLERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_forked_after_use_computes_small_and_large_calls_and_what_is_new_to_it():
    code = """
import os, signal, warnings
import numpy as np, windowgrad as wg
wg.set_num_threads(2)
small, large = np.arange(64, dtype=np.float32).reshape(1, 8, 8), np.arange(1 << 20, dtype=np.float32).reshape(1, 1024, 1024)
def total():
    return float(wg.max_pool2d(small, 2).sum()), float(wg.avg_pool2d(large, 2, divisor_override=1)[0, -1, -1])
wanted = total()
warnings.simplefilter("ignore")  # newer Pythons warn of fork with threads, which is what is tested
child = os.fork()
if child == 0:
    signal.alarm(50)
    new = wg.smooth_max_pool2d(small.astype(np.float64), 1, beta=1.0)
    os._exit(0 if total() == wanted and np.array_equal(new, small) else 1)
assert os.waitpid(child, 0)[1] == 0
assert total() == wanted
"""
    assert fresh(code) == ""
