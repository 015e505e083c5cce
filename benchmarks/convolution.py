"""How fast convolution is, beside PyTorch (oneDNN), ONNX Runtime, OpenVINO and SciPy, and beside the peak of the machine.

Rows are every distinct convolution of ResNet-50 and MobileNet-V2, the transposed ones of U-Net, a volume, audio, and filters of
one channel; or random ones, with a seed, so that nothing can be tuned to them. forward, and backward, which is the gradients
of input, weight and bias in one call, as either side gives them. All run in turns on the same arrays, on two threads, and
the best call of each counts, under two settings of the allocator. "of peak" is ours against a loop of multiply-adds on
registers, in vectors of 256 or of 512 bits, whichever is faster, measured first in the same run. After all rows comes the
memory of one call (benchmarks/memory.py).

Before a row is timed, our result is compared with those of the others. The cells are small integers, so every sum is exact in
float32 whatever its order: there is no tolerance, and one differing cell stops the benchmark.

    make bench
    python benchmarks/convolution.py --only "forward ResNet-50 64→64 3×3"
    python benchmarks/convolution.py --only "backward MobileNet" --seconds 1 --json here.json --plot here.png
    python benchmarks/convolution.py --random 60 --seed 1 --allocator warm
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import distribution
import numpy as np
import report
from allocators import Timed
from conv_cases import Array, Case, grid
from conv_peers import PEERS
from peak import peaks
from random_convolutions import drawn
from report import FLOOR, OURS
from rich.console import RenderableType
from runner import Benchmark, WrongResultError, main
from timing import Call, best

from windowgrad.ops import OPS

TORCH = "PyTorch"
SLOW = 0.7  # a row below this ratio is named in the summary


def rate(name: str, row: report.Row) -> str:
    return f"{row.work / row.times[name] / 1e9:.1f}"


VIEW = report.View(
    title="Convolution",
    times=(OURS, *PEERS),
    columns={
        f"{OURS} GF/s": lambda row: rate(OURS, row),
        f"{TORCH} GF/s": lambda row: rate(TORCH, row) if TORCH in row.times else "-",
        **report.SPEEDUPS,
        "of peak": lambda row: f"{1 / row.over_floor:.0%}",
    },
    work="flops",
    packages=("torch", "onnxruntime", "openvino", "scipy"),
)


def measured(case: Case, peers: tuple[str, ...], rounds: int, seconds: float) -> Timed:
    """The case, checked and timed."""
    floor = case.flops / max(peaks(case.dtype).values())
    calls = checked(case, peers)
    return Timed(best(calls, rounds, seconds) | {FLOOR: floor}, case.flops)


def checked(case: Case, peers: tuple[str, ...]) -> dict[str, Call]:
    """Ours, and those of the peers that have the case; all compute the same."""
    x, w, b, g = case.arrays()
    if case.filters:  # a filter of an image library has no bias
        b = np.zeros_like(b)
    calls: dict[str, Call] = {OURS: ours(case, x, w, b, g)}
    calls |= {name: call for name in peers if (call := PEERS[name](case, x, w, b, g)) is not None}
    check(case, calls)
    return calls


def ours(case: Case, x: Array, w: Array, b: Array, g: Array) -> Call:
    op, params = OPS["conv_transpose" if case.transposed else "conv"], case.params
    return (lambda: op.forward(params, x, w, b)) if case.rule == "forward" else (lambda: op.vjp(params, x, w, b, g))


def check(case: Case, calls: dict[str, Call]) -> None:
    """Ours is what the peers compute, to the last cell. This also warms all up: whatever compiles has compiled."""
    names = ("input's gradient", "weight's gradient", "bias's gradient") if case.rule == "backward" else ("output",)
    results = {who: call() if case.rule == "backward" else (call(),) for who, call in calls.items()}
    own = results.pop(OURS)
    for peer, parts in results.items():
        for name, mine, theirs in zip(names, own, parts, strict=True):
            differ = int(np.sum(mine != np.asarray(theirs)))
            if mine.dtype != case.dtype or differ:
                raise WrongResultError(f"{case.name}: {differ} of {mine.size} cells of the {name} are not those of {peer}")


def summary(rows: list[report.Row]) -> Iterator[RenderableType]:
    yield "peak " + ", ".join(f"{rate / 1e9:.0f} GF/s with vectors of {bits} bits" for bits, rate in peaks().items())
    for allocator in rows[0].settings:
        for rule in ("forward", "backward"):
            ratios = [ratio for row in rows if row.case.rule == rule and (ratio := row.over(TORCH, allocator)) is not None]
            if ratios:
                ahead = sum(ratio > 1 for ratio in ratios)
                mean = report.times(report.geometric_mean(ratios))
                counted = f"faster in {ahead} of {len(ratios)} rows"
                yield f"{rule}, {allocator} allocator: {mean} PyTorch (geometric mean), {counted}"
    slow = sorted((row for row in rows if (row.speedup or 1) < SLOW), key=lambda row: row.speedup or 1)
    yield "\n".join([f"below {SLOW}×: {len(slow)} rows", *(f"  {report.times(row.speedup)} {row.case.name}" for row in slow)])
    yield from distribution.summary(rows, tuple(PEERS))


def memory() -> dict[str, Any]:
    """What one forward call needs besides its arguments, in an interpreter of its own."""
    found = subprocess.run([sys.executable, str(Path(__file__).with_name("memory.py"))], capture_output=True, check=True)
    return {f"memory of {key}": {"MiB": round(size / 2**20, 1)} for key, size in json.loads(found.stdout).items()}


if __name__ == "__main__":
    description = "Convolution beside PyTorch, ONNX Runtime, OpenVINO and SciPy."
    cases, peers = list(grid()), tuple(PEERS)
    benchmark = Benchmark(
        "convolution", description, cases, peers, measured, VIEW, summary, seconds=4, also=memory, random=drawn
    )
    sys.exit(main(benchmark))
