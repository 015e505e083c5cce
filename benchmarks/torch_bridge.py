"""What PyTorch tensors cost over NumPy arrays, and a training step of ResNet-18 with its layers replaced.

The first table calls each operator on so few cells that only the way there and back counts. The second trains a whole
network, PyTorch's layers and ours in turns; its first loss must be the same.

    python benchmarks/torch_bridge.py
    python benchmarks/torch_bridge.py --batch 2 --size 64
"""

from __future__ import annotations

import argparse
import copy
import gc
from collections.abc import Callable

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from timing import THREADS, Call, best
from torch import Tensor, nn

import windowgrad as wg
from windowgrad.bridges.torch.nn import replace_pooling
from windowgrad.geometry import Sliding
from windowgrad.ops import OPS
from windowgrad.params import ConvParams, MaxParams, MeanParams, Params, SmoothParams

WINDOW = Sliding((2, 2))
OPERATORS: dict[str, tuple[Callable[..., object], str, Params, tuple[tuple[int, ...], ...]]] = {
    "max_pool2d": (lambda x: wg.max_pool2d(x, 2), "max_pool", MaxParams(WINDOW), ((1, 1, 4, 4),)),
    "avg_pool2d": (lambda x: wg.avg_pool2d(x, 2), "avg_pool", MeanParams(WINDOW), ((1, 1, 4, 4),)),
    "smooth_max_pool2d": (
        lambda x: wg.smooth_max_pool2d(x, 2, beta=1.0),
        "smooth_max_pool",
        SmoothParams(WINDOW, 1.0),
        ((1, 1, 4, 4),),
    ),
    "conv2d": (lambda x, w: wg.conv2d(x, w, stride=2), "conv", ConvParams(WINDOW), ((1, 1, 4, 4), (1, 1, 2, 2))),
}


def bridge(rounds: int) -> Table:
    """Microseconds of a call on an array, and how many more it takes on a tensor."""
    table = Table(title="the bridge, µs a call")
    for heading in ("operator", "array", "tensor: +", "recorded: +", "array's vjp", "backward: +", "of which PyTorch's engine"):
        table.add_column(heading, justify="left" if heading == "operator" else "right")
    engine = engine_time(rounds)
    for name, (call, op, params, shapes) in OPERATORS.items():
        arrays = [np.random.default_rng(0).standard_normal(shape).astype(np.float32) for shape in shapes]
        tensors = [torch.from_numpy(array) for array in arrays]
        leaves = [tensor.clone().requires_grad_() for tensor in tensors]
        y = call(*leaves)
        assert isinstance(y, Tensor)
        g = torch.ones_like(y)
        times = best(
            {
                "array": lambda: call(*arrays),  # noqa: B023  # used before the next turn of the loop
                "tensor": lambda: call(*tensors),  # noqa: B023
                "recorded": lambda: call(*leaves),  # noqa: B023
                "vjp": lambda: OPS[op].vjp(params, *arrays, g.numpy()),  # noqa: B023
                "backward": lambda: torch.autograd.grad(y, leaves, g, retain_graph=True),  # noqa: B023
            },
            rounds,
            seconds=30,
        )
        micro = {key: seconds * 1e6 for key, seconds in times.items()}
        more = (micro["tensor"] - micro["array"], micro["recorded"] - micro["array"])
        back = micro["backward"] - micro["vjp"]
        cells = (micro["array"], *more, micro["vjp"], back, engine)
        table.add_row(name, *(f"{cell:.1f}" for cell in cells))
    return table


def engine_time(rounds: int) -> float:
    """Microseconds that PyTorch's engine takes for a backward step of its own that does next to nothing."""
    x = torch.ones(1, requires_grad=True)
    y, g = x.neg(), torch.ones(1)
    times = best({"neg": lambda: torch.autograd.grad(y, x, g, retain_graph=True)}, rounds, seconds=5)
    return times["neg"] * 1e6


# --- ResNet-18 ---------------------------------------------------------------------------------------------------


class Block(nn.Module):
    """Two 3 × 3 convolutions and a way around them."""

    def __init__(self, ins: int, outs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(ins, outs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outs),
            nn.ReLU(),
            nn.Conv2d(outs, outs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outs),
        )
        same = ins == outs and stride == 1
        around = nn.Sequential(nn.Conv2d(ins, outs, 1, stride, bias=False), nn.BatchNorm2d(outs))
        self.around = nn.Identity() if same else around

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.around(x))


def resnet18() -> nn.Module:
    stem = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    widths = [(64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)]
    blocks = [block for ins, outs, stride in widths for block in (Block(ins, outs, stride), Block(outs, outs, 1))]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


