"""Where an answer of the explorer's script parts from the specification.

All is compared bit for bit, but the smooth maximum: `exp` and `log` of a browser and of NumPy each err by up to about one unit
in the last place, in either direction. So its finite results may differ by `ULPS` units of 2⁻⁵³ of what their rounding errors
are measured by: of a value y, max(|y|, 1/|β|); of a share, itself; of a gradient, the sum of the magnitudes that were added.
(Of 200,000 settings, the largest difference was 4.0 units.) They may not differ where nothing is rounded: in a window of one
cell, and in what is NaN or infinite.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from support.explorer_meaning import TINY
from support.explorer_script import unpack

ULPS = 8
Answer = dict[str, Any]


def differences(wanted: Answer, found: Answer) -> list[str]:
    """What differs, by name; nothing if all is as it should be."""
    if "error" in wanted or "error" in found:
        return [] if wanted == found else ["error"]
    return [name for name, is_same in (*structure(wanted, found), *numbers(wanted, found)) if not is_same]


def structure(wanted: Answer, found: Answer) -> Iterator[tuple[str, bool]]:
    """Sizes, indices, and what each window covers."""
    yield "out", found["out"] == wanted["out"]
    yield "formula", len(found["formula"]) == len(wanted["out"])
    yield "indices", found["indices"] == wanted["indices"]
    yield "index of a window", [each["at"] for each in found["seen"]] == [list(place) for place in np.ndindex(*wanted["out"])]
    for name in ("flats", "taps", "padded", "past"):
        yield name, [each[name] for each in found["seen"]] == [each[name] for each in wanted["windows"]]
    for name, absent in (("winners", []), ("divisor", None)):
        yield name, [each[name] for each in found["seen"]] == [each.get(name, absent) for each in wanted["windows"]]
    for name in ("x", "weight", "bias", "beta"):
        yield f"whether {name} has a gradient", (found["back"][name] is not None) == (name in wanted["back"])
        yield f"whether {name} is given to", (found["gives"][name] is not None) == (name in wanted["back"])


def numbers(wanted: Answer, found: Answer) -> Iterator[tuple[str, bool]]:
    """Values, shares and gradients."""
    scale, values = wanted["scale"], unpack(found["values"])
    yield "values", is_near(values, wanted["values"], scale["values"])
    yield "value of a window", all(is_near(unpack(each["value"]), values[o : o + 1]) for o, each in enumerate(found["seen"]))
    for one, window, size in zip(found["seen"], wanted["windows"], scale["shares"], strict=False):
        if "shares" in window:
            shares = np.array(window["shares"], dtype=float)
            yield "shares", is_near(unpack(one["shares"]), shares, size * (shares + TINY))
    for name, gradient in wanted["back"].items():
        yield f"gradient of {name}", is_near(unpack(found["back"][name] or ""), gradient, scale["back"][name])
    for name, gradient in wanted["gives"].items():
        given = unpack(found["gives"][name] or "") if name in ("bias", "beta") else placed(found["gives"][name], len(gradient))
        known = np.where(np.isfinite(gradient), gradient, given)  # else other outputs, whose gradient is 0, give NaN: 0·∞
        yield f"given to {name}", is_near(given + 0.0, known + 0.0, scale["gives"][name])


def placed(part: Answer | None, count: int) -> Any:
    found = np.zeros(count)
    if part is not None:
        found[part["flats"]] = unpack(part["values"])
    return found


def is_near(a: Any, b: Any, scale: Any = 0.0) -> bool:
    """Whether the numbers have the same bits (NaN equals NaN), or are finite and differ by rounding errors of that scale."""
    if a.shape != b.shape:
        return False
    same = (a == b) & (np.signbit(a) == np.signbit(b)) | np.isnan(a) & np.isnan(b)
    with np.errstate(all="ignore"):  # a scale that is not finite allows nothing
        near = (abs(a - b) <= ULPS * 2.0**-53 * scale) & (np.asarray(scale) > 0) & (np.asarray(scale) < np.inf)
    return bool((same | near).all())
