"""The network: two convolutions with a pooling between them, and a dense layer."""

from __future__ import annotations

from typing import Any

import windowgrad as wg
from windowgrad import nn
from windowgrad.errors import OptionError, show

POOLS: dict[str, nn.Layer] = {
    "max": nn.MaxPool((2, 2)),
    "smooth": nn.SmoothMaxPool((2, 2), beta=4),
    "avg": nn.AvgPool((2, 2)),
}
IMAGE = (1, 8, 8)
CLASSES = 10


def network(pool: str) -> nn.Sequential:
    """The network with that pooling."""
    if pool not in POOLS:
        raise OptionError(f"--pool={show(pool)}: must be {', '.join(list(POOLS)[:-1])} or {list(POOLS)[-1]}")
    return nn.Sequential(
        nn.Conv(8, (3, 3), padding=1),
        nn.ReLU(),
        POOLS[pool],
        nn.Conv(16, (3, 3), padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(CLASSES),
    )


def loss(model: nn.Sequential, params: Any, images: Any, labels: Any) -> Any:
    """What training makes small."""
    return wg.cross_entropy(model(params, images), labels)


def accuracy(model: nn.Sequential, params: Any, images: Any, labels: Any) -> float:
    """The part of the images whose digit the network names."""
    return float((model(params, images).argmax(axis=-1) == labels).mean())
