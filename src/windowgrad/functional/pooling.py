"""The body of every public pooling function: from its options to parameters, and to a call that is ready to be made.

What was right once is not checked again: the options of a call lead to the parameters that were made from them, and those and
the kind of the array to the rule with everything done that follows from them (`dispatch.route`). Python says that 1, 1.0
and True are equal; as options they are not. So options are known by being the same objects, which plain values in a program
are: small integers, literals, attributes of a layer. All others are checked anew, and come to the same end.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import Any

import numpy as np

from windowgrad import dispatch
from windowgrad.arguments import flag, is_masked
from windowgrad.dispatch import Ready, route
from windowgrad.functional.masks import masked
from windowgrad.functional.remember import KEPT, is_plain
from windowgrad.params import PoolParams
from windowgrad.spec.op import Op

Known = dict[tuple[Any, ...], Ready | None]
"""Prepared calls by shape and dtype and, of arrays whose cells are not in a row, strides and whether they can be written.

With a mask, first by the shape and the dtype of that.
"""


def pooling(op: Op, make: Callable[..., PoolParams], *fixed: Any) -> Callable[..., Any]:
    """`compute(x, options, out, return_indices, where)` for the parameters `make(*fixed, *options)`."""
    kept: dict[tuple[Any, ...], tuple[tuple[Any, ...], PoolParams, Known, Known]] = {}

    def learn(options: tuple[Any, ...]) -> tuple[PoolParams, Known, Known]:
        params, ready, named = make(*fixed, *options), Known(), Known()
        if all(map(is_plain, options)):
            if len(kept) >= KEPT:
                kept.clear()
            kept[options] = options, params, ready, named
        return params, ready, named

    def compute(x: Any, options: tuple[Any, ...], out: Any = None, return_indices: Any = False, where: Any = None) -> Any:
        try:
            known, params, ready, named = kept[options]
            same = all(map(is_, known, options))
        except Exception:  # not met before, or it has no hash: of whatever kind the options are, `make` says what is wrong
            same = False
        if not same:
            params, ready, named = learn(options)
        if type(where) is type(x) is np.ndarray and out is None and return_indices is False:
            kinds = where.shape, where.dtype, x.shape, x.dtype
            call = ready.get(kinds)
            if call is not None and dispatch.READY and x.flags.carray:
                try:
                    return call(where, x)
                except MemoryError as error:
                    raise dispatch.no_memory(op, error) from error
            y = masked(op, params, x, where, None, False)
            if kinds not in ready and len(ready) < KEPT:
                ready[kinds] = dispatch.prepared_masked(op, params, where.shape, kinds[2:])
            return y
        if where is not None or (type(x) is not np.ndarray and isinstance(x, np.ndarray) and is_masked(x)):
            return masked(op, params, x, where, out, op.with_indices is not None and flag("return_indices", return_indices))
        if out is None and type(x) is np.ndarray and (return_indices is False or (return_indices is True and op.with_indices)):
            if return_indices:
                ready = named
            kind, flags = (x.shape, x.dtype), x.flags
            call = ready.get(kind if flags.carray else (*kind, x.strides, flags.behaved))
            if call is not None and dispatch.READY and flags.aligned:
                try:
                    return call(x)
                except MemoryError as error:
                    raise dispatch.no_memory(op, error) from error
            y = (op.with_indices if return_indices else op.forward)(params, x)  # type: ignore[misc]  # it is there
            if len(ready) < KEPT:
                name = "with_indices" if return_indices else "forward"
                if kind not in ready:
                    ready[kind] = route(op, name, params, kind)[1] if params.lasting else None
                if not flags.carray and (strided := (*kind, x.strides, flags.behaved)) not in ready:
                    ready[strided] = dispatch.prepared_last(op, name, params, x)
            return y
        if out is None and return_indices is False:
            return op.forward(params, x)
        if return_indices is False and type(x) is type(out) is np.ndarray:
            written = x.shape, x.dtype, True
            writing = ready.get(written)
            if writing is not None and dispatch.READY and writing(x, out):
                return out
            y = op.forward(params, x, out=out)
            if written not in ready and len(ready) < KEPT:
                ready[written] = dispatch.prepared_writing(op, params, x) if params.lasting else None
            return y
        rule = op.with_indices if op.with_indices is not None and flag("return_indices", return_indices) else op.forward
        return rule(params, x, out=out)

    return compute
