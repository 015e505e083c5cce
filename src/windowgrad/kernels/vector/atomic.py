"""Words of memory that several threads change."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic


@intrinsic
def exchange(typing: Any, words: Any, i: Any, value: Any) -> Any:
    """words[i] = value, and what was there before, as one step that no thread can come between."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("xchg", builder.gep(args[0], [args[1]]), args[2], "acq_rel")

    return types.int64(words, types.intp, types.int64), emit
