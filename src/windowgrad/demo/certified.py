"""How far each cell of an image may move while the network provably reads the same digit."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from windowgrad import certify
from windowgrad.demo.digits import Digits
from windowgrad.demo.network import CLASSES, network

IMAGES = 6
WIDEST = 0.25
TIMES = 8
"""How often the interval of the radius is halved."""


class Certified(NamedTuple):
    """A test image that is read right, and the radius that is proved, for every evaluation in float32."""

    place: int
    digit: int
    radius: float


def certified(pool: str, params: Any, tested: Digits, images: int = IMAGES) -> list[Certified]:
    """The radii of the first test images that are read right, each the largest that bisection proves."""
    model = network(pool)
    right = np.flatnonzero(model(params, tested.images).argmax(axis=-1) == tested.labels)[:images]
    return [Certified(int(i), int(tested.labels[i]), radius((model, params), tested, int(i))) for i in right]


def radius(net: Any, tested: Digits, place: int) -> float:
    x, goal = tested.images[place : place + 1], certify.label_stays(int(tested.labels[place]), CLASSES)
    low, high = 0.0, WIDEST
    for _ in range(TIMES):
        middle = 0.5 * (low + high)
        found = certify.prove(net, x - middle, x + middle, goal, method="linear", arithmetic="float32", attack=False)
        low, high = (middle, high) if found.verdict == "holds" else (low, middle)
    return low
