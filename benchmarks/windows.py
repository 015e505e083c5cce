"""What the peers' grid does not show: how the time grows with the window, what small calls cost in Python, and what masks cost.

A small call is on a 1×8×8 array with 2×2 windows: the operator, `vjp` of it, the pull, and both; PyTorch does the same on
tensors. Recording and walking one node of a tape is measured by `training.py`.

    python benchmarks/windows.py
    python benchmarks/windows.py --small
    python benchmarks/windows.py --masks --threads 1
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from timing import THREADS, Call, best
from training import recorded

import windowgrad as wg

SIDES = (3, 7, 15, 31, 64)
CALLS = 20  # timed together; few, so that some are not interrupted on a busy machine
OPERATORS = {"max": wg.max_pool2d, "avg": wg.avg_pool2d}
MASKED: dict[str, Callable[..., Any]] = {
    "max": wg.max_pool2d,
    "min": wg.min_pool2d,
    "avg": wg.avg_pool2d,
    "lp": lambda x, size, stride, padding, **mask: wg.lp_pool2d(x, 2, size, stride, padding=padding, **mask),
    "smooth": lambda *args, **mask: wg.smooth_max_pool2d(*args, beta=2.0, **mask),
}
MASKED_SIDES = (28, 56, 112)
MASKED_WINDOWS = ((2, 2, 0), (3, 2, 1), (3, 1, 1))  # side, stride, padding
SMALL: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "max": (lambda x: wg.max_pool2d(x, 2), lambda x: F.max_pool2d(x, 2)),
    "avg": (lambda x: wg.avg_pool2d(x, 2), lambda x: F.avg_pool2d(x, 2)),
    "smooth": (lambda x: wg.smooth_max_pool2d(x, 2, beta=1.0), lambda x: F.unfold(x[None], 2, stride=2).logsumexp(1)),
}


def growth() -> dict[str, str]:
    """Windows of several sides at every cell of one 4096² image: milliseconds, and how often that of 3×3."""
    x = np.random.default_rng(0).standard_normal((4096, 4096), dtype=np.float32)
    calls = {
        f"{name} {side}×{side}": lambda pool=pool, side=side: pool(x, side, 1, side // 2)
        for name, pool in OPERATORS.items()
        for side in SIDES
    }
    for call in calls.values():
        call()  # compiles it
    times = best(calls, rounds=7, seconds=20)
    return {name: f"{1e3 * t:.1f} ms ({t / times[f'{name[:3]} 3×3']:.2f}×)" for name, t in times.items()}


def masks() -> dict[str, str]:
    """Forward calls with a mask in times of those without one: the least and the greatest ratio, by operator and plane.

    1 and 8 samples of 64 channels, 2×2 and 3×3 windows; one mask for all planes or one for each, without three of ten cells.
    """
    rng, shown = np.random.default_rng(0), {}
    for (name, pool), side in itertools.product(MASKED.items(), MASKED_SIDES):
        ratios = []
        for batch, (window, shared) in itertools.product((1, 8), itertools.product(MASKED_WINDOWS, (True, False))):
            x = rng.standard_normal((batch, 64, side, side), dtype=np.float32)
            where = rng.random(x.shape[2:] if shared else x.shape) < 0.7
            calls = {
                "masked": lambda x=x, where=where, window=window, pool=pool: pool(x, *window, where=where),
                "whole": lambda x=x, window=window, pool=pool: pool(x, *window),
            }
            for call in calls.values():
                call()  # compiles it
            times = best(calls, rounds=5, seconds=0.6)
            ratios.append(times["masked"] / times["whole"])
        shown[f"{name} {side}×{side}"] = f"{min(ratios):.1f} to {max(ratios):.1f}"
    return shown


def small_calls() -> dict[str, str]:
    """Microseconds by operator and rule, ours and PyTorch's, which has no pull apart from its graph."""
    shown: dict[str, str] = {}
    for name, (ours, theirs) in SMALL.items():
        calls = {f"windowgrad {rule}": call for rule, call in on_arrays(ours).items()}
        calls |= {f"PyTorch {rule}": call for rule, call in on_tensors(theirs, torch_leaf()).items()}
        if name != "smooth":  # the bridge: our operator, PyTorch's graph
            calls |= {f"bridge {rule}": call for rule, call in on_tensors(ours, torch_leaf()).items()}
        for call in calls.values():
            call()  # compiles it
        repeated = {key: lambda call=call: several(call) for key, call in calls.items()}
        micro = {key: 1e6 * t / CALLS for key, t in best(repeated, rounds=9, seconds=len(calls)).items()}
        for rule in ("forward", "vjp", "pull", "both"):
            who = [
                f"{who} {micro[key]:.1f} µs" for who in ("windowgrad", "PyTorch", "bridge") if (key := f"{who} {rule}") in micro
            ]
            shown[f"{name} {rule}"] = ", ".join(who)
    return shown


def several(call: Call) -> None:
    for _ in range(CALLS):
        call()


def on_arrays(pool: Callable[[Any], Any]) -> dict[str, Call]:
    x = np.random.default_rng(0).standard_normal((1, 8, 8), dtype=np.float32)
    y, pull = wg.vjp(pool, x)
    g = np.ones_like(y)
    return {
        "forward": lambda: pool(x),
        "vjp": lambda: wg.vjp(pool, x),
        "pull": lambda: pull(g),
        "both": lambda: wg.vjp(pool, x)[1](g),
    }


def on_tensors(pool: Callable[[Any], Any], x: torch.Tensor) -> dict[str, Call]:
    """`vjp` is the recorded forward call, the pull PyTorch's walk."""
    plain, y = x.detach(), pool(x)
    g = torch.ones_like(y)
    return {
        "forward": lambda: pool(plain),
        "vjp": lambda: pool(x),
        "pull": lambda: torch.autograd.grad(y, x, g, retain_graph=True),
        "both": lambda: torch.autograd.grad(pool(x), x, g),
    }


def torch_leaf() -> torch.Tensor:
    return torch.randn(1, 8, 8, requires_grad=True)


def measured(window: bool = True) -> dict[str, dict[str, str]]:
    found = {"window at every cell of 4096×4096": growth()} if window else {}
    return found | {"one call on 1×8×8, 2×2": small_calls(), "recording and walking one node": recorded()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="small calls only")
    parser.add_argument("--masks", action="store_true", help="masks only")
    parser.add_argument("--threads", type=int, default=THREADS)
    options = parser.parse_args()
    wg.set_num_threads(options.threads)
    torch.set_num_threads(options.threads)
    found = {"with a mask, in times of the call without one": masks()} if options.masks else measured(not options.small)
    for title, row in found.items():
        print(f"{title}:")
        for name, text in row.items():
            print(f"  {name}: {text}")
