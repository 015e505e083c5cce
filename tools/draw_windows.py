"""Draws the pictures of docs/explain.md: `python tools/draw_windows.py`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import windowgrad as wg

DOCS = Path(__file__).parents[1] / "docs"

X = np.array([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3], [5, 8, 9, 7, 9], [3, 2, 3, 8, 4], [6, 2, 6, 4, 3]], dtype=float)
EDGES = np.array([[[[-1.0, 0.0, 1.0]] * 3]])


def pictures() -> dict[str, str]:
    """The pictures by the names of their files."""
    return {
        "explain-max.svg": wg.explain(wg.max_pool2d, X, 3, 2, 1).to_svg(),
        "explain-mean.svg": wg.explain(wg.avg_pool1d, X[0, :4], 3, 2, 1, ceil_mode=True).to_svg(),
        "explain-conv.svg": wg.explain(wg.conv2d, X[None], EDGES, np.array([0.5]), padding=1, output=(0, 1)).to_svg(),
    }


if __name__ == "__main__":
    for name, picture in pictures().items():
        DOCS.joinpath(name).write_text(picture, encoding="utf-8")
        print(DOCS / name)
