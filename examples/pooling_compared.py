"""Maximum, mean and what lies between: the same network with each pooling, on the same images.

The smooth maximum less its value on equal cells, (1/β)·log(mean of exp(β·x)), is the mean where β is small and the
maximum where β is large. The picture shows the way from the one to the other.

    python examples/pooling_compared.py --epochs 4 --seeds 3 --picture pooling_compared.png
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

import windowgrad as wg
from windowgrad import nn

BATCH, TESTED = 32, 500


@dataclass(frozen=True, repr=False)
class Between(nn.Layer):
    """A layer of one's own: the smooth maximum of 2×2 windows, less its value on equal cells."""

    beta: float

    def result(self, shape):
        return nn.SmoothMaxPool((2, 2), beta=self.beta).result(shape)

    def apply(self, params, x):
        return wg.subtract(wg.smooth_max_pool2d(x, 2, beta=self.beta), math.log(4) / self.beta)


def network(pool):
    return nn.Sequential(
        nn.Conv(8, (3, 3), padding=1),
        nn.ReLU(),
        pool,
        nn.Conv(16, (3, 3), padding=1),
        nn.ReLU(),
        pool,
        nn.Flatten(),
        nn.Linear(10),
    )


def tested_loss(pool, images, labels, epochs, seed):
    """The loss and the accuracy on the last images of a network trained on the others."""
    model, rng = network(pool), np.random.default_rng(seed)
    learned = len(images) - TESTED
    params, optimiser = model.init(rng, (BATCH, *images.shape[1:])), nn.adam(0.005)
    state, gradient = optimiser.init(params), wg.grad(lambda p, x, y: wg.cross_entropy(model(p, x), y))
    for _ in range(epochs):
        for chosen in np.array_split(rng.permutation(learned), -(-learned // BATCH)):
            params, state = optimiser.update(params, gradient(params, images[chosen], labels[chosen]), state)
    logits, wanted = model(params, images[learned:]), labels[learned:]
    return float(wg.cross_entropy(logits, wanted)), float((logits.argmax(axis=-1) == wanted).mean())


def draw(path, betas, smooth, maximum, mean):
    """Loss and accuracy over β, with the maximum and the mean as lines across. Bars are the spread over the seeds."""
    figure = Figure(figsize=(6.4, 5.4), layout="constrained")
    for axes, place, name in zip(figure.subplots(2, 1, sharex=True), (0, 1), ("test loss", "test accuracy"), strict=True):
        values = smooth[:, :, place]
        axes.errorbar(betas, values.mean(1), values.std(1), color="#3f9c5a", marker="o", capsize=3, label="smooth maximum")
        for label, row, colour in (("maximum", maximum, "#2f6db3"), ("mean", mean, "#e08a1e")):
            middle, spread = row[:, place].mean(), row[:, place].std()
            axes.axhline(middle, color=colour, label=label)
            axes.axhspan(middle - spread, middle + spread, color=colour, alpha=0.12, linewidth=0)
        axes.set_xscale("log", base=2)
        axes.set_title(name)
        axes.grid(alpha=0.25)
    axes.set_xlabel("β")
    axes.legend()
    figure.savefig(path, dpi=100)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=3, help="how many networks are trained with each pooling")
    parser.add_argument("--images", type=int, default=1797, help=f"how many; {TESTED} of them are for testing")
    parser.add_argument("--betas", type=float, nargs="+", default=[0.125, 0.25, 0.5, 1, 2, 4, 8, 16, 32])
    parser.add_argument("--picture", type=Path, default=Path("pooling_compared.png"))
    options = parser.parse_args()

    data = load_digits()
    images = ((data.images - 5) / 6).astype(np.float32)[-options.images :, None]
    labels = data.target[-options.images :]

    def measured(name, pool):
        found = np.array([tested_loss(pool, images, labels, options.epochs, seed) for seed in range(options.seeds)])
        loss, right = found.mean(axis=0)
        print(f"{name:14} loss {loss:.4f}  accuracy {100 * right:5.1f} %", flush=True)
        return found

    mean = measured("mean", nn.AvgPool((2, 2)))
    smooth = np.array([measured(f"smooth β={beta:g}", Between(beta)) for beta in options.betas])
    maximum = measured("maximum", nn.MaxPool((2, 2)))
    draw(options.picture, options.betas, smooth, maximum, mean)
    print(f"wrote {options.picture}")


if __name__ == "__main__":
    main()
