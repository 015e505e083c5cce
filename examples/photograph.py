"""One photograph pooled and convolved, in exact fractions and in floats, and a picture of the windows.

python examples/photograph.py --picture photograph.png
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from PIL import Image
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_sample_image

import windowgrad as wg
from windowgrad.saving import replacing

EDGE = np.array([[1, 0, -1], [2, 0, -2], [1, 0, -1]])[None, None]
TENT = np.array([[1, 2, 1], [2, 4, 2], [1, 2, 1]])[None, None]

WINDOWS = {(0, 0): "tab:orange", (1, 2): "tab:blue", (2, 3): "tab:green", (4, 5): "tab:purple"}
"""The windows that are drawn, by their output: one in a corner, two that share a cell, one at the edge."""

CROP = (slice(124, 134), slice(306, 320))
"""A piece of the photograph small enough for exact arithmetic and for a drawing of its cells."""


@dataclass(frozen=True)
class Step:
    """One operator: what is written in Python, and the call."""

    code: str
    call: Callable[[Any], Any]
    exact: bool = True


STEPS = (
    Step("max_pool2d(x, 3, 2, 1)", lambda x: wg.max_pool2d(x, 3, 2, 1)),
    Step("avg_pool2d(x, 3, 2, 1)", lambda x: wg.avg_pool2d(x, 3, 2, 1)),
    Step("smooth_max_pool2d(x, 3, beta=9)", lambda x: wg.smooth_max_pool2d(x, 3, beta=9), exact=False),
    Step("adaptive_avg_pool2d(x, (4, 6))", lambda x: wg.adaptive_avg_pool2d(x, (4, 6))),
    Step("conv2d(x, edge, padding=1)", lambda x: wg.conv2d(x, _like(EDGE, x), padding=1)),
    Step("conv_transpose2d(x, tent, None, 2)", lambda x: wg.conv_transpose2d(x, _like(TENT, x), None, 2)),
)


def _like(weight: Any, x: Any) -> Any:
    return weight.astype(x.dtype)


def photograph() -> Any:
    """A grey photograph of scikit-learn's samples, with values k/255."""
    return load_sample_image("china.jpg").sum(axis=-1, dtype=np.int64) // 3


def run(picture: Path, console: Console) -> None:
    """Compute everything, print what was computed, and write the picture."""
    grey = photograph()
    image = (grey / 255).astype(np.float32)[None]
    crop = np.vectorize(lambda k: Fraction(int(k), 255), otypes=[object])(grey[CROP])[None]
    console.print(
        f"photograph: {_by(image)} cells in float32; its crop: {_by(crop)} cells in exact fractions\n", highlight=False
    )
    table = Table("operator", "output", "crop", "cell 1,1", "float32", "error", box=None, pad_edge=False)
    outputs = {}
    for step in STEPS:
        outputs[step.code] = step.call(image)
        inexact, cell = step.call(crop.astype(np.float32)), (0, 1, 1)
        exactly, error = "(has exp)", ""
        if step.exact:
            exact = step.call(crop)
            exactly = str(exact[cell])
            error = f"{float(max(abs(Fraction(float(a)) - b) for a, b in zip(inexact.flat, exact.flat, strict=True))):.0e}"
        table.add_row(step.code, _by(outputs[step.code]), _by(inexact), exactly, f"{inexact[cell]:.6f}", error)
    console.print(table)
    draw(picture, grey[CROP], outputs)
    console.print(f"\nerror: the largest of float32 on the crop. Wrote {picture}, a picture of it all.", highlight=False)


def _by(x: Any) -> str:
    return "x".join(map(str, x.shape[-2:]))


def draw(picture: Path, crop: Any, images: dict[str, Any]) -> None:
    """The picture: it is there whole or not at all. Above the windows, below what each operator makes of the photograph."""
    figure = Figure(figsize=(8, 7.8), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=(3.7, 4.1))
    draw_windows(above, crop)
    for axes, (title, values) in zip(below.subplots(2, 3).flat, images.items(), strict=True):
        show(axes, values[0], f"{title.partition('(')[0]}: {_by(values)}")
    drawn = BytesIO()
    figure.savefig(drawn, dpi=100, format="png")
    with replacing(picture) as file:
        Image.open(drawn).convert("RGB").quantize(160, Image.Quantize.MAXCOVERAGE).save(file, "png", optimize=True)


def show(axes: Any, values: Any, title: str) -> None:
    axes.imshow(values, cmap="gray")
    axes.set_title(title, fontsize=10)
    axes.axis("off")


def draw_windows(figure: Any, crop: Any) -> None:
    """Left some windows of max_pool2d(x, 3, 2, 1) and their winners, right the outputs, in the same colours."""
    window = wg.geometry.Sliding((3, 3), stride=2, padding=1)
    pooled, winners = wg.max_pool2d(crop, 3, stride=2, padding=1, return_indices=True)
    left, right = figure.subplots(1, 2, width_ratios=(crop.shape[1] + 1, crop.shape[0]))
    show(left, crop, f"a crop of the photograph: {_by(crop)}")
    show(right, pooled, f"max_pool2d(x, 3, 2, 1): {_by(pooled)}")
    height, width = crop.shape
    left.add_patch(Rectangle((-1.5, -1.5), width + 2, height + 2, fill=False, hatch="////", edgecolor="0.75", zorder=-1))
    for o, colour in WINDOWS.items():
        rows, columns = (window.cover(axis, i, n) for axis, (i, n) in enumerate(zip(o, crop.shape, strict=True)))
        outline = {"fill": False, "edgecolor": colour, "linewidth": 3}
        left.add_patch(Rectangle((columns.start - 0.5, rows.start - 0.5), len(columns), len(rows), **outline))
        right.add_patch(Rectangle((o[1] - 0.45, o[0] - 0.45), 0.9, 0.9, **outline))
        y, x = divmod(int(winners[o]), width)
        left.plot(x, y, "o", color=colour, markersize=9, markeredgecolor="white")
    left.set(xlim=(-1.6, width + 0.6), ylim=(height + 0.6, -1.6))
    figure.legend(
        handles=[
            Rectangle((0, 0), 1, 1, fill=False, edgecolor="black", linewidth=2.5),
            Line2D([], [], marker="o", color="black", linestyle="", markersize=8),
            Rectangle((0, 0), 1, 1, fill=False, hatch="////", edgecolor="0.6"),
        ],
        labels=["a window, and its output in the same colour", "its winner", "padding: never wins"],
        loc="outside lower center", ncols=3, frameon=False, fontsize=10,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--picture", type=Path, default=Path("photograph.png"))
    run(parser.parse_args().picture, Console())


if __name__ == "__main__":
    main()
