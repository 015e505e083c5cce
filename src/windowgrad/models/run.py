"""`windowgrad run`: the outputs of a model on arrays in files, in floats or exactly."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from windowgrad.errors import OptionError, cut, show
from windowgrad.models.files import Array, check_outputs, loaded, named, read_array, write_array
from windowgrad.onnx.kinds import as_objects, is_objects

LONGEST = 40
"""Characters of a cell that is printed; an exact fraction may have thousands."""


def run(model: Path, inputs: Sequence[str], outputs: Sequence[str], exact: bool, console: Console) -> None:
    """Compute the model; write each output that has a file, and print the others."""
    net = loaded(model)
    given = named("input", inputs, [value.name for value in net.inputs])
    files = named("output", outputs, net.outputs)
    check_outputs(files)
    arrays = {name: read_array("input", path) for name, path in given.items()}
    results = net(**{name: exactly(name, array) if exact else array for name, array in arrays.items()})
    for name, result in zip(net.outputs, results if isinstance(results, tuple) else (results,), strict=True):
        array = np.asarray(result)
        kind = f"{name}: {'exact' if is_objects(array) else array.dtype}{array.shape}"
        if name in files:
            write_array(files[name], as_text(name, array) if is_objects(array) else array)
            console.print(f"{kind} -> {files[name]}", markup=False, soft_wrap=True)
        else:
            console.print(f"{kind}\n{view(name, array)}", markup=False, soft_wrap=True)


def exactly(name: str, array: Array) -> Any:
    """The very numbers of floats as fractions; text such as 1/3, as an exact output is written, is read back."""
    if array.dtype.kind != "U":
        return as_objects(array)
    found = np.empty(array.shape, object)
    try:
        found.reshape(-1)[:] = [Fraction(cell) for cell in array.reshape(-1).tolist()]
    except (ValueError, ZeroDivisionError) as error:
        raise OptionError(f"input {show(name)}: its text must be numbers such as 0.5 or 1/3 ({error})") from None
    return found


def as_text(name: str, array: Array) -> Array:
    """Fractions as an array of text such as 1/3, which a file of NumPy can hold: nothing is rounded."""
    try:
        return np.array([str(cell) for cell in array.reshape(-1).tolist()], dtype=np.str_).reshape(array.shape)
    except ValueError:  # Python writes no integers of more than 4300 digits
        raise OptionError(
            f"output {show(name)}: its fractions have too many digits to be written; run without --exact"
        ) from None


def view(name: str, array: Array) -> str:
    """The cells, or a few of each axis if they are many."""
    if not is_objects(array):
        return np.array2string(array, threshold=64, edgeitems=2)
    cells = np.vectorize(lambda cell: cut(cell, LONGEST), otypes=[np.str_])(as_text(name, array))
    return np.array2string(cells, threshold=64, edgeitems=2, formatter={"str_kind": str})
