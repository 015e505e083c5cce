"""How fast convolution is, beside PyTorch (oneDNN), and beside the most multiply-adds that the machine does.

Rows are every distinct convolution of ResNet-50 and MobileNet-V2, the transposed ones of U-Net, a volume and audio; forward,
and backward, which is the gradients of input, weight and bias in one call, as either side gives them. Both sides run in turns
on the same arrays, float32 on two threads, and the best call of each counts, under two settings of the allocator. "of peak" is
ours against a loop of multiply-adds on registers, measured first in the same run. After all rows comes the memory of one call
(benchmarks/memory.py).

Before a row is timed, our result is compared with PyTorch's. The cells are small integers, so every sum is exact in float32
whatever its order: there is no tolerance, and one differing cell stops the benchmark.

    make bench
    python benchmarks/convolution.py --only "forward ResNet-50 64→64 3×3"
    python benchmarks/convolution.py --only "backward MobileNet" --seconds 1 --json here.json --plot here.png
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import report
import torch
from allocators import Timed
from conv_cases import Array, Case, grid
from peak import peak
from report import FLOOR, OURS
from runner import Benchmark, WrongResultError, main
from timing import Call, best

from windowgrad.ops import OPS

TORCH = "PyTorch"
SLOW = 0.7  # a row below this ratio is named in the summary


def rate(name: str, row: report.Row) -> str:
    return f"{row.work / row.times[name] / 1e9:.1f}"


VIEW = report.View(
    subject="convolution, speed-up over PyTorch",
    times=(OURS, TORCH),
    columns={
        f"{OURS} GF/s": lambda row: rate(OURS, row),
        f"{TORCH} GF/s": lambda row: rate(TORCH, row),
        **report.SPEEDUPS,
        "of peak": lambda row: f"{1 / row.over_floor:.0%}",
    },
    colours={"batch 1 (volume: 2)": "#2f6db3", "batch 16": "#e08a1e"},
    work="flops",
    packages=("torch",),
)


def measured(case: Case, peers: tuple[str, ...], rounds: int, seconds: float) -> Timed:
    """The case, checked and timed."""
    floor = case.flops / peak()
    arrays = case.arrays()
    calls = {OURS: ours(case, *arrays)} | {name: by_torch(case, *arrays) for name in peers}
    check(case, calls)
    return Timed(best(calls, rounds, seconds) | {FLOOR: floor}, case.flops)


def ours(case: Case, x: Array, w: Array, b: Array, g: Array) -> Call:
    op, params = OPS["conv_transpose" if case.transposed else "conv"], case.params
    return (lambda: op.forward(params, x, w, b)) if case.rule == "forward" else (lambda: op.vjp(params, x, w, b, g))


def by_torch(case: Case, *arrays: Array) -> Call:
    """The operators under `torch.nn.functional` and its backward; neither records anything for later."""
    x, w, b, g = map(torch.from_numpy, arrays)
    rank = len(case.kernel)
    geometry = (*((step,) * rank for step in (case.stride, case.padding, 1)), case.transposed, (0,) * rank, case.groups)
    if case.rule == "forward":
        return torch.inference_mode()(lambda: torch.ops.aten.convolution(x, w, b, *geometry))
    needed = (True, True, True)
    return torch.inference_mode()(lambda: torch.ops.aten.convolution_backward(g, x, w, b.shape, *geometry, needed))


def check(case: Case, calls: dict[str, Call]) -> None:
    """Ours is what PyTorch computes, to the last cell. This also warms both up: whatever compiles has compiled."""
    results = [call() if case.rule == "backward" else (call(),) for call in calls.values()]
    names = ("input's gradient", "weight's gradient", "bias's gradient") if case.rule == "backward" else ("output",)
    for name, mine, theirs in zip(names, *results, strict=True):
        differ = int(np.sum(mine != theirs.numpy()))
        if mine.dtype != np.float32 or differ:
            raise WrongResultError(f"{case.name}: {differ} of {mine.size} cells of the {name} are not PyTorch's")


def summary(rows: list[report.Row]) -> list[str]:
    lines = [f"peak {max(row.work / row.times[FLOOR] for row in rows) / 1e9:.0f} GF/s"]
    for allocator in rows[0].settings:
        for rule in ("forward", "backward"):
            ratios = [ratio for row in rows if row.case.rule == rule and (ratio := row.over(TORCH, allocator)) is not None]
            if ratios:
                ahead = sum(ratio > 1 for ratio in ratios)
                mean = report.times(report.geometric_mean(ratios))
                counted = f"faster in {ahead} of {len(ratios)} rows"
                lines.append(f"{rule}, {allocator} allocator: {mean} PyTorch (geometric mean), {counted}")
    slow = sorted((row for row in rows if row.speedup < SLOW), key=lambda row: row.speedup)
    lines.append(f"below {SLOW}×: {len(slow)} rows")
    return lines + [f"  {report.times(row.speedup)} {row.case.name}" for row in slow]


def memory() -> dict[str, Any]:
    """What one forward call needs besides its arguments, in an interpreter of its own."""
    found = subprocess.run([sys.executable, str(Path(__file__).with_name("memory.py"))], capture_output=True, check=True)
    return {f"memory of {key}": {"MiB": round(size / 2**20, 1)} for key, size in json.loads(found.stdout).items()}


if __name__ == "__main__":
    description = "Convolution beside PyTorch."
    sys.exit(
        main(Benchmark("convolution", description, list(grid()), (TORCH,), measured, VIEW, summary, seconds=4, also=memory))
    )
