"""Cells around an array, and the cells inside them."""

from __future__ import annotations

import math
from typing import Any

from windowgrad.arguments import Padding
from windowgrad.errors import WindowgradError
from windowgrad.functional.call import show_call
from windowgrad.functional.signatures import A, Border
from windowgrad.ops import OPS, called
from windowgrad.params import ExtendParams, PadParams, UnpadParams

__all__ = ["pad", "unpad"]

EXTEND = called("extend", "pad")


def pad(x: A, padding: Padding, mode: Border = "constant", value: Any = 0) -> A:
    """Cells around the last axes: zeros, another constant, or cells of x.

    Arguments:
        x: an array (…, *spatial) with at least as many axes as `padding` has entries.
        padding: one entry for each of the last axes: an integer for both sides, or a (before, after) pair. Any amount.
        mode: "constant"; "reflect" (the cells inside, mirrored at the edge cell, which is not repeated), "replicate" (the edge
            cell), "circular" (the cells of the other side). They wrap around as often as needed; NumPy calls the last three
            "reflect", "edge" and "wrap".
        value: the constant, a number that x's dtype can hold. It has no derivative.

    Returns an array (…, *padded) of x's dtype.

    >>> [wg.pad(np.array([1, 2, 3]), [(2, 1)], mode).tolist() for mode in ("constant", "reflect", "replicate", "circular")]
    [[0, 0, 1, 2, 3, 0], [3, 2, 1, 2, 3, 2], [1, 1, 1, 2, 3, 3], [2, 3, 1, 2, 3, 1]]
    """
    try:
        if is_zeros(mode, value):
            y: A = OPS["pad"].forward(PadParams(padding), x)  # type: ignore[arg-type]  # made pairs there
        else:
            y = EXTEND.forward(ExtendParams(padding, mode, value), x)  # type: ignore[arg-type]
        return y
    except WindowgradError as error:
        show_call(error, pad, locals())
        raise


def is_zeros(mode: object, value: object) -> bool:
    """Whether the cells are plain zeros, which have an operator of their own. −0.0 is another constant."""
    plain = isinstance(mode, str) and isinstance(value, (int, float)) and not isinstance(value, bool)
    return plain and mode == "constant" and value == 0 and math.copysign(1, value) > 0


def unpad(x: A, padding: Padding) -> A:
    """The cells inside the padding of the last axes: undoes `pad`, and is the adjoint of padding with zeros.

    Arguments:
        x: an array (…, *padded) with at least as many axes as `padding` has entries.
        padding: one entry for each of the last axes: an integer for both sides, or a (before, after) pair.

    Returns an array (…, *spatial) of x's dtype.

    >>> wg.unpad(np.array([0.0, 1.0, 2.0, 0.0, 0.0]), [(1, 2)]).tolist()
    [1.0, 2.0]
    """
    try:
        y: A = OPS["unpad"].forward(UnpadParams(padding), x)  # type: ignore[arg-type]  # made pairs there
        return y
    except WindowgradError as error:
        show_call(error, unpad, locals())
        raise
