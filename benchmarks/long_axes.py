"""Long axes: what a signal of millions of samples takes, in time beside the floor and in memory beyond its result.

    python benchmarks/long_axes.py              # times of 50 M float32 samples, and how often those of the floor
    python benchmarks/long_axes.py --memory     # bytes beyond the result, as JSON, for calls on 8 M cells

The floor is the time of reading what is read and writing what is written, on as many threads (`floor.py`).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from floor import BLOCK, move
from memory import peak_extra
from timing import THREADS, best

import windowgrad as wg
from windowgrad.dispatch import run
from windowgrad.geometry import Adaptive, Geometry, Global, Sliding
from windowgrad.kernels.runtime import threads
from windowgrad.ops import OPS
from windowgrad.params import MaxParams, MeanParams, SmoothParams

Array = np.ndarray[Any, Any]
SAMPLES, CELLS, WARM = 50_000_000, 1 << 23, 3000

OPERATORS: dict[str, tuple[str, Callable[[Geometry], Any]]] = {
    "max": ("max_pool", MaxParams),
    "max, all ties": ("max_pool", lambda geometry: MaxParams(geometry, ties="all")),
    "avg": ("avg_pool", MeanParams),
    "smooth": ("smooth_max_pool", lambda geometry: SmoothParams(geometry, 1.0)),
}


def arrays(geometry: Geometry, shape: tuple[int, ...], rule: str, dtype: str) -> list[Array]:
    """The arrays of a call; a gradient or tangents beside the input."""
    shapes = {"jvp": [shape, shape], "vjp": [shape, geometry.out_shape(shape)]}.get(rule, [shape])
    rng = np.random.default_rng(0)
    return [rng.standard_normal(each, dtype=np.float32).astype(dtype, copy=False) for each in shapes]


def call(operator: str, rule: str, geometry: Geometry, given: list[Array]) -> Callable[[], Any]:
    name, params = OPERATORS[operator]
    return lambda: run(OPS[name], rule, params(geometry), *given)


# --- memory ------------------------------------------------------------------------------------------------------


def shapes(n: int) -> dict[str, tuple[Geometry, tuple[int, ...]]]:
    """Long axes of every kind, of about n cells."""
    return {
        "3 s1": (Sliding((3,), 1), (n,)),
        "2 s2 padded": (Sliding((2,), 2, 1), (n,)),
        "101 s1": (Sliding((101,), 1), (n,)),
        "first axis": (Sliding((3, 1), 1), (n, 1)),
        "middle axis": (Sliding((2, 3, 1), 1), (2, n // 2, 1)),
        "last of two axes": (Sliding((2, 3), 1), (3, n // 3)),
        "adaptive to many": (Adaptive((n // 3 + 1,)), (n,)),
        "adaptive to 7": (Adaptive((7,)), (n,)),
        "global": (Global(1), (n,)),
        "global, first axis": (Global(2), (n, 1)),
    }


def rules(operator: str) -> list[str]:
    return {"max": ["forward", "with_indices", "jvp", "vjp"], "max, all ties": ["jvp", "vjp"]}.get(
        operator, ["forward", "jvp", "vjp"]
    )


def beyond_output(operator: str, rule: str, kind: str, dtype: str = "float32") -> int:
    """The bytes of memory that a call takes beyond its result. A small one has compiled its kernels before."""
    small, shape = shapes(WARM)[kind]
    call(operator, rule, small, arrays(small, shape, rule, dtype))()
    geometry, shape = shapes(CELLS)[kind]
    work = call(operator, rule, geometry, arrays(geometry, shape, rule, dtype))
    sizes: list[int] = []

    def measured() -> Any:
        result = work()
        sizes.append(sum(part.nbytes for part in (result if isinstance(result, tuple) else (result,))))
        return result

    return peak_extra(measured) - sizes[0]


def memory(only: str) -> dict[str, int]:
    """The bytes beyond the result of every call whose name has the text `only`."""
    wg.set_buffer_cap(0)
    calls = [(operator, rule, kind, "float32") for operator in OPERATORS for rule in rules(operator) for kind in shapes(WARM)]
    calls += [(operator, "forward", "3 s1", dtype) for operator in ("max", "avg") for dtype in ("float16", "int16")]
    named = {f"{operator} {rule}, {kind}, {dtype}": (operator, rule, kind, dtype) for operator, rule, kind, dtype in calls}
    return {name: beyond_output(*call) for name, call in named.items() if only in name}


# --- time --------------------------------------------------------------------------------------------------------


def floor(given: list[Array], outputs: int) -> Callable[[], Any]:
    """A call that moves the bytes of a call, into memory that is warm."""
    a, b = (*given, np.empty(0, np.float32))[:2]
    y = np.zeros(outputs, np.float32)
    size = a.nbytes + b.nbytes + y.nbytes
    blocks = max(1, size // BLOCK)
    return lambda: threads.run(partial(move, a, b, y, blocks), blocks, size)


def times(samples: int, seconds: float) -> None:
    for kernel, stride in ((3, 1), (2, 2), (1001, 1)):
        geometry = Sliding((kernel,), stride)
        for operator in OPERATORS:
            for rule in rules(operator):
                given = arrays(geometry, (samples,), rule, "float32")
                (outputs,) = given[0].shape if rule == "vjp" else geometry.out_shape(given[0].shape)
                calls = {"call": call(operator, rule, geometry, given), "floor": floor(given, outputs)}
                calls["call"]()  # compiles it, and makes the memory of its result
                found = best(calls, rounds=3, seconds=seconds)
                ratio = found["call"] / found["floor"]
                print(
                    f"{operator} {rule}, {kernel} s{stride}: {1e3 * found['call']:.0f} ms, {ratio:.1f}× the floor", flush=True
                )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--only", default="", help="of the calls of --memory, those whose name has this text")
    parser.add_argument("--samples", type=int, default=SAMPLES)
    parser.add_argument("--seconds", type=float, default=3.0)
    chosen = parser.parse_args()
    if chosen.memory:
        print(json.dumps(memory(chosen.only)))
    else:
        wg.set_num_threads(THREADS)
        wg.set_buffer_cap(1 << 30)
        times(chosen.samples, chosen.seconds)
