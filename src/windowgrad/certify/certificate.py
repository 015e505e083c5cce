"""Proofs in files: what `certify.prove` has found, so that `certify.check` can derive it again without trusting it.

`docs/certificates.md` has the format. The same proof always gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

import numpy as np

from windowgrad.certify.linear import Analysis
from windowgrad.certify.nodes import Extreme, Relaxed
from windowgrad.certify.planes import Planes
from windowgrad.certify.properties import Property
from windowgrad.certify.proving import Leaf, Result
from windowgrad.errors import KindError, OptionError, show
from windowgrad.saving import Path, replacing

Array = np.ndarray[Any, Any]

FORMAT = "windowgrad certificate 1"
CODES = {"float64": "F64", "int64": "I64"}


def write(result: Result, network: Path | bytes, path: Path) -> None:
    """Store the proof of a property that holds, for `check` and for others.

    Args:
        result: what `prove` has returned; its verdict must be "holds".
        network: the ONNX file of the network, or its bytes.
        path: the certificate.
    """
    if not isinstance(result, Result) or result.verdict != "holds" or result.network is None or result.goal is None:
        raise OptionError(
            f"result={show(getattr(result, 'verdict', result))}: only a proof that a property holds has a certificate"
        )
    if not isinstance(network, (str, os.PathLike, bytes)):
        raise KindError(f"network={show(network)}: must be the path of an ONNX file, or its bytes")
    for node in result.network.nodes:
        if isinstance(node, Relaxed) and not isinstance(node, Extreme):
            raise KindError(f"no certificate for {node.name}: it has no bounds in exact arithmetic")
    leaves = in_order(result.leaves)
    axes, cuts = tree_of(leaves)
    lo, hi = root_of(leaves)
    shape = result.network.in_shape
    arrays = {"lo": lo.reshape(shape), "hi": hi.reshape(shape), "cut_axes": np.array(axes, np.int64), "cuts": np.array(cuts)}
    for number, leaf in enumerate(leaves):
        arrays |= {f"{number}/{name}": array for name, array in claims(leaf).items()}
    if not isinstance(network, bytes):
        with open(network, "rb") as file:
            network = file.read()
    about = {
        "format": FORMAT,
        "network": hashlib.sha256(network).hexdigest(),
        "arithmetic": result.arithmetic,
        "property": json.dumps(stated(result.goal), separators=(",", ":")),
        "leaves": str(len(leaves)),
    }
    header, blocks = serialised(arrays, about)
    with replacing(path) as file:
        file.write(header)
        for block in blocks:
            file.write(block)


def claims(leaf: Leaf) -> dict[str, Array]:
    """The boxes and planes of each extreme on one leaf."""
    found: dict[str, Array] = {}
    analysis: Analysis = leaf.analysis
    for node in analysis.network.nodes:
        if isinstance(node, Extreme):
            boxes = [analysis.state.boxes[source] for source in node.sources]
            planes: Planes = analysis.planes[node.result]
            entries = {
                "lo": np.concatenate([box.lo for box in boxes]),
                "hi": np.concatenate([box.hi for box in boxes]),
                "t": planes.t,
                "w": planes.below,
            }
            if leaf.planes is not None:
                own = leaf.planes[node.result]
                entries |= {"rows_t": own.t, "rows_w": own.below}
            found |= {f"{node.number}/{name}": array for name, array in entries.items()}
    return found


def stated(goal: Property) -> list[list[dict[str, Any]]]:
    """A property as JSON says it."""
    return [
        [
            {"terms": [list(term) for term in each.terms], "bound": f"{each.bound.numerator}/{each.bound.denominator}"}
            for each in clause
        ]
        for clause in goal.clauses
    ]


# --- the cuts ----------------------------------------------------------------------------------------------------


def in_order(leaves: list[Leaf]) -> list[Leaf]:
    """Each cut has first all that is below it, then all that is above it."""
    return sorted(leaves, key=lambda leaf: [above for _, _, above in leaf.cuts])


def tree_of(leaves: list[Leaf]) -> tuple[list[int], list[float]]:
    """The cuts as the checker reads them: before its parts each cut, and axis −1 for each leaf."""
    axes: list[int] = []
    places: list[float] = []
    before: tuple[tuple[int, float, bool], ...] = ()
    for leaf in leaves:
        common = next((i for i, (a, b) in enumerate(zip(before, leaf.cuts, strict=False)) if a != b), None)
        for axis, cut, _ in leaf.cuts if common is None else leaf.cuts[common + 1 :]:
            axes.append(axis)
            places.append(cut)
        axes.append(-1)
        places.append(0.0)
        before = leaf.cuts
    return axes, places


def root_of(leaves: list[Leaf]) -> tuple[Array, Array]:
    """The whole box, of which the leaves are parts."""
    lo, hi = (np.stack([getattr(leaf.box, end) for leaf in leaves]) for end in ("lo", "hi"))
    return lo.min(axis=0), hi.max(axis=0)


# --- the file ----------------------------------------------------------------------------------------------------


def serialised(arrays: dict[str, Array], about: dict[str, str]) -> tuple[bytes, list[bytes]]:
    """The header of a safetensors file, in one order, and its data."""
    entries: dict[str, Any] = {"__metadata__": dict(sorted(about.items()))}
    blocks, end = [], 0
    for name in sorted(arrays):
        array = arrays[name]
        block = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
        entries[name] = {"dtype": CODES[array.dtype.name], "shape": array.shape, "data_offsets": [end, end + len(block)]}
        blocks.append(block)
        end += len(block)
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text, blocks
