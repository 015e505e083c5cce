"""Arrays in files of `numpy.save`, and models; what is wrong with a file is one error that names it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from windowgrad.errors import KindError, OptionError, show
from windowgrad.onnx import Network, load
from windowgrad.saving import check_place, replacing

Array = np.ndarray[Any, Any]


def loaded(path: str | Path) -> Network:
    """The network of a file."""
    try:
        return load(path)
    except ModuleNotFoundError as error:
        raise KindError(f"{path}: reading it needs {error.name}: pip install 'windowgrad[onnx]'") from error
    except OSError as error:
        raise OptionError(f"{path}: cannot be read: {error.strerror or error}") from None


def named(option: str, given: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """The files of an option by the names of the inputs (or outputs): `name=file`, or only `file` where there is one name."""
    found: dict[str, str] = {}
    for text in given:
        name = next((name for name in names if text.startswith(f"{name}=")), None)
        path = text if name is None else text[len(name) + 1 :]
        if name is None and len(names) != 1:
            raise OptionError(f"{option}={show(text)}: must be name=file, where the name is one of {show(list(names))}")
        if (name := name or names[0]) in found:
            raise OptionError(f"{option}={show(text)}: a file for {show(name)} is given twice")
        found[name] = path
    return found


def read_array(option: str, path: str) -> Array:
    """The array of an .npy file. No Python objects are loaded, and a header that claims more than the file has is refused."""
    where = f"{option}={show(path)}"
    if not os.path.isfile(path):
        raise OptionError(f"{where}: {'is not a regular file' if os.path.lexists(path) else 'there is no such file'}")
    try:
        array = np.lib.format.open_memmap(path, mode="r")  # which knows no pickle
        return np.array(array, dtype=array.dtype.newbyteorder("="))
    except OSError as error:
        raise OptionError(f"{where}: cannot be read: {error.strerror or error}") from None
    except (ValueError, EOFError) as error:
        why = "; Python objects are not loaded" if "objects" in str(error) else f" ({show(str(error))[1:-1]})"
        raise OptionError(f"{where}: must be an .npy file of numbers, whole, as numpy.save writes it{why}") from None


def check_outputs(paths: dict[str, str]) -> None:
    """Raise an error for files that cannot be written, before the work starts."""
    for path in paths.values():
        check_place("output", path)
    if len({os.path.realpath(path) for path in paths.values()}) < len(paths):
        raise OptionError(f"output={show(list(paths.values()))}: two outputs have the same file")


def write_array(path: str, array: Array) -> None:
    """A file of `numpy.save`, which replaces one that is there when it is complete."""
    try:
        with replacing(path) as file:
            np.lib.format.write_array(file, array, allow_pickle=False)
    except OSError as error:
        raise OptionError(f"output={show(path)}: cannot be written: {error.strerror or error}") from None
