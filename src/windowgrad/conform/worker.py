"""The process that runs programs: a JSON line in, a JSON line out. It knows no adapter and no case, only Python texts.

It is started by its path, so that it loads nothing but what the programs import.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from typing import Any, TextIO


def answer(program: str) -> dict[str, Any]:
    """What the program leaves in `got`, or how it ended."""
    names: dict[str, Any] = {"__name__": "conform"}
    try:
        exec(compile(program, "<case>", "exec"), names)
        got = names.get("got", ())
        return {"arrays": [described(part) for part in (got if isinstance(got, (tuple, list)) else [got])]}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:2000]}


def described(array: Any) -> dict[str, Any]:
    """An array by shape, dtype and cells. Cells that JSON cannot say are written as words."""
    import numpy as np

    if hasattr(array, "detach"):
        array = array.detach()
    array = np.asarray(array)
    cells = array.astype(np.float64) if array.dtype.kind not in "biuf" or array.dtype.itemsize < 4 else array
    flat = [cell if np.isfinite(cell) else str(cell) for cell in cells.ravel().tolist()]
    return {"shape": list(array.shape), "dtype": str(array.dtype), "cells": flat}


def serve(questions: TextIO, answers: TextIO) -> None:
    for line in questions:
        print(json.dumps(answer(json.loads(line)), allow_nan=False), file=answers, flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.path.pop(0)  # the folder of this file, whose names are not what programs mean by them
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a framework prints must not reach the channel
    serve(sys.stdin, channel)
