"""One photograph pooled and convolved, in exact fractions and in floats, and a picture of the windows.

python examples/photograph.py --picture photograph.png
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_sample_image

import windowgrad as wg
from windowgrad.saving import replacing

EDGE = np.array([[1, 0, -1], [2, 0, -2], [1, 0, -1]])[None, None]
TENT = np.array([[1, 2, 1], [2, 4, 2], [1, 2, 1]])[None, None]

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
    draw(picture, grey[CROP], {"photograph": image, **outputs})
    console.print(f"\nerror: the largest of float32 on the crop. Wrote {picture}, a picture of it all.", highlight=False)


def _by(x: Any) -> str:
    return "x".join(map(str, x.shape[-2:]))


def draw(picture: Path, crop: Any, images: dict[str, Any]) -> None:
    """The picture: it is there whole or not at all."""
    figure = Figure(figsize=(12, 9), layout="constrained")
    panels = figure.subplots(3, 3).flat
    draw_windows(next(panels), next(panels), crop)
    for title, values in images.items():
        show(next(panels), values[0], f"{title}: {_by(values)}")
    with replacing(picture) as file:
        figure.savefig(file, dpi=80, format="png")


def show(axes: Any, values: Any, title: str) -> None:
    axes.imshow(values, cmap="gray")
    axes.set_title(title, fontsize=9)
    axes.axis("off")


def draw_windows(left: Any, right: Any, crop: Any) -> None:
    """Left the cells with the windows of max_pool2d(x, 3, 2, 1) and their winners, right what comes out."""
    window = wg.geometry.Sliding((3, 3), stride=2, padding=1)
    pooled, winners = wg.max_pool2d(crop, 3, stride=2, padding=1, return_indices=True)
    show(left, crop, f"3x3 windows, stride 2, padding 1 on the crop: {_by(crop)}")
    for o in np.ndindex(*winners.shape):
        rows, columns = (window.cover(axis, i, n) for axis, (i, n) in enumerate(zip(o, crop.shape, strict=True)))
        colour = ("tab:blue", "tab:green", "tab:red", "tab:purple")[o[0] % 2 * 2 + o[1] % 2]
        inset = 0.08 * (1 + o[0] % 2 * 2 + o[1] % 2)  # neighbours overlap: draw each a little smaller than the one before
        corner, size = (
            (columns.start - 0.5 + inset, rows.start - 0.5 + inset),
            (len(columns) - 2 * inset, len(rows) - 2 * inset),
        )
        left.add_patch(Rectangle(corner, *size, fill=False, edgecolor=colour, linewidth=1.2))
    y, x = divmod(winners.ravel(), crop.shape[1])
    left.plot(x, y, "o", color="tab:orange", markersize=5)
    left.set(xlim=(-1.7, crop.shape[1] + 0.7), ylim=(crop.shape[0] + 0.7, -1.7))
    show(right, pooled, f"the winners (dots) as max_pool2d gives them: {_by(pooled)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--picture", type=Path, default=Path("photograph.png"))
    run(parser.parse_args().picture, Console())


if __name__ == "__main__":
    main()
