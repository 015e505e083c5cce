"""Whether a certificate proves what it says of a network: decided in exact integers, without a tolerance.

    verdict = check("digit.safetensors", "digit.onnx")

The network is read from the ONNX file alone. Nothing in the certificate is trusted: its boxes must follow from the network, its
cuts must cover the box of inputs, and the property must follow on every part. This file and the others called `check_…` share
no code with what makes certificates; `docs/certificates.md` has the format, and what must be trusted.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from windowgrad.certify.check_bounds import Bounds, RejectedError
from windowgrad.certify.check_network import GRID, Array, Network
from windowgrad.certify.check_operators import network_of
from windowgrad.errors import WindowgradError, cut, show
from windowgrad.loading import loading
from windowgrad.onnx import graph, reading
from windowgrad.tables import stated, table

FORMAT = "windowgrad certificate 1"
BOUND = re.compile(r"-?\d{1,4000}(/[1-9]\d{0,3999})?")
MOST_BYTES = 1 << 30

Path: TypeAlias = "str | os.PathLike[str]"
Row = tuple[tuple[tuple[int, int], ...], Fraction]
"""Σ coefficient·y[place] > bound: the pairs (place, coefficient), and the bound."""


@dataclass(frozen=True)
class Verdict:
    """`accepted`: the property holds for every input of the box. If not, `reason` says what does not follow."""

    accepted: bool
    reason: str | None
    arithmetic: str = ""
    lo: Array | None = None
    hi: Array | None = None
    clauses: tuple[tuple[str, ...], ...] = ()
    """What is proved of the output: of each clause one inequality."""
    leaves: int = 0

    def __bool__(self) -> bool:
        return self.accepted

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        if not self.accepted:
            return table("certificate", [("verdict", "rejected"), ("reason", str(self.reason))])
        lines = [("verdict", "accepted"), ("arithmetic", self.arithmetic), ("boxes", f"{self.leaves:,}")]
        if self.lo is not None and self.hi is not None:
            lines += [("input", str(self.lo.shape)), ("greatest width", f"{float((self.hi - self.lo).max()):.6g}")]
        return table("certificate", lines + stated(self.clauses))


def check(certificate: Path, network: Path) -> Verdict:
    """Check a certificate against the ONNX file of its network.

    Arguments:
        certificate: the path of the certificate.
        network: the path of the ONNX file.

    Returns a `Verdict`, which is true if the certificate is accepted. A certificate that is damaged, or that belongs to another
    network, is rejected; a network that cannot be read is an error.
    """
    data = network_bytes(network)
    with reading.blaming(network):
        model = reading.checked(reading.parsed(data), os.path.dirname(os.path.abspath(os.fsdecode(network))))
        read = graph.decoded(model)
    try:
        return Certificate(certificate).proved(read, hashlib.sha256(data).hexdigest())
    except RejectedError as error:
        return Verdict(False, error.args[0])


def network_bytes(network: Path) -> bytes:
    with loading:
        import onnx  # noqa: F401  # an error here is not one of the file
    with reading.blaming(network):
        return reading.contents(reading.file_name(network))


class Certificate:
    """What the file says; all numbers are finite."""

    def __init__(self, path: Path) -> None:
        with loading:
            from safetensors import SafetensorError, safe_open
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_BYTES:
            raise RejectedError(f"must be a regular file of at most {MOST_BYTES} bytes")
        try:
            with safe_open(os.fsdecode(path), framework="np") as file:
                about = file.metadata() or {}
                self.arrays = {name: numbers(name, file) for name in file.keys()}  # noqa: SIM118  # it is not a dict
        except (SafetensorError, UnicodeError, MemoryError) as error:
            raise RejectedError(f"is not a safetensors file, or is damaged: {cut(str(error), 200)}") from None
        if about.get("format") != FORMAT:
            raise RejectedError(f"has format {show(about.get('format'))}: must be {FORMAT!r}")
        self.network, self.arithmetic = about.get("network"), about.get("arithmetic")
        if self.arithmetic not in ("real", "float32"):
            raise RejectedError(f"has arithmetic {show(self.arithmetic)}: must be 'real' or 'float32'")
        self.count = about.get("leaves")
        self.clauses = clauses_of(about.get("property", ""))
        self.lo, self.hi = self.array("lo", np.float64), self.array("hi", np.float64)
        if self.lo.shape != self.hi.shape or self.lo.shape[:1] != (1,) or (self.lo > self.hi).any():
            raise RejectedError("lo and hi must have the same shape, of one input, and lo must not be above hi")

    def array(self, name: str, dtype: Any) -> Array:
        if name not in self.arrays or self.arrays[name].dtype != dtype:
            raise RejectedError(f"{name} must be there, and be {np.dtype(dtype)}")
        return self.arrays[name]

    def leaves(self) -> Iterator[tuple[Array, Array]]:
        """The boxes that the cuts leave, in order: each cut has first all that is below it, then all that is above it."""
        axes, cuts = self.array("cut_axes", np.int64), self.array("cuts", np.float64)
        if axes.ndim != 1 or axes.shape != cuts.shape or len(axes) == 0:
            raise RejectedError("cut_axes and cuts must be lists of the same length")
        boxes = [(self.lo.reshape(-1), self.hi.reshape(-1))]
        for axis, cut_at in zip(axes.tolist(), cuts.tolist(), strict=True):
            if not boxes:
                raise RejectedError("has more cuts than boxes")
            lo, hi = boxes.pop()
            if axis == -1:
                yield lo, hi
                continue
            if not 0 <= axis < len(lo) or not lo[axis] <= cut_at <= hi[axis]:
                raise RejectedError(f"the cut at {cut_at} on axis {axis} is not in its box")
            below, above = hi.copy(), lo.copy()
            below[axis] = above[axis] = cut_at
            boxes += [(above, hi), (lo, below)]
        if boxes:
            raise RejectedError("the cuts do not cover the box: a part has no leaf")

    def proved(self, read: graph.Graph, digest: str) -> Verdict:
        """That it is accepted, or an error that says why not."""
        if self.network != digest:
            raise RejectedError("was made for another network: the hashes differ")
        try:
            network, output = network_of(read, self.lo.shape, self.arithmetic == "float32")
        except WindowgradError as error:
            raise RejectedError(error.args[0]) from None
        rows = list(dict.fromkeys(row for clause in self.clauses for row in clause))
        for terms, _ in rows:
            if any(place >= len(output) for place, _ in terms):
                raise RejectedError(f"speaks of a cell that the output, of {len(output)} cells, does not have")
        count = 0
        for number, box in enumerate(self.leaves()):
            self.prove_leaf(number, box, network, output, rows)
            count += 1
        if self.count != str(count):
            raise RejectedError(f"says that it has {show(self.count)} leaves, but has {count}")
        said = tuple(tuple(map(text_of, clause)) for clause in self.clauses)
        return Verdict(True, None, str(self.arithmetic), self.lo, self.hi, said, count)

    def prove_leaf(self, number: int, box: tuple[Array, Array], network: Network, output: Array, rows: list[Row]) -> None:
        start = f"{number}/"
        claims = {name.removeprefix(start): self.array(name, np.float64) for name in self.arrays if name.startswith(start)}
        bounds = Bounds(network, *box, claims, len(rows))
        entries = [(place, output[cell], factor) for place, (terms, _) in enumerate(rows) for cell, factor in terms]
        places, cells = (np.array([entry[side] for entry in entries], np.int64) for side in (0, 1))
        factors = np.array([factor << GRID for _, _, factor in entries], object)
        least = bounds.least(places, cells, factors, own=True, count=len(rows))
        holds = {
            row: int(value) * row[1].denominator > row[1].numerator << (2 * GRID)
            for row, value in zip(rows, least, strict=True)
        }
        for clause in self.clauses:
            if not any(holds[row] for row in clause):
                said = " or ".join(map(text_of, clause)) or "an empty clause"
                raise RejectedError(f"leaf {number}: {cut(said, 200)} does not follow")


def numbers(name: str, file: Any) -> Array:
    """An array of a file, of floats or integers of 64 bits."""
    if file.get_slice(name).get_dtype() not in ("F64", "I64"):
        raise RejectedError(f"{show(name)} is {file.get_slice(name).get_dtype()}: must be F64 or I64")
    found: Array = file.get_tensor(name)
    if not np.isfinite(found).all():
        raise RejectedError(f"{show(name)} has a number that is not finite")
    return found


def clauses_of(text: str) -> tuple[tuple[Row, ...], ...]:
    try:
        given = json.loads(text)
        return tuple(tuple(row_of(row) for row in clause) for clause in given)
    except (ValueError, TypeError, KeyError, RecursionError):  # of other types, or not JSON
        raise RejectedError('property must be a list of lists of {"terms": [[place, integer], …], "bound": "p/q"}') from None


def row_of(row: Any) -> Row:
    terms = tuple((place, factor) for place, factor in row["terms"])
    exact = all(type(n) is int for term in terms for n in term)
    if not exact or any(place < 0 for place, _ in terms) or not BOUND.fullmatch(row["bound"]):
        raise ValueError
    return terms, Fraction(row["bound"])


def text_of(row: Row) -> str:
    terms, bound = row
    return f"{' '.join(f'{factor:+d}·y[{place}]' for place, factor in terms) or '0'} > {cut(str(bound), 60)}"
