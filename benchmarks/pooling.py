"""How fast pooling is, beside PyTorch, JAX and ONNX Runtime, and beside the time that moving the same bytes takes.

All run on the same arrays in turns, on two threads, and the best call of each counts, under two settings of the allocator
(`allocators.py`). Before a row is timed, what this project computes is compared with its peers: a wrong result stops the
benchmark. Rows are a fixed grid, or cases drawn at random from what networks use, with a seed, so that nothing can be tuned to
them; what is reported is then the distribution.

    make bench
    python benchmarks/pooling.py --only "max forward 3×3"
    python benchmarks/pooling.py --random 100 --seed 1
    python benchmarks/pooling.py --random 30 --seed 7 --peers PyTorch --allocator warm --only "max backward"
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import distribution
import numpy as np
import report
from allocators import Timed
from cases import Array, Case, grid
from floor import floor
from peers import PEERS, ours, parts_of
from random_cases import drawn
from report import FLOOR, OURS
from rich.console import RenderableType
from runner import Benchmark, WrongResultError, main
from timing import Call, best
from torch_peer import composed
from windows import measured as also

TIED = 1e-5  # the part of a peer's gradient that may lie elsewhere: equal maxima, of which JAX may take another
CLOSE = {"float16": (1e-2, 1e-2)}  # PyTorch rounds each sum of gradients to 16 bits

VIEW = report.View(
    title="Pooling",
    times=(OURS, *PEERS, FLOOR),
    columns=report.SPEEDUPS | {"time over floor": lambda row: report.times(row.over_floor)},
    work="bytes",
    packages=("torch", "jax", "onnxruntime"),
)


def measured(case: Case, peers: tuple[str, ...], rounds: int, seconds: float) -> Timed:
    """The case, checked and timed."""
    x, g = case.arrays()
    calls = checked(case, x, g, peers) | {FLOOR: floor(case, x, g)}
    calls[FLOOR]()  # compiles it
    sources, written = case.moved(x, g)
    size = sum(source.nbytes for source in sources) + x.itemsize * written
    return Timed(best(calls, rounds, seconds), size)


def checked(case: Case, x: Array, g: Array, peers: tuple[str, ...]) -> dict[str, Call]:
    """Ours, and those of the peers that have the case; all compute the same."""
    calls: dict[str, Call] = {OURS: ours(case, x, g)}
    calls |= {name: call for name in peers if (call := PEERS[name](case, x, g)) is not None}
    check(case, x, g, calls)
    return calls


def check(case: Case, x: Array, g: Array, calls: dict[str, Call]) -> None:
    """Ours is what the peers compute. This also warms everybody up: whatever compiles has compiled."""
    result = parts_of(case, OURS, calls[OURS]())
    for peer in [name for name in calls if name != OURS]:
        for mine, theirs in zip(result, parts_of(case, peer, calls[peer]()), strict=True):
            differ = differing(case, mine, theirs)
            allowed = 0 if peer == "PyTorch" or case.op != "max" or mine.shape != x.shape else TIED * mine.size
            if differ > allowed:
                raise WrongResultError(f"{case.name}: {differ} of {mine.size} cells are not those of {peer}")
    if len(calls) == 1 and case.op == "smooth":  # one image shows a wrong kernel, and its windows cut out still fit into memory
        for mine, theirs in zip(result, composed(case, x[:1], g[:1]), strict=True):
            if differ := differing(case, mine[:1], theirs):
                raise WrongResultError(f"{case.name}: {differ} cells of the first image are wrong")


def differing(case: Case, a: Array, b: Array) -> int:
    """How many cells are not close; image by image, since a large comparison needs several times its memory."""
    if a.shape != b.shape or a.dtype != b.dtype:
        raise WrongResultError(f"{case.name}: {a.dtype}{a.shape} is not {b.dtype}{b.shape}")
    rtol, atol = CLOSE.get(case.dtype, (1e-4, 1e-5))
    return sum(int(np.sum(~np.isclose(one, other, rtol=rtol, atol=atol))) for one, other in zip(a, b, strict=True))


def summary(rows: list[report.Row]) -> Iterator[RenderableType]:
    for allocator in rows[0].settings:
        if ratios := [ratio for row in rows if (ratio := row.over(allocator=allocator)) is not None]:
            wins = sum(ratio > 1 for ratio in ratios)
            yield f"{allocator} allocator: faster than every peer in {wins} of {len(ratios)} rows that have one"
    yield from distribution.summary(rows, tuple(PEERS))


if __name__ == "__main__":
    description = "Pooling beside PyTorch, JAX and ONNX Runtime."
    cases, peers = list(grid()), tuple(PEERS)
    benchmark = Benchmark("pooling", description, cases, peers, measured, VIEW, summary, seconds=10, also=also, random=drawn)
    sys.exit(main(benchmark))
