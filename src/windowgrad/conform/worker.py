"""The process that runs programs: a JSON line in, a JSON line out. It knows no adapter and no case, only Python texts.

It is started by its path, so that it loads nothing but what the programs import: python worker.py <channel>. The channel is a
socket that no program is told of: what a program prints goes to standard error.
"""

from __future__ import annotations

import json
import math
import os
import sys
import warnings
from typing import Any

MOST_CELLS = 2**16
"""An array with more is told by its shape: no question has so large an answer."""
MOST_PARTS = 64
MOST_TEXT = 2000


def answer(program: str, many: bool) -> dict[str, Any]:
    """What the program leaves in `got`, or how it ended. Of many cases it is a list, None for what it leaves open."""
    names: dict[str, Any] = {"__name__": "conform"}
    try:
        exec(compile(program, "<case>", "exec"), names)
        got = names.get("got", ())
        if many:
            return {"answers": [None if each is None else parts(each) for each in got]}
        return {"arrays": parts(got)}
    except Exception as error:
        return {"error": said(error)}


def said(error: Exception) -> str:
    """The error in words, even if it has none."""
    try:
        return f"{type(error).__name__}: {error}"[:MOST_TEXT]
    except Exception:
        return f"{type(error).__name__}: (its message cannot be shown)"


def parts(got: Any) -> list[dict[str, Any]]:
    return [described(part) for part in (got[:MOST_PARTS] if isinstance(got, (tuple, list)) else [got])]


def described(part: Any) -> dict[str, Any]:
    """An array by shape, dtype and cells, or what it is if it is no array of real numbers."""
    import numpy as np

    try:
        array = part.detach() if hasattr(part, "detach") else part
        if isinstance(array, np.ma.MaskedArray):
            return {"odd": "a masked array"}
        array = np.asarray(array)
        about: dict[str, Any] = {"shape": list(array.shape), "dtype": str(array.dtype)[:MOST_TEXT]}
        extension = array.dtype.kind == "V" and not issubclass(array.dtype.type, np.void)  # such as bfloat16
        if array.dtype.kind not in "biuf" and not extension:
            return about | {"odd": f"an array of dtype {about['dtype']}"}
        return about | ({"cells": cells(array)} if array.size <= MOST_CELLS else {})
    except Exception as error:
        return {"odd": f"a {type(part).__name__} that NumPy cannot read ({said(error)})"[:MOST_TEXT]}


def cells(array: Any) -> list[Any]:
    """The cells in row-major order. What JSON has no number for is a word."""
    plain = array if array.dtype.kind in "biuf" and array.dtype.itemsize in (1, 4, 8) else array.astype("float64")
    return [cell if not isinstance(cell, float) or math.isfinite(cell) else str(cell) for cell in plain.ravel().tolist()]


def serve(channel: int) -> None:
    """Answer until the other side closes. Only the process that was started answers, not a copy that a program forked."""
    own = os.getpid()
    with os.fdopen(channel, "rb", closefd=False) as questions:
        for line in questions:
            question = json.loads(line)
            found = answer(question["program"], question["many"]) | {"number": question["number"]}
            if os.getpid() != own:
                os._exit(0)
            rest = json.dumps(found, allow_nan=False).encode() + b"\n"
            while rest:
                rest = rest[os.write(channel, rest) :]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if not sys.flags.safe_path:
        sys.path.pop(0)  # the folder of this file, whose names are not what programs mean by them
    os.set_inheritable(int(sys.argv[1]), False)
    serve(int(sys.argv[1]))
