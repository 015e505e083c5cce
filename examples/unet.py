"""A small U-Net finds discs in noisy images: down with pooling, up with transposed convolutions, joined on every level.

python examples/unet.py --steps 60 --picture unet.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import windowgrad as wg
from windowgrad import nn


def unit(width):
    """Two convolutions, each with batch normalisation and a ReLU."""
    layers = [[nn.Conv(width, (3, 3), padding=1, bias=False), nn.BatchNorm(), nn.ReLU()] for _ in range(2)]
    return nn.Sequential(*layers[0], *layers[1])


PARTS = {
    "down1": unit(8), "down2": unit(16), "bottom": unit(32),
    "up2": nn.ConvTranspose(16, (2, 2), 2), "join2": unit(16),
    "up1": nn.ConvTranspose(8, (2, 2), 2), "join1": unit(8),
    "head": nn.Conv(2, (1, 1)),
}  # fmt: skip
INS = {"down1": 1, "down2": 8, "bottom": 16, "up2": 32, "join2": 32, "up1": 16, "join1": 16, "head": 8}
"""The channels of what goes in."""


def unet(run, x):
    """Two scores for each cell; `run(name, x)` applies a part."""
    top = run("down1", x)
    middle = run("down2", wg.max_pool2d(top, 2))
    bottom = run("bottom", wg.max_pool2d(middle, 2))
    middle = run("join2", wg.concatenate([run("up2", bottom), middle], axis=1))
    top = run("join1", wg.concatenate([run("up1", middle), top], axis=1))
    return wg.transpose(run("head", top), (0, 2, 3, 1))


def init(rng, dtype=np.float32):
    return {name: part.init(rng, (1, INS[name], 8, 8), dtype) for name, part in PARTS.items()}


def scores(params, x):
    """As in inference, with the running statistics."""
    return unet(lambda name, x: PARTS[name](params[name], x), x)


def loss(params, x, labels):
    """The loss in training, and the parameters with new statistics."""
    new = {}

    def run(name, x):
        y, new[name] = PARTS[name].train(params[name], x)
        return y

    return wg.cross_entropy(unet(run, x), labels), new


def discs(rng, count, side=32):
    """Noisy images with a disc or two, and which cells are in one."""
    y, x = np.mgrid[:side, :side]
    labels = np.zeros((count, side, side), np.int64)
    for image in labels:
        for _ in range(rng.integers(1, 3)):
            (a, b), r = rng.integers(4, side - 4, 2), rng.integers(3, 8)
            image[(y - a) ** 2 + (x - b) ** 2 < r * r] = 1
    return (labels[:, None] + rng.normal(0, 0.8, (count, 1, side, side))).astype(np.float32), labels


def train(params, steps, rng, optimiser, batch=8):
    """(loss, parameters) after each step."""
    state, gradients = optimiser.init(params), wg.value_and_grad(loss, has_aux=True)
    for _ in range(steps):
        (value, params), grads = gradients(params, *discs(rng, batch))
        params, state = optimiser.update(params, grads, state)
        yield value, params


def right(params, x, labels):
    """The part of the cells that are classified as they should be."""
    return float((scores(params, x).argmax(axis=-1) == labels).mean())


def draw(path, x, labels, found):
    figure = Figure(figsize=(len(x) * 1.1, 3.9), layout="constrained")
    rows = zip(figure.subplots(3, len(x)), (x[:, 0], labels, found), ("images", "discs", "found"), strict=True)
    for line, row, name in rows:
        for axes, image in zip(line, row, strict=True):
            axes.imshow(image, cmap="gray")
            axes.axis("off")
        line[0].set_title(name, loc="left")
    figure.savefig(path, dpi=100)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, default=Path("unet.png"))
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    tests = discs(np.random.default_rng(options.seed + 1), 32)
    params = init(rng)
    print(f"cells that are no disc: {1 - tests[1].mean():.1%}")
    for step, (value, params) in enumerate(train(params, options.steps, rng, nn.adam(0.01)), 1):  # noqa: B020  # the old are done with
        if step % 20 == 0 or step == options.steps:
            print(f"step {step:3}: loss {value:.4f}, cells of test images classified right {right(params, *tests):.1%}")
    x, labels = tests
    draw(options.picture, x[:6], labels[:6], scores(params, x[:6]).argmax(axis=-1))
    print(f"wrote {options.picture}")


if __name__ == "__main__":
    main()
