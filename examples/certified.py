"""Certify a small network that was trained here: the largest radius around each digit within which its label provably stays.

python examples/certified.py                                   train, certify, draw certified.png
python examples/certified.py --planes planes.png               draw the planes above a maximum of two cells
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import windowgrad as wg
from windowgrad import certify, nn
from windowgrad.certify.cells import Cells
from windowgrad.certify.planes import slopes
from windowgrad.saving import replacing

COLUMNS = 4  # of the picture


def trained(images, labels, epochs):
    """A network with a padded, overlapping maximum, trained on small images of digits."""
    layers = nn.Conv(8, (3, 3), padding=1), nn.ReLU(), nn.MaxPool((3, 3), 2, padding=1), nn.Flatten(), nn.Linear(10)
    model = nn.Sequential(*layers)
    rng = np.random.default_rng(0)
    params = model.init(rng, (1, 1, 8, 8))
    adam = nn.adam(1e-2)
    state = adam.init(params)
    for _ in range(epochs):
        for batch in np.array_split(rng.permutation(len(images)), 20):
            grads = wg.grad(lambda p, b=batch: wg.cross_entropy(model(p, images[b]), labels[b]))(params)
            params, state = adam.update(params, grads, state)
    return model, params


def radius(net, x, label, arithmetic):
    """The largest radius that is proved, by bisection."""
    low, high = 0.0, 0.5
    for _ in range(9):
        middle = (low + high) / 2
        goal = certify.label_stays(label, 10)
        holds = certify.prove(net, x - middle, x + middle, goal, arithmetic=arithmetic, attack=False).verdict == "holds"
        low, high = (middle, high) if holds else (low, middle)
    return low


def draw_planes(path):
    """The maximum of two cells along a cut, and planes above it for several t."""
    lo, hi = np.array([[-1.0, -0.5]]), np.array([[1.0, 0.6]])
    cells = Cells(lo, hi, np.full(1, -np.inf))
    x0 = np.linspace(-1, 1, 200)
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True)
    for axis, x1 in zip(axes, (-0.3, 0.5), strict=True):
        axis.plot(x0, np.maximum(x0, x1), color="black", linewidth=2.5, label=f"max(x₀, {x1})")
        for t in (-0.5, 0.0, 0.6, 1.0):
            a = slopes(cells, np.array([t]))[0]
            axis.plot(x0, t + a[0] * (x0 - lo[0, 0]) + a[1] * (x1 - lo[0, 1]), label=f"t = {t}")
        axis.set_xlabel("x₀ in [−1, 1]")
        axis.set_title(f"x₁ = {x1}, in [−0.5, 0.6]")
        axis.legend()
    save(figure, path)


def save(figure, path):
    figure.tight_layout()
    with replacing(path) as file:
        figure.savefig(file, dpi=110, format=Path(path).suffix[1:], metadata={"Software": None})
    print(f"wrote {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--picture", type=Path, default=Path("certified.png"))
    parser.add_argument("--planes", type=Path, help="draw the planes above a maximum instead")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--digits", type=int, default=8)
    options = parser.parse_args()
    if options.planes:
        draw_planes(options.planes)
        return
    from sklearn.datasets import load_digits

    data = load_digits()
    images, labels = (data.images[:, None] / 16).astype(np.float32), data.target
    model, params = trained(images[:1500], labels[:1500], options.epochs)
    tests, truth = images[1500:], labels[1500:]
    right = model(params, tests).argmax(axis=1) == truth
    print(f"{100 * right.mean():.1f} % of the test images are right")
    chosen = np.flatnonzero(right)[: options.digits]
    rows = -(-len(chosen) // COLUMNS)
    figure, axes = plt.subplots(rows, COLUMNS, figsize=(1.6 * COLUMNS, 1.9 * rows + 0.7), squeeze=False)
    figure.suptitle("The digit stays while no cell moves by more than ±:\nproved for every evaluation in float32", fontsize=11)
    for axis in axes.flat:
        axis.axis("off")
    for axis, place in zip(axes.flat, chosen, strict=False):
        found = [radius((model, params), tests[place : place + 1], int(truth[place]), each) for each in ("real", "float32")]
        print(f"digit {truth[place]}: radius {found[0]:.4f} in real arithmetic, {found[1]:.4f} for every float32 evaluation")
        axis.imshow(tests[place, 0], cmap="gray_r")
        axis.set_title(f"{truth[place]} ± {found[1]:.3f}")
    save(figure, options.picture)


if __name__ == "__main__":
    main()
