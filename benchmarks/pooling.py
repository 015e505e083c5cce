"""How fast pooling is, beside PyTorch, JAX and ONNX Runtime, and beside the time that moving the same bytes takes.

All run on the same arrays in turns, float32 on two threads, and the best call of each counts. Before a row is timed, what
this project computes is compared with its peers: a wrong result stops the benchmark.

    make bench
    python benchmarks/pooling.py --only "max forward 3×3"
"""

from __future__ import annotations

import sys

import numpy as np
import report
from cases import Array, Case, grid
from floor import floor
from peers import PEERS, array_of, composed, ours
from report import FLOOR, OURS
from runner import Benchmark, WrongResultError, main
from timing import Call, best
from windows import measured as also

TIED = 1e-5  # the part of a peer's gradient that may lie elsewhere: equal maxima, of which JAX may take another

VIEW = report.View(
    subject="speed-up over the fastest peer",
    times=(OURS, *PEERS, FLOOR),
    columns={"speed-up over fastest peer": report.speedup, "time over floor": lambda row: report.times(row.over_floor)},
    colours={"max pooling": "#2f6db3", "avg pooling": "#e08a1e", "smooth pooling": "#3f9c5a"},
    work="bytes",
    packages=("torch", "jax", "onnxruntime"),
)


def measured(case: Case, rounds: int, seconds: float) -> report.Row:
    """The case, checked and timed."""
    x, g = case.arrays()
    calls: dict[str, Call] = {OURS: ours(case, x, g)}
    calls |= {name: call for name, prepare in PEERS.items() if (call := prepare(case, x, g)) is not None}
    check(case, x, g, calls)
    calls[FLOOR] = floor(case, x, g)
    calls[FLOOR]()  # compiles it
    sources, written = case.moved(x, g)
    size = sum(source.nbytes for source in sources) + 4 * int(np.prod(written))
    return report.Row(case, best(calls, rounds, seconds), size)


def check(case: Case, x: Array, g: Array, calls: dict[str, Call]) -> None:
    """Ours is what the peers compute. This also warms everybody up: whatever compiles has compiled."""
    result = calls[OURS]()
    for peer in [name for name in calls if name != OURS]:
        differ = differing(result, array_of(case, peer, calls[peer]()))
        allowed = 0 if peer == "PyTorch" or (case.op, case.rule) != ("max", "backward") else TIED * result.size
        if differ > allowed:
            raise WrongResultError(f"{case.name}: {differ} of {result.size} cells are not those of {peer}")
    if len(calls) == 1:  # one image is enough to see a wrong kernel, and its windows cut out still fit into memory
        differ = differing(result[:1], composed(case, x[:1], g[:1]))
        if differ:
            raise WrongResultError(f"{case.name}: {differ} cells of the first image are wrong")


def differing(a: Array, b: Array) -> int:
    """How many cells are not close; image by image, since a large comparison needs several times its memory."""
    if a.shape != b.shape or a.dtype != b.dtype:
        raise WrongResultError(f"{a.dtype}{a.shape} is not {b.dtype}{b.shape}")
    return sum(int(np.sum(~np.isclose(one, other, rtol=1e-4, atol=1e-5))) for one, other in zip(a, b, strict=True))


def summary(rows: list[report.Row]) -> str:
    ratios = sorted(row.speedup for row in rows if row.speedup is not None)
    if not ratios:
        return "no peer has any of these rows"
    least, middle, wins = ratios[0], ratios[len(ratios) // 2], sum(ratio > 1 for ratio in ratios)
    found = f"least {report.times(least)}, median {report.times(middle)}"
    return f"faster than every peer in {wins} of {len(ratios)} rows that have one; {found}"


if __name__ == "__main__":
    description = "Pooling beside PyTorch, JAX and ONNX Runtime."
    sys.exit(main(Benchmark("pooling", description, list(grid()), measured, VIEW, summary, seconds=10, also=also)))
