"""Cases drawn at random from what networks use. Nobody chooses a row: the seed does, and the distribution is the result."""

from __future__ import annotations

import random
from collections.abc import Iterator

from cases import OPS, Case, size_of

from windowgrad.geometry import Adaptive, Geometry, Global, Sliding

MOST = 64 << 20  # bytes of a case's arrays
RULES = ("forward", "backward", "both")

SIDES = {1: (64, 65536), 2: (7, 224), 3: (5, 48)}  # the least and the greatest side of an image, by rank
ROUND = {1: (256, 1000, 4096, 16000, 65536), 2: (7, 14, 28, 32, 56, 64, 96, 112, 128, 224), 3: (8, 16, 28, 32)}
CHANNELS = (1, 3, 16, 32, 64, 96, 128, 192, 256)


def drawn(count: int, seed: int) -> Iterator[Case]:
    """`count` geometries and shapes with one operator each, forward, backward and both: three rows per case.

    A quarter of the images have their channels last; one case in eight is of float64, and one of float16.
    """
    rng = random.Random(seed)
    for _ in range(count):
        op = rng.choice(OPS)
        name, geometry, shape = draw_within(rng)
        last = geometry.rank == 2 and shape[1] > 1 and rng.random() < 0.25
        dtype = rng.choices(("float32", "float64", "float16"), (6, 1, 1))[0]
        for rule in RULES:
            yield Case(op, rule, name, geometry, shape, last, dtype)


def draw_within(rng: random.Random) -> tuple[str, Geometry, tuple[int, ...]]:
    """Drawn again, as a whole, until it fits."""
    while True:
        rank = rng.choices((1, 2, 3), (2, 7, 1))[0]
        spatial = draw_image(rng, rank)
        name, geometry = draw_geometry(rng, rank)
        shape = (draw_batch(rng), draw_channels(rng), *spatial)
        if is_possible(geometry, spatial) and size_of(shape, geometry) <= MOST:
            return name, geometry, shape


def draw_image(rng: random.Random, rank: int) -> tuple[int, ...]:
    """Half of the images have the sides that networks are known for, half any side, small ones as often as large ones.

    A third is not square.
    """

    def side() -> int:
        least, most = SIDES[rank]
        return rng.choice(ROUND[rank]) if rng.random() < 0.5 else round(least * (most / least) ** rng.random())

    if rng.random() < 2 / 3:
        return (side(),) * rank
    return tuple(side() for _ in range(rank))


def draw_channels(rng: random.Random) -> int:
    return rng.choice(CHANNELS) if rng.random() < 0.5 else round(256 ** rng.random())


def draw_batch(rng: random.Random) -> int:
    """A third are single images; the others are powers of two, or anything."""
    kind = rng.random()
    return 1 if kind < 1 / 3 else 2 ** rng.randint(1, 5) if kind < 2 / 3 else rng.randint(1, 32)


def draw_geometry(rng: random.Random, rank: int) -> tuple[str, Geometry]:
    kind = rng.choices(("sliding", "global", "adaptive"), (7, 1, 2))[0]
    if kind == "global":
        return "global", Global(rank)
    if kind == "adaptive":
        bins = rng.randint(1, 7)
        return f"adaptive {'×'.join([str(bins)] * rank)}", Adaptive((bins,) * rank)
    if rank > 1 and rng.random() < 0.25:
        sides = [draw_side(rng, (1, 2, 3, 4, 5)) for _ in range(rank)]  # windows that are oblong, or of one axis
    else:
        sides = [draw_side(rng, (2, 2, 2, 2, 3, 3, 3, 3, 5, 7))] * rank
    kernel, stride, padding = map(list, zip(*sides, strict=True))
    ceil_mode = rng.random() < 0.25
    pads = f" p{told(padding)}" if any(padding) else ""
    name = f"{'×'.join(map(str, kernel))} s{told(stride)}{pads}{' ceil' if ceil_mode else ''}"
    return name, Sliding(kernel, stride, padding, ceil_mode=ceil_mode)


def draw_side(rng: random.Random, kernels: tuple[int, ...]) -> tuple[int, int, int]:
    """(kernel, stride, padding) of an axis."""
    kernel = rng.choice(kernels)
    return kernel, rng.choice(sorted({1, 2, kernel})), rng.choice((0, kernel // 2))


def told(numbers: list[int]) -> str:
    """One number if all are the same."""
    return str(numbers[0]) if len(set(numbers)) == 1 else "×".join(map(str, numbers))


def is_possible(geometry: Geometry, spatial: tuple[int, ...]) -> bool:
    """A window fits into every image, and there are no more bins than cells."""
    if isinstance(geometry, Sliding):
        return all(n >= k for n, k in zip(spatial, geometry.kernel, strict=True))
    return not isinstance(geometry, Adaptive) or all(n >= m for n, m in zip(spatial, geometry.grid(spatial), strict=True))
