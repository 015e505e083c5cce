"""What the peers' grid does not show: how the time grows with the window, and what one small call costs.

python benchmarks/windows.py
"""

from __future__ import annotations

import numpy as np
from timing import THREADS, best

import windowgrad as wg

SIDES = (3, 7, 15, 31, 64)
CALLS = 1000
OPERATORS = {"max": wg.max_pool2d, "avg": wg.avg_pool2d}


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


def small_calls() -> dict[str, str]:
    """Microseconds of one call on a 1×8×8 array with 2×2 windows."""
    x = np.random.default_rng(0).standard_normal((1, 8, 8), dtype=np.float32)

    def several(pool: object) -> None:
        for _ in range(CALLS):
            pool(x, 2)  # type: ignore[operator]

    times = best({name: lambda pool=pool: several(pool) for name, pool in OPERATORS.items()}, rounds=9, seconds=4)
    return {name: f"{1e6 * t / CALLS:.1f} µs" for name, t in times.items()}


def measured() -> dict[str, dict[str, str]]:
    return {"window at every cell of 4096×4096": growth(), "one call on 1×8×8, 2×2": small_calls()}


if __name__ == "__main__":
    wg.set_num_threads(THREADS)
    for title, row in measured().items():
        print(f"{title}: {', '.join(f'{name} {time}' for name, time in row.items())}")
