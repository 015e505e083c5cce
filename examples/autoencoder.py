"""An autoencoder: convolutions make 16 numbers of an image, transposed convolutions make the image again.

python examples/autoencoder.py --epochs 20 --picture autoencoder.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

import windowgrad as wg
from windowgrad import nn

ENCODER = nn.Sequential(
    nn.Conv(16, (3, 3), stride=2, padding=1),
    nn.ReLU(),
    nn.Conv(4, (3, 3), stride=2, padding=1),
)
DECODER = nn.Sequential(
    nn.ReLU(),
    nn.ConvTranspose(16, (4, 4), stride=2, padding=1),
    nn.ReLU(),
    nn.ConvTranspose(1, (4, 4), stride=2, padding=1),
)
MODEL = nn.Sequential(ENCODER, DECODER)
BATCH = 32


def rebuilt(params, images):
    """The images after encoding and decoding; a sigmoid keeps every cell between 0 and 1."""
    return wg.sigmoid(MODEL(params, images))


def loss(params, images):
    return wg.mse(rebuilt(params, images), images)


def train(params, images, epochs, rng):
    """The parameters after each epoch."""
    optimiser, step = nn.adam(0.004), wg.value_and_grad(loss)
    state = optimiser.init(params)
    for _ in range(epochs):
        for chosen in np.array_split(rng.permutation(len(images)), -(-len(images) // BATCH)):
            _, grads = step(params, images[chosen])
            params, state = optimiser.update(params, grads, state)
        yield params


def draw(path, images, again):
    """Above the images, below what became of them."""
    figure = Figure(figsize=(0.66 * len(images), 1.9), layout="constrained")
    for line, row, name in zip(
        figure.subplots(2, len(images)), (images, again), ("test images", "from 16 numbers"), strict=True
    ):
        for axes, image in zip(line, row, strict=True):
            axes.imshow(image[0], cmap="gray", clim=(0, 1))
            axes.axis("off")
        line[0].set_title(name, loc="left")
    figure.savefig(path, dpi=100)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--images", type=int, default=1500, help="how many to learn from, of 1797")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, default=Path("autoencoder.png"))
    options = parser.parse_args()

    data = load_digits()
    images = (data.images / 16).astype(np.float32)[:, None]
    learned, tested = images[: options.images], images[-297:]
    rng = np.random.default_rng(options.seed)
    params = MODEL.init(rng, (BATCH, *images.shape[1:]))
    print(MODEL.summary((BATCH, *images.shape[1:])))
    print(f"\nmean square error of the test images: {wg.mse(learned.mean(axis=0) + 0 * tested, tested):.4f} by the mean image")
    for epoch, params in enumerate(train(params, learned, options.epochs, rng), 1):  # noqa: B020  # the old ones are done with
        print(f"epoch {epoch:2}: {loss(params, tested):.4f}")
    ten = tested[[int(np.argmax(data.target[-297:] == digit)) for digit in range(10)]]
    draw(options.picture, ten, rebuilt(params, ten))
    print(f"wrote {options.picture}")


if __name__ == "__main__":
    main()
