"""scikit-learn's digits: 1797 grey images of 8×8 cells, some to learn from and some to test with."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from windowgrad.errors import KindError

LEARNED = 1437
"""How many images are learned from; the other 360 are for testing."""


class Digits(NamedTuple):
    """Images (n, 1, 8, 8) in float32, around 0 and about as large as 1, and the digits they show."""

    images: Any
    labels: Any

    def __len__(self) -> int:
        return len(self.labels)


def digits() -> tuple[Digits, Digits]:
    """The images to learn from and those to test with. The cut is the same whatever the seed of a run."""
    try:
        import matplotlib  # noqa: F401  # the picture at the end needs it, and says so now
        from sklearn.datasets import load_digits
    except ImportError:
        raise KindError("the demonstration needs more packages: pip install scikit-learn matplotlib pillow") from None
    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    images = ((data.images - 5) / 6).astype(np.float32)[order, None]  # cells are 0 to 16: 5 is their mean, 6 their spread
    labels = data.target[order]
    return Digits(images[:LEARNED], labels[:LEARNED]), Digits(images[LEARNED:], labels[LEARNED:])
