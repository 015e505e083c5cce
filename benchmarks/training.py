"""One step of training beside PyTorch, and what recording an operator costs.

A step is the loss, all gradients, and the update by plain gradient descent; float32, two threads, the same weights on both
sides. Before it is timed, loss and gradients are compared with PyTorch's.

    python benchmarks/training.py
    python benchmarks/training.py --only LeNet --rounds 20
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from timing import THREADS, Call, best
from torch.nn import functional as F

import windowgrad as wg

RATE = 0.01
Params = dict[str, Any]


def draw(shapes: dict[str, tuple[int, ...]]) -> Params:
    """Weights of about the size that keeps activations near 1, and zero biases."""
    rng = np.random.default_rng(0)
    return {
        name: (rng.standard_normal(shape) * (2 / np.prod(shape[1:])) ** 0.5 if len(shape) > 1 else np.zeros(shape)).astype(
            np.float32
        )
        for name, shape in shapes.items()
    }


# --- two networks, for either side: `o` has conv2d, relu, max_pool2d, … ---------------------------------------------

LENET = {
    "c1": (6, 1, 5, 5), "b1": (6,), "c2": (16, 6, 5, 5), "b2": (16,),
    "f1": (400, 120), "d1": (120,), "f2": (120, 84), "d2": (84,), "f3": (84, 10), "d3": (10,),
}  # fmt: skip


def lenet(o: Any, p: Params, x: Any) -> Any:
    x = o.max_pool2d(o.relu(o.conv2d(x, p["c1"], p["b1"], padding=2)), 2)
    x = o.flatten(o.max_pool2d(o.relu(o.conv2d(x, p["c2"], p["b2"])), 2))
    return o.relu(o.relu(x @ p["f1"] + p["d1"]) @ p["f2"] + p["d2"]) @ p["f3"] + p["d3"]


WIDTHS = (16, 32, 64)


def resnet_shapes() -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {"stem": (16, 3, 3, 3), "stem_b": (16,), "out": (64, 10), "out_b": (10,)}
    before = WIDTHS[0]
    for i, width in enumerate(WIDTHS):
        shapes |= {f"{i}a": (width, before, 3, 3), f"{i}a_b": (width,), f"{i}b": (width, width, 3, 3), f"{i}b_b": (width,)}
        if width != before:
            shapes[f"{i}s"] = (width, before, 1, 1)
        before = width
    return shapes


def resnet(o: Any, p: Params, x: Any) -> Any:
    x = o.max_pool2d(o.relu(o.conv2d(x, p["stem"], p["stem_b"], padding=1)), 3, 2, 1)
    for i, _ in enumerate(WIDTHS):
        stride = 2 if f"{i}s" in p else 1
        y = o.relu(o.conv2d(x, p[f"{i}a"], p[f"{i}a_b"], stride=stride, padding=1))
        y = o.conv2d(y, p[f"{i}b"], p[f"{i}b_b"], padding=1)
        x = o.relu(y + (o.conv2d(x, p[f"{i}s"], stride=stride) if stride == 2 else x))
    return o.mean(x, (2, 3)) @ p["out"] + p["out_b"]


class Torch:
    """PyTorch under the same names."""

    conv2d, relu, max_pool2d, cross_entropy = F.conv2d, F.relu, F.max_pool2d, F.cross_entropy
    mean = staticmethod(torch.mean)
    flatten = staticmethod(lambda x: torch.flatten(x, 1))


NETWORKS: dict[str, tuple[Callable[..., Any], dict[str, tuple[int, ...]], tuple[int, ...]]] = {
    "LeNet-like, 64×1×28×28": (lenet, LENET, (64, 1, 28, 28)),
    "LeNet-like, 256×1×28×28": (lenet, LENET, (256, 1, 28, 28)),
    "ResNet-like, 32×3×32×32": (resnet, resnet_shapes(), (32, 3, 32, 32)),
    "ResNet-like, 8×3×96×96": (resnet, resnet_shapes(), (8, 3, 96, 96)),
}


def steps(network: Callable[..., Any], shapes: dict[str, tuple[int, ...]], size: tuple[int, ...]) -> dict[str, Call]:
    """A step on either side, checked against each other."""
    rng = np.random.default_rng(1)
    x, labels = rng.standard_normal(size, dtype=np.float32), rng.integers(0, 10, size[0])
    params = draw(shapes)
    descend = wg.nn.sgd(RATE)
    loss_and_grads = wg.value_and_grad(lambda p: wg.cross_entropy(network(wg, p, x), labels))

    def ours() -> Any:
        loss, grads = loss_and_grads(params)
        descend.update(params, grads, state)
        return loss, grads

    state = descend.init(params)
    theirs_params = {name: torch.tensor(value, requires_grad=True) for name, value in params.items()}
    there, there_labels = torch.from_numpy(x), torch.from_numpy(labels)
    optimiser = torch.optim.SGD(theirs_params.values(), lr=0.0)  # the weights stay where they are: every step is the same work

    def step() -> Any:
        optimiser.zero_grad()
        loss = Torch.cross_entropy(network(Torch, theirs_params, there), there_labels)
        loss.backward()
        optimiser.step()
        return loss

    loss, grads = ours()
    wanted = float(step().detach())
    assert abs(float(loss) - wanted) <= 1e-5 * wanted, (float(loss), wanted)
    for name, value in theirs_params.items():  # not cell by cell: a maximum of nearly equal cells may fall to either
        theirs = value.grad.numpy()
        assert np.linalg.norm(grads[name] - theirs) <= 1e-3 * np.linalg.norm(theirs), name
    return {"windowgrad": ours, "PyTorch": step}


def overhead(length: int) -> dict[str, float]:
    """Seconds for recording and walking one of `length` additions of small arrays."""
    x, one = np.ones(4), np.ones(4)
    there, there_one = torch.ones(4, dtype=torch.float64, requires_grad=True), torch.ones(4, dtype=torch.float64)

    def chain() -> None:
        tape = wg.Tape()
        y = leaf = tape.leaf(x)
        for _ in range(length):
            y = y + one
        tape.backward(y, one)[leaf]

    def theirs() -> None:
        y = there
        for _ in range(length):
            y = y + there_one
        torch.autograd.grad(y, there, there_one)

    return {who: t / length for who, t in best({"windowgrad": chain, "PyTorch": theirs}, rounds=7, seconds=4).items()}


def recorded() -> dict[str, str]:
    """The same as text, by the length of the chain."""
    found = {length: overhead(length) for length in (10, 100, 1000, 10000)}
    return {f"of {length}": ", ".join(f"{who} {1e6 * t:.1f} µs" for who, t in times.items()) for length, times in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description="One step of training beside PyTorch.")
    parser.add_argument("--only", default="", metavar="SUBSTRING", help='networks with this in their name, such as "LeNet"')
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(THREADS)
    wg.set_num_threads(THREADS)
    for name, network in NETWORKS.items():
        if options.only in name:
            times = best(steps(*network), options.rounds, seconds=20)
            shown = ", ".join(f"{who} {1e3 * t:.2f} ms" for who, t in times.items())
            print(f"{name}: {shown}, {times['PyTorch'] / times['windowgrad']:.2f}× PyTorch", flush=True)
    if not options.only:
        print(f"recording and walking one node: {'; '.join(f'{n}: {text}' for n, text in recorded().items())}")


if __name__ == "__main__":
    main()
