"""Convolutions drawn at random from what networks use: the seed chooses every row, and the distribution is the result."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import replace

from conv_cases import Case

MOST_BYTES, MOST_FLOPS = 64 << 20, 4e9  # of the arrays and the forward pass of a case

CHANNELS = (1, 3, 16, 24, 32, 48, 64, 96, 128, 160, 256, 512, 1024)
SIDES = (7, 14, 28, 32, 56, 64, 112, 224)
RULES = ("forward", "backward")


def drawn(count: int, seed: int) -> Iterator[Case]:
    """`count` convolutions, each forward and backward: two rows per case."""
    rng = random.Random(seed)
    for _ in range(count):
        case = draw_within(rng)
        for rule in RULES:
            yield replace(case, rule=rule)


def draw_within(rng: random.Random) -> Case:
    """Drawn again, as a whole, until it fits; what would take seconds is no case of a layer."""
    while True:
        case = draw(rng)
        if all(n + 2 * case.padding >= k for n, k in zip(case.size, case.kernel, strict=True)):
            x, *others = case.shapes
            size = 4 * sum(map(math.prod, (x, *others, case.params.out_shape(*case.shapes))))
            if size <= MOST_BYTES and case.flops <= MOST_FLOPS:
                return case


def draw(rng: random.Random) -> Case:
    """One in four is depthwise, one in sixteen a signal, one in sixteen a volume; a third of the images are not square."""
    rank = rng.choices((1, 2, 3), (1, 14, 1))[0]
    size = draw_size(rng, rank)
    kernel = rng.choices((1, 3, 5, 7), (4, 6, 1, 1))[0]
    ins = draw_channels(rng)
    depthwise = kernel > 1 and ins > 1 and rng.random() < 0.25
    outs = ins if depthwise else draw_channels(rng)
    padding = kernel // 2 if rng.random() < 0.75 else 0
    groups = ins if depthwise else 1
    return Case("random", ins, outs, (kernel,) * rank, rng.choice((1, 1, 2)), size, padding, groups, batch=draw_batch(rng))


def draw_size(rng: random.Random, rank: int) -> tuple[int, ...]:
    """Half of the images have the sides that networks are known for, half any side, small ones as often as large ones."""
    least, most = {1: (64, 65536), 2: (7, 224), 3: (5, 48)}[rank]

    def side() -> int:
        return rng.choice(SIDES) if rank == 2 and rng.random() < 0.5 else round(least * (most / least) ** rng.random())

    return (side(),) * rank if rng.random() < 2 / 3 else tuple(side() for _ in range(rank))


def draw_channels(rng: random.Random) -> int:
    return rng.choice(CHANNELS) if rng.random() < 0.5 else round(1024 ** rng.random())


def draw_batch(rng: random.Random) -> int:
    """A third are single images; the others are powers of two, or anything."""
    kind = rng.random()
    return 1 if kind < 1 / 3 else 2 ** rng.randint(1, 5) if kind < 2 / 3 else rng.randint(1, 32)