def step_of(model: nn.Module, x: Tensor, labels: Tensor) -> Callable[[], float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    def step() -> float:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step


def training(batch: int, size: int, rounds: int, seconds: float) -> Table:
    torch.manual_seed(0)
    x, labels = torch.randn(batch, 3, size, size), torch.randint(1000, (batch,))
    theirs = resnet18()
    models = {
        "PyTorch's layers": theirs,
        "our pooling": replace_pooling(copy.deepcopy(theirs)),
        "our pooling and convolution, where faster": replace_pooling(copy.deepcopy(theirs), convolutions=True),
        "our pooling and convolution": replace_pooling(copy.deepcopy(theirs), convolutions=True, everything=True),
    }
    steps = {name: step_of(model, x, labels) for name, model in models.items()}
    losses = [step() for step in steps.values()]
    if not np.allclose(losses, losses[0], rtol=1e-4):
        raise SystemExit(f"the losses of the first step differ: {losses}")
    calls: dict[str, Call] = dict(steps)
    gc.collect()
    times = best(calls, rounds, seconds)
    table = Table(title=f"a training step of ResNet-18, {batch} × 3 × {size} × {size}, {THREADS} threads")
    for heading in ("layers", "ms", "speed-up"):
        table.add_column(heading, justify="left" if heading == "layers" else "right")
    for name, taken in times.items():
        table.add_row(name, f"{taken * 1e3:.1f}", f"{times[next(iter(times))] / taken:.2f}×")
    return table


# --- one layer ---------------------------------------------------------------------------------------------------

LAYERS: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "7×7, stride 2, 3→64": (nn.Conv2d(3, 64, 7, 2, 3), (8, 3, 224, 224)),
    "3×3, 64→64": (nn.Conv2d(64, 64, 3, 1, 1), (8, 64, 56, 56)),
    "3×3, 256→256": (nn.Conv2d(256, 256, 3, 1, 1), (8, 256, 14, 14)),
    "1×1, 64→256": (nn.Conv2d(64, 256, 1), (8, 64, 56, 56)),
    "1×1, stride 2, 64→128": (nn.Conv2d(64, 128, 1, 2), (8, 64, 56, 56)),
    "depthwise 3×3": (nn.Conv2d(144, 144, 3, 1, 1, groups=144), (8, 144, 56, 56)),
    "depthwise 3×3, stride 2": (nn.Conv2d(144, 144, 3, 2, 1, groups=144), (8, 144, 56, 56)),
    "depthwise 3×3, 7×7 planes": (nn.Conv2d(960, 960, 3, 1, 1, groups=960), (8, 960, 7, 7)),
    "4 groups, 3×3": (nn.Conv2d(64, 64, 3, 1, 1, groups=4), (8, 64, 56, 56)),
    "signals, 5": (nn.Conv1d(64, 64, 5, 1, 2), (8, 64, 4096)),
    "volumes, 3×3×3": (nn.Conv3d(16, 16, 3, 1, 1), (2, 16, 16, 32, 32)),
    "transposed 2×2, stride 2": (nn.ConvTranspose2d(64, 32, 2, 2), (8, 64, 28, 28)),
    "maximum 3×3, stride 2": (nn.MaxPool2d(3, 2, 1), (8, 64, 112, 112)),
    "mean 2×2": (nn.AvgPool2d(2), (8, 64, 56, 56)),
    "adaptive mean to 7×7": (nn.AdaptiveAvgPool2d(7), (8, 64, 56, 56)),
    "adaptive maximum to 7×7": (nn.AdaptiveMaxPool2d(7), (8, 64, 56, 56)),
    "global mean": (nn.AdaptiveAvgPool2d(1), (8, 512, 7, 7)),
}


def layers(rounds: int) -> Table:
    """Forward, and forward and backward, each followed by a relu of PyTorch's, whose threads compete with ours."""
    table = Table(title=f"our layers beside PyTorch's, {THREADS} threads: times as fast")
    for heading in ("layer", "forward", "both ways"):
        table.add_column(heading, justify="left" if heading == "layer" else "right")
    for name, (theirs, shape) in LAYERS.items():
        ours = replace_pooling(copy.deepcopy(theirs), convolutions=True, everything=True)
        x = torch.randn(shape, requires_grad=True)
        g = torch.randn_like(theirs(x))

        def forward(layer: nn.Module, x: Tensor = x) -> Call:
            return torch.inference_mode()(lambda: torch.relu(layer(x)))

        def both(layer: nn.Module, x: Tensor = x, g: Tensor = g) -> Call:
            return lambda: torch.relu(layer(x)).backward(g)

        ratios = []
        for step in (forward, both):
            times = best({"theirs": step(theirs), "ours": step(ours)}, rounds, seconds=1)
            ratios.append(f"{times['theirs'] / times['ours']:.2f}×")
        table.add_row(name, *ratios)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=120.0, help="for the training steps")
    parser.add_argument("--layers", action="store_true", help="only single layers: what `replace_pooling` leaves to PyTorch")
    given = parser.parse_args()
    torch.set_num_threads(THREADS)
    wg.set_num_threads(THREADS)
    console = Console(width=120)
    if given.layers:
        console.print(layers(given.rounds))
        return
    console.print(bridge(given.rounds))
    console.print(training(given.batch, given.size, given.rounds, given.seconds))


if __name__ == "__main__":
    main()
