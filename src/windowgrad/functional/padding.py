"""Zeros around an array, and the cells inside them."""

from __future__ import annotations

from windowgrad.arguments import Padding
from windowgrad.errors import WindowgradError
from windowgrad.functional.call import show_call
from windowgrad.functional.signatures import A
from windowgrad.ops import OPS
from windowgrad.params import PadParams, UnpadParams

__all__ = ["pad", "unpad"]


def pad(x: A, padding: Padding) -> A:
    """Zeros around the last axes.

    Arguments:
        x: an array (…, *spatial) with at least as many axes as `padding` has entries.
        padding: one entry for each of the last axes: an integer for both sides, or a (before, after) pair.

    Returns an array (…, *padded) of x's dtype.

    >>> wg.pad(np.array([1.0, 2.0]), [(1, 2)]).tolist()
    [0.0, 1.0, 2.0, 0.0, 0.0]
    """
    try:
        y: A = OPS["pad"].forward(PadParams(padding), x)  # type: ignore[arg-type]  # made pairs there
        return y
    except WindowgradError as error:
        show_call(error, pad, locals())
        raise


def unpad(x: A, padding: Padding) -> A:
    """The cells inside the padding of the last axes: undoes `pad`, and is its adjoint.

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
