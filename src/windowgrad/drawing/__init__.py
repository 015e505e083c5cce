"""Drawings of windows: which cells an output sees, as text and as SVG; `wg.explain` shows them with the values of a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windowgrad.drawing.explanation import Explanation

__all__ = ["explain"]


def explain(f: Callable[..., Any], /, *args: Any, output: int | tuple[int, ...] | None = None, **kwargs: Any) -> Explanation:
    """What the windows of a call see, with its values: a picture in a notebook, text in a terminal.

    Each panel shows one output: the cells with their numbers, padding and overhang, the winners, the arithmetic, and what a
    gradient of 1 at the output gives each cell. Of a large input only the neighbourhood of the window is drawn.

    Arguments:
        f: a public function with windows: pooling of every kind, `conv`, `conv_transpose`, `max_unpool`, `pad`, `unpad`,
            `reduce_windows`, and their 1d, 2d and 3d forms.
        args: its arguments, with arrays of any kind that it takes. The call is made, so a wrong argument is its own error.
        output: which output to show: its index, or its index in the first plane; None shows the first few.
        kwargs: its other arguments.

    Returns an `Explanation`: a notebook shows it, `print` writes it as text, `.save("window.svg")` writes the picture.

    >>> print(wg.explain(wg.max_pool1d, np.array([1.0, 5.0, 2.0, 5.0]), 3, 2, 1, output=1))
    max_pool1d(x: float64(4,), kernel_size=3, stride=2, padding=1) -> (2,)
    <BLANKLINE>
    output 1 = 5
      · ● ■ ■
      3 cells
      max(5, 2, 5) = 5
      2 cells are equal; ties="first": the first gets the gradient
      back: a gradient of 1 gives 1 to cell 1
    <BLANKLINE>
    ■ seen   ● winner   · not seen
    1 more output not shown; output= chooses one
    """
    from windowgrad.drawing.explanation import explained

    return explained(f, args, kwargs, output)
