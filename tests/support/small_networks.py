"""Small random networks with every geometry: what bounds are tried on."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from windowgrad import nn
from windowgrad.autograd import trees
from windowgrad.errors import WindowgradError

SMOOTH = (nn.Tanh, nn.SmoothMaxPool, nn.AdaptiveSmoothMaxPool)
MOST = 300
"""The most cells of a value: exact fractions are slow."""


def windows(rng, rank):
    each = lambda low, high: tuple(int(n) for n in rng.integers(low, high, rank))  # noqa: E731  # three times in one line
    padding = tuple(zip(each(0, 4), each(0, 4), strict=True))
    options = {"stride": each(1, 4), "padding": padding, "dilation": each(1, 3)}
    return {"kernel_size": each(1, 4), **options, "ceil_mode": bool(rng.integers(2))}


def layer(rng, rank, channels, smooth):
    sizes = tuple(int(n) for n in rng.integers(1, 5, rank))
    padded = bool(rng.integers(2))
    choices = [
        lambda: nn.Conv(
            int(rng.integers(1, 4)), tuple(min(n, 3) for n in sizes), int(rng.integers(1, 3)), int(rng.integers(0, 3))
        ),
        lambda: nn.Conv(channels, (2,) * rank, dilation=int(rng.integers(1, 3)), groups=channels),
        lambda: nn.ConvTranspose(2, (2,) * rank, stride=int(rng.integers(1, 3))),
        nn.ReLU,
        nn.ReLU6,
        lambda: nn.MaxPool(**windows(rng, rank)),
        lambda: nn.MaxPool(**windows(rng, rank)),
        lambda: nn.MinPool(**windows(rng, rank)),
        lambda: nn.AvgPool(count_include_pad=padded, **windows(rng, rank)),
        lambda: nn.AdaptiveMaxPool(sizes),
        lambda: nn.AdaptiveAvgPool(sizes),
        lambda: nn.Residual(nn.Sequential(nn.Conv(channels, (1,) * rank), nn.ReLU())),
    ]
    if smooth:
        beta = float(rng.choice([-3.0, 0.5, 8.0]))
        choices += [
            nn.Tanh,
            lambda: nn.SmoothMaxPool(beta=beta, count_include_pad=padded, **windows(rng, rank)),
            lambda: nn.AdaptiveSmoothMaxPool(sizes, beta=beta),
        ]
    return choices[rng.integers(len(choices))]()


def network(seed, smooth=False):
    """(model, params, lo, hi): one to four layers of any geometry, perhaps a linear one after them, and a box of inputs."""
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    shape = (1, int(rng.integers(1, 3)), *(int(n) for n in rng.integers(2, 6, rank)))
    layers, at = [], shape
    while len(layers) < 1 + seed % 4:
        new = layer(rng, rank, at[1], smooth)
        try:
            out = new.out_shape(at)
        except WindowgradError:
            continue
        if np.prod(out) <= MOST:
            layers.append(new)
            at = out
    if rng.integers(2):
        layers += [nn.Flatten(), nn.Linear(2)]
    model = nn.Sequential(*layers)
    params = model.init(rng, shape)
    middle, radius = rng.normal(size=shape).astype(np.float32), np.float32(rng.choice([0.01, 0.1, 1.0]))
    return model, params, middle - radius, middle + radius


def points(rng, lo, hi, count):
    """Corners of a box, and points inside it."""
    for number in range(count):
        part = rng.integers(0, 2, lo.shape) if number % 2 else rng.random(lo.shape)
        yield np.clip((lo + (hi - lo) * part).astype(lo.dtype), lo, hi)


def exactly(tree):
    """Nested arrays of floats as arrays of fractions."""
    leaves, structure = trees.flatten(tree)
    found = []
    for leaf in leaves:
        cells = np.empty(leaf.size, object)
        cells[:] = [Fraction(cell) for cell in leaf.reshape(-1).astype(float).tolist()]
        found.append(cells.reshape(leaf.shape))
    return trees.unflatten(structure, found)


def inside(lower, upper, y):
    """Whether every cell of y, fractions or floats, lies within the bounds: compared exactly."""
    ends = zip(lower.reshape(-1).tolist(), y.reshape(-1).tolist(), upper.reshape(-1).tolist(), strict=True)
    return all(low <= cell <= high for low, cell, high in ends)
