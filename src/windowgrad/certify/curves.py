"""Linear bounds of smooth functions: the smooth maximum, tanh and the logistic function.

Smooth maximum, β > 0, of n cells (padded zeros that count included). It is convex, and between the maximum and log(n)/β more:

    y ≥ Σ s_k·x_k + H(s)/β         for every s ≥ 0 with Σ s = 1, H(s) = −Σ s_k·log s_k
    y ≤ a plane above the maximum + log(n)/β

f = tanh or the logistic function on [l, u]. Its slope has one peak, at 0, so on [l, u] it is at least λ = min(f′(l), f′(u)):

    f(l) + λ·(x − l) ≤ f(x) ≤ f(u) + λ·(x − u)

and where f is concave (l ≥ 0) the secant lies below it and every tangent above; where it is convex, the other way round.

exp, log and tanh of NumPy are taken to be within 2⁻⁴⁸ of the exact value, relatively; every constant here pays for that.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windowgrad.certify.cells import Cells
from windowgrad.certify.nodes import Curve, Smooth
from windowgrad.certify.planes import Planes, planes, second

Array = np.ndarray[Any, Any]

CARE = 2.0**-44
"""What a computed function value, or a few operations on it, may be off by, relatively."""


def smooth_ends(node: Smooth, cells: Cells) -> tuple[Array, Array]:
    """The least and the greatest value: it increases in every cell."""
    found = []
    for side, ends in ((-1, cells.lo), (1, cells.hi)):
        top, _, total = weighed(node, ends)
        value = top + np.log(total) / node.beta
        care = CARE * (np.abs(top) + np.abs(value) + (1 + np.log(total)) / node.beta)
        found.append(np.where(counts(node) > 0, value + side * care, 0.0))
    return found[0], found[1]


def counts(node: Smooth) -> Array:
    """How many cells each output counts."""
    found: Array = (node.taps >= 0).sum(axis=1) + node.zeros
    return found


def weighed(node: Smooth, x: Array) -> tuple[Array, Array, Array]:
    """The greatest cell of each window, the weight of each cell beside it, and the sum of all weights; 1 where none counts."""
    top = np.maximum(x.max(axis=1), np.where(node.zeros > 0, 0.0, -np.inf))
    top = np.where(np.isfinite(top), top, 0.0)
    parts = np.exp(node.beta * (x - top[:, None]))
    total = parts.sum(axis=1) + weighed_zeros(node, top)
    return top, parts, np.where(total > 0, total, 1.0)


def weighed_zeros(node: Smooth, top: Array) -> Array:
    """The weight of the zeros of each window; where there is none, exp might overflow."""
    return np.where(node.zeros > 0, node.zeros * np.exp(-node.beta * np.maximum(top, 0.0)), 0.0)


def smooth_planes(node: Smooth, cells: Cells) -> Planes:
    n, width = np.maximum(counts(node), 1), cells.lo.shape[1]
    above = planes(cells, second(cells), np.zeros(cells.lo.shape))
    middle = np.where(np.isfinite(cells.lo), 0.5 * cells.lo + 0.5 * cells.hi, -np.inf)
    top, parts, total = weighed(node, middle)
    share = parts / total[:, None] * (1 - (width + 4) * 2.0**-50)
    gaps = np.where(np.isfinite(middle), middle - top[:, None], 0.0)
    zero_share = weighed_zeros(node, top) / total
    entropy = np.log(total) - node.beta * ((share * gaps).sum(axis=1) - zero_share * top)
    care = (width + 8) * CARE * (1 + np.log(n) + node.beta * np.abs(gaps).max(axis=1) + node.beta * np.abs(top) * zero_share)
    low, _ = cells.ends
    rest = np.where(node.zeros > 0, 0.0, (1 - share.sum(axis=1)) * np.where(np.isfinite(low), low, 0.0))
    empty = counts(node) == 0
    return Planes(
        above.above,
        np.where(empty, 0.0, above.above_constant + np.log(n) / node.beta * (1 + CARE) + CARE / node.beta),
        share,
        np.where(empty, 0.0, rest + (entropy - care) / node.beta),
        above.t,
    )


# --- tanh and the logistic function ------------------------------------------------------------------------------


def curve_value(node: Curve, x: Array) -> Array:
    with np.errstate(over="ignore"):
        y: Array = 1 / (1 + np.exp(-x)) if node.logistic else np.tanh(x)
    return y


def curve_slope(node: Curve, x: Array) -> Array:
    y = curve_value(node, -np.abs(x))  # the same slope, where 1 − y loses nothing
    found: Array = y * (1 - y) if node.logistic else (1 - y) * (1 + y)
    return found


def curve_ends(node: Curve, cells: Cells) -> tuple[Array, Array]:
    lo, hi = curve_value(node, cells.lo[:, 0]), curve_value(node, cells.hi[:, 0])
    return lo - CARE, hi + CARE


def curve_planes(node: Curve, cells: Cells) -> Planes:
    lo, hi = cells.lo[:, 0], cells.hi[:, 0]
    middle, (low, high) = 0.5 * lo + 0.5 * hi, (curve_value(node, end) for end in (lo, hi))
    least = np.minimum(curve_slope(node, lo), curve_slope(node, hi)) * (1 - CARE)
    with np.errstate(invalid="ignore", divide="ignore"):
        secant = np.where(hi > lo, np.maximum((high - low - 4 * CARE) / (hi - lo), 0.0), 0.0)
    at, tangent = curve_value(node, middle), curve_slope(node, middle)
    below = np.where(lo >= 0, np.maximum(secant, least), np.where(hi <= 0, tangent, least))
    above = np.where(hi <= 0, np.maximum(secant, least), np.where(lo >= 0, tangent, least))
    care = 8 * CARE * (1 + np.abs(lo) + np.abs(hi))
    below_constant = np.where((hi <= 0) & (lo < 0), at - below * middle, low - below * lo) - care
    above_constant = np.where((lo >= 0) & (hi > 0), at - above * middle, high - above * hi) + care
    return Planes(above[:, None], above_constant, below[:, None], below_constant, high)
