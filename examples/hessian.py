"""How a loss bends: Hessian-vector products through a smooth maximum, which has a second derivative everywhere.

`wg.hvp` is forward mode over backward mode: the product costs a few gradients, and the Hessian itself is never made. The
products are held against small steps of the gradient, the Hessian's symmetry is checked, and repeated products find the
direction in which the loss bends most. The picture shows the loss along it beside the parabola that the bend foretells.

    python examples/hessian.py --images 64 --beta 2 --picture hessian.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import optree
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

import windowgrad as wg
from windowgrad import nn


def network(beta, channels):
    return nn.Sequential(
        nn.Conv(channels, (3, 3), padding=1),
        nn.Tanh(),
        nn.SmoothMaxPool((2, 2), beta=beta),
        nn.Flatten(),
        nn.Linear(10),
    )


# --- parameters as vectors ---------------------------------------------------------------------------------------


def dot(a, b):
    return sum(float(np.vdot(x, y)) for x, y in zip(optree.tree_leaves(a), optree.tree_leaves(b), strict=True))


def moved(a, step, direction):
    return optree.tree_map(lambda x, d: x + step * d, a, direction)


def unit(a):
    return optree.tree_map(lambda x: x / np.sqrt(dot(a, a)), a)


def random_like(a, rng):
    return unit(optree.tree_map(lambda x: rng.standard_normal(x.shape), a))


# --- curvature ---------------------------------------------------------------------------------------------------


def most_bent(product, start, rounds):
    """Power iteration: the direction after each round, and how much the loss bends along the one before it."""
    direction = start
    for _ in range(rounds):
        bent = product(direction)
        yield direction, dot(direction, bent)
        direction = unit(bent)


def trained(loss, params, steps):
    optimiser, gradient = nn.adam(0.01), wg.grad(loss)
    state = optimiser.init(params)
    for _ in range(steps):
        params, state = optimiser.update(params, gradient(params), state)
    return params


def draw(path, loss, params, direction, bend):
    """The loss along the direction, and the parabola with its value, slope and bend in the middle."""
    steps = np.linspace(-0.6, 0.6, 41)
    middle, slope = float(loss(params)), dot(wg.grad(loss)(params), direction)
    figure = Figure(figsize=(6.4, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot(steps, [float(loss(moved(params, t, direction))) for t in steps], color="#2f6db3", label="the loss")
    parabola = middle + slope * steps + bend * steps**2 / 2
    axes.plot(steps, parabola, "--", color="#e08a1e", label=f"value, slope {slope:.3f} and bend {bend:.2f} at 0")
    axes.set_xlabel("step along the direction that bends most")
    axes.grid(alpha=0.25)
    axes.legend()
    figure.savefig(path, dpi=100)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=64)
    parser.add_argument("--channels", type=int, default=4)
    parser.add_argument("--beta", type=float, default=2.0)
    parser.add_argument("--steps", type=int, default=60, help="of training before the loss is looked at")
    parser.add_argument("--rounds", type=int, default=80, help="of power iteration")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, default=Path("hessian.png"))
    options = parser.parse_args()

    data, rng = load_digits(), np.random.default_rng(options.seed)
    images, labels = ((data.images - 5) / 6)[: options.images, None], data.target[: options.images]
    model = network(options.beta, options.channels)

    def loss(params):
        return wg.cross_entropy(model(params, images), labels)

    def product(direction):
        return wg.hvp(loss, (params,), (direction,))[0]

    params = trained(loss, model.init(rng, images.shape, np.float64), options.steps)
    size = sum(array.size for array in optree.tree_leaves(params))
    print(f"{size} parameters, {options.images} images, β = {options.beta:g}; loss {float(loss(params)):.4f}")

    u, v = random_like(params, rng), random_like(params, rng)
    gradient, h = wg.grad(loss), 1e-5
    ahead, behind = gradient(moved(params, h, v)), gradient(moved(params, -h, v))
    steps = optree.tree_map(lambda a, b: (a - b) / (2 * h), ahead, behind)
    bent = product(v)
    apart = max(float(abs(x - y).max()) for x, y in zip(optree.tree_leaves(bent), optree.tree_leaves(steps), strict=True))
    print(f"H·v and small steps of the gradient: apart by {apart:.1e} at most")
    print(f"⟨u, H·v⟩ = {dot(u, bent):+.12f}\n⟨v, H·u⟩ = {dot(v, product(u)):+.12f}")

    rounds = list(most_bent(product, v, options.rounds))
    for number, (_, bend) in enumerate(rounds, 1):
        if number <= 3 or number % 10 == 0:
            print(f"round {number:2} of power iteration: bend {bend:.6f}")
    direction, bend = rounds[-1]
    away = product(direction)
    rest = np.sqrt(max(0.0, dot(away, away) - dot(direction, away) ** 2))
    print(f"the Hessian has an eigenvalue within {rest:.1e} of {bend:.4f}, the largest by size")
    draw(options.picture, loss, params, direction, bend)
    print(f"wrote {options.picture}")


if __name__ == "__main__":
    main()
