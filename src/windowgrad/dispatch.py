"""Dispatch: from an operator, a rule and the arrays to an implementation. There is no silent fallback to something slow.

An array type of your own takes part by one method, tried in the order of the arguments:

    def __windowgrad__(self, op, rule, params, arrays, needs=None): ...

It gets the operator's record, the rule's name ("forward", "jvp", "vjp", "with_indices"), the parameters and all arrays
of the call, and returns the result, or NotImplemented to pass. Inside, `run` computes on the arrays it wraps. `needs` says
of each input whether its gradient is wanted (None: all are); a method that does not take it computes all gradients.
Arrays of the frameworks in `foreign.BRIDGES` are known by where their class comes from; the bridge's `compute` is that method.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from inspect import signature
from typing import Any

import numpy as np

from windowgrad import output, peak
from windowgrad.checks import Kind, argument_names, check_array, check_dtype, check_params, check_shapes, inputs_of
from windowgrad.dtypes import is_half, native
from windowgrad.errors import KindError, WindowError
from windowgrad.foreign import computes_itself
from windowgrad.params import Mask, Params, PoolParams
from windowgrad.routes import (
    ROUTES,
    Route,
    array_in_silence,
    by_kernel,
    by_record,
    by_spec,
    facts_of,
    in_silence,
    loaded,
    too_many,
)
from windowgrad.spec.op import Op

Ready = Callable[..., Any]
PLAIN = frozenset({np.ndarray})

READY = True
"""Whether calls are made as they were prepared. Tests that change how kernels cut up their work say no."""

KNOWN: dict[tuple[Any, ...] | None, tuple[Params, Ready | None]] = {}
"""The calls that were made, as `route` prepared them, by operator, rule, parameters and kinds of arrays.

Parameters are known by their identity, which takes half of the time that `route` takes to find them by their hash. They stay
alive with their entry, so no others can have it.
"""

RECENT: dict[tuple[Any, ...], Params] = {}
"""Parameters that equal others before them, by operator, rule and identity: those that come again are known from then on."""

MOST_KNOWN, MOST_RECENT = 1024, 64


def known(op: Op, rule: str, params: Params, arrays: Sequence[Any]) -> Ready | None:
    """The rule as it was prepared for NumPy arrays like these, if kernels can take their cells as they are; else None."""
    found = KNOWN.get(key_of(op, rule, params, arrays))  # nothing is known by None
    return None if found is None or not READY else found[1]


def key_of(op: Op, rule: str, params: Params, arrays: Sequence[Any]) -> tuple[Any, ...] | None:
    """The key of a call in KNOWN, with the strides of arrays whose cells are not in a row; None if there is none."""
    if len(arrays) == 1:  # most calls have one array or two
        (array,) = arrays
        if type(array) is np.ndarray and array.flags.carray:
            return op, rule, id(params), array.shape, array.dtype
    elif len(arrays) == 2:
        a, b = arrays
        if type(a) is type(b) is np.ndarray and a.flags.carray and b.flags.carray:
            return op, rule, id(params), a.shape, a.dtype, b.shape, b.dtype
    key: list[Any] = [op, rule, id(params)]
    for array in arrays:
        if type(array) is not np.ndarray:
            return None
        flags = array.flags
        if flags.carray:
            key += array.shape, array.dtype
        elif flags.behaved:
            key += array.shape, array.dtype, array.strides
        else:
            return None
    return tuple(key)


@lru_cache(maxsize=MOST_KNOWN)
def first_of(params: Any) -> Any:
    """The first of all parameters that equal these, the ones for which calls are known."""
    return params


def learn(op: Op, rule: str, params: Params, arrays: Sequence[Any], ready: Ready | None) -> None:
    """From now on `known` finds `ready`; not for parameters that a program makes anew for each call (`is_kept`)."""
    if not is_kept(op, rule, params):
        return
    if len(KNOWN) >= MOST_KNOWN:
        KNOWN.clear()
    if (key := key_of(op, rule, params, arrays)) is not None:
        KNOWN[key] = params, ready


def is_kept(op: Op, rule: str, params: Params) -> bool:
    """Whether these parameters are the first of all that equal them, or came before: so somebody has them for several calls."""
    key = op, rule, id(params)
    if first_of(params) is params or RECENT.get(key) is params:
        return True
    if len(RECENT) >= MOST_RECENT:
        RECENT.clear()
    RECENT[key] = params
    return False


def no_memory(op: Op, error: MemoryError) -> WindowError:
    return WindowError(f"{op.name}: not enough memory for temporary arrays ({error})")


def run(
    op: Op, rule: str, params: Params, *arrays: Any, out: Any = None, needs: Sequence[bool] | None = None, saved: Any = None
) -> Any:
    """One rule of one operator on the arrays you hold; every kind and shape is checked before any work.

    `out` is where a forward rule writes its result, and then what it returns; with indices it is a pair.
    `needs` says of each input whether its gradient is wanted of a vjp; what is not wanted is None.
    `saved` is what `run_saving` saved of the same inputs, for the vjp.
    """
    for array in arrays:
        if type(array) is not np.ndarray:
            return by_themselves(op, rule, params, arrays, out, needs, saved)
    if out is None and (ready := known(op, rule, params, arrays)) is not None:
        try:
            found = called(op, ready, arrays, needs, saved)
        except MemoryError as error:
            raise no_memory(op, error) from error
        return found if needs is None or False not in needs else chosen(found, needs)
    check_params(op, params)
    return on_numpy(op, rule, params, arrays, out, needs, saved)


def called(op: Op, ready: Ready, arrays: Sequence[Any], needs: Sequence[bool] | None, saved: Any) -> Any:
    """A rule that was prepared; if its operator chooses gradients, it is told which are needed."""
    if needs is not None and op.facts is not None and op.facts.chooses_gradients:
        return ready(*arrays, needs=needs)
    return ready(*arrays) if saved is None else ready(*arrays, saved)


def by_themselves(
    op: Op, rule: str, params: Params, arrays: Sequence[Any], out: Any, needs: Sequence[bool] | None, saved: Any
) -> Any:
    """The same by the first of the arrays that computes for itself; if none does, they must be of a kind of NumPy's."""
    if type(params) is not op.params:
        check_params(op, params)
    for array in arrays:
        announced = computes_itself(type(array))  # type: ignore[arg-type]  # mypy holds that a type has no hash
        if announced is None:
            continue
        if out is not None:
            name = argument_names(op, rule, len(arrays))[[each is array for each in arrays].index(True)]
            raise KindError(f"out: only supported with NumPy arrays, but {name} is a {type(array).__qualname__}")
        if needs is None:
            result = announced(array, op, rule, params, arrays)
        else:
            result = asked(announced, array, op, rule, params, arrays, needs=needs)
        if result is not NotImplemented:
            return result
    for name, array in zip(argument_names(op, rule, len(arrays)), arrays, strict=True):
        check_array(name, array)
    return on_numpy(op, rule, params, arrays, out, needs, saved)


def on_numpy(
    op: Op, rule: str, params: Params, arrays: Sequence[Any], out: Any, needs: Sequence[bool] | None, saved: Any
) -> Any:
    """The same on NumPy's arrays, of which some may be of a subclass."""
    compute, ready = routing(params)(op, rule, params, *[(array.shape, array.dtype) for array in arrays])
    try:
        plain = are_plain(arrays)
        if ready is None or not READY or not plain:
            last = READY and not plain and out is None and compute is by_kernel
            ready = learnt_last(op, rule, params, arrays) if last else None
        if compute is by_kernel and any(array.size >= peak.LEAST for array in arrays):
            refuse_large(op, rule, params, arrays)
        if ready is not None and out is None:
            if params.lasting and plain:
                learn(op, rule, params, arrays, ready)
            found = called(op, ready, arrays, needs, saved)
            return found if needs is None else chosen(found, needs)
        if out is not None:
            ready = ready if params.lasting else None  # what a mask is prepared for takes no array for its result
            return write(compute, ready, op, rule, params, arrays, out)
        told = {} if saved is None or compute is not by_kernel else {"saved": saved}
        if needs is None:
            return compute(op, rule, params, arrays, **told)
        return chosen(compute(op, rule, params, arrays, needs=tuple(needs), **told), needs)
    except MemoryError as error:
        raise no_memory(op, error) from error


def run_saving(op: Op, params: Params, *arrays: Any) -> tuple[Any, Any]:
    """(the result of the forward rule, an array for its vjp that spares it work; None where there is nothing to save)."""
    if (ready := known(op, "saving", params, arrays)) is not None:
        try:
            y, saved = ready(*arrays)
        except MemoryError as error:
            raise no_memory(op, error) from error
        return y, saved
    if may_save(op) and PLAIN.issuperset(map(type, arrays)) and saves(op, params, arrays):
        y, saved = run(op, "saving", params, *arrays)
        return y, saved
    y = run(op, "forward", params, *arrays)
    if (forward := known(op, "forward", params, arrays)) is not None:
        learn(op, "saving", params, arrays, lambda *arrays: (forward(*arrays), None))
    return y, None


def run_pushing(op: Op, params: Params, *arrays: Any) -> tuple[Any, Any] | None:
    """(the result of the forward rule, that of the jvp) of inputs and their tangents at once; None if that is not possible."""
    if op.facts is None or not PLAIN.issuperset(map(type, arrays)):
        return None
    check_params(op, params)
    compute, _ = routing(params)(op, "jvp", params, *[(array.shape, array.dtype) for array in arrays])
    if compute is not by_kernel or loaded(op.facts.kernels).pushing is None:
        return None
    try:
        if any(array.size >= peak.LEAST for array in arrays):
            refuse_large(op, "jvp", params, arrays)
        return by_kernel(op, "pushing", params, arrays)  # type: ignore[no-any-return]
    except MemoryError as error:
        raise no_memory(op, error) from error


@lru_cache(maxsize=256)
def may_save(op: Op) -> bool:
    return op.facts is not None and loaded(op.facts.kernels).saves is not None


def saves(op: Op, params: Params, arrays: Sequence[Any]) -> bool:
    """Whether something is saved of NumPy arrays, or of what a mask leaves of them."""
    masked = is_masked(params)
    if not params.lasting and not masked:
        return False
    plain = params.plain if isinstance(params, PoolParams) else params
    return saved_kind(op, plain, *[(array.shape, array.dtype) for array in arrays], masked=masked) is not None


@lru_cache(maxsize=1024)
def saved_kind(op: Op, params: Params, *kinds: Kind, masked: bool = False) -> Kind | None:
    """The shape and dtype of what is saved of arrays of these kinds, or of what a mask leaves of them; None if nothing."""
    compute, _ = route(op, "forward", params, *kinds)
    kernels = facts_of(op).masked if masked else facts_of(op).kernels
    saves = loaded(kernels).saves if compute is by_kernel and kernels is not None else None
    if saves is None:
        return None
    return saves(params, *((shape, dtype.newbyteorder("=")) for shape, dtype in kinds))


def are_plain(arrays: Sequence[Any]) -> bool:
    """Whether all are arrays of NumPy itself, and kernels can take their cells as they are."""
    return all(type(array) is np.ndarray and array.flags.carray for array in arrays)


def refuse_large(op: Op, rule: str, params: Params, arrays: Sequence[Any]) -> None:
    """What needs more memory than there is, with all that is made on the way, is refused before any work."""
    dtype = result_dtype(op, inputs_of(rule, [array.dtype for array in arrays]))
    peak.refuse(rule, params, argument_names(op, rule, len(arrays)), arrays, dtype, facts_of(op).copies_x)


def chosen(gradients: Sequence[Any], needs: Sequence[bool]) -> tuple[Any, ...]:
    """The gradients in `needs`, None at the places of the others."""
    if type(gradients) is tuple and len(gradients) == len(needs):
        for g, need in zip(gradients, needs, strict=False):
            if not need and g is not None:
                break
        else:
            return gradients
    return tuple([g if need else None for g, need in zip(gradients, needs, strict=True)])


def asked(function: Callable[..., Any], *given: Any, needs: Sequence[bool] | None) -> Any:
    """`function(*given)`, which gives gradients: those in `needs` if it takes `needs`, else all, and the others are dropped."""
    if needs is None:
        return function(*given)
    result = function(*given, needs=tuple(needs)) if takes_needs(function) else function(*given)
    return result if result is NotImplemented else chosen(result, needs)


@lru_cache(maxsize=256)
def takes_needs(function: Callable[..., Any]) -> bool:
    """Whether a function can be called with `needs=`."""
    try:
        parameters = signature(function).parameters
    except (TypeError, ValueError):  # it is not written in Python
        return False
    return "needs" in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values())


@lru_cache(maxsize=1024)
def route(op: Op, rule: str, params: Params, *kinds: Kind) -> tuple[Route, Ready | None]:
    """Who computes with arrays of these kinds, or the error that says why nobody does; what was right is not checked again.

    With it the rule made ready for such arrays, if that is possible: for NumPy's own with `flags.carray`.
    """
    names = argument_names(op, rule, len(kinds))
    for name, (_, dtype) in zip(names, kinds, strict=True):
        check_dtype(name, dtype)
    check_shapes(rule, params, names, kinds)
    params.check_dtypes(*(dtype for _, dtype in kinds))
    for _, holds, computed_by in ROUTES:
        if holds(op, kinds):
            return computed_by, prepared(computed_by, op, rule, params, kinds)
    raise KindError(f"{op.name}: has no kernels and supports only arrays of objects; use x.astype(object)")


def routing(params: Params) -> Callable[..., tuple[Route, Ready | None]]:
    """`route`, which keeps parameters that are lasting only; of a mask, it keeps the shape."""
    if params.lasting:
        return route
    return with_mask if is_masked(params) else route.__wrapped__


def is_masked(params: Params) -> bool:
    """Whether it is lasting but for a mask, which is an array of NumPy itself."""
    by_mask = isinstance(params, PoolParams) and params.where is not None and params.plain.lasting
    return by_mask and type(params.where.array) is np.ndarray  # type: ignore[union-attr]


def with_mask(op: Op, rule: str, params: PoolParams, *kinds: Kind) -> tuple[Route, Ready | None]:
    """The same for cells that a mask leaves."""
    assert params.where is not None
    compute, ready = masked_route(op, rule, params.plain, params.where.array.shape, *kinds)
    return compute, None if ready is None else partial(ready, params.where.array)


@lru_cache(maxsize=1024)
def masked_route(op: Op, rule: str, params: PoolParams, shape: tuple[int, ...], *kinds: Kind) -> tuple[Route, Ready | None]:
    """`route` for masks of this shape; a rule that is ready takes the mask before its arrays."""
    masked = params.masked_by(Mask(np.broadcast_to(np.False_, shape)))
    compute, _ = route.__wrapped__(op, rule, masked, *kinds)
    native, masks = all(dtype.isnative for _, dtype in kinds), facts_of(op).masked if compute is by_kernel else None
    prepare = loaded(masks).prepare if masks is not None and native else None
    try:
        return compute, None if prepare is None else prepare(rule, params, *kinds, (shape, np.dtype(np.bool_)))
    except OverflowError as error:
        raise too_many(op) from error


def prepared(compute: Route, op: Op, rule: str, params: Params, kinds: Sequence[Kind]) -> Ready | None:
    """The rule for arrays of these kinds, with everything done that follows from the kinds; None where there is none."""
    small = all(math.prod(shape) < peak.LEAST for shape, _ in kinds)
    if compute is by_spec or not params.lasting:
        return None
    if not all(dtype.isnative for _, dtype in kinds):
        return swapping(compute, op, rule, params, kinds) if small and rule in ("forward", "with_indices") else None
    if compute is by_record:
        if rule != "forward" or not small:
            return None
        numbers = getattr(op.forward, "numbers", None)  # of two rules, that for machine numbers
        return partial(in_silence, op.forward, params) if numbers is None else partial(array_in_silence, numbers, params)
    if not small and not is_read_as_it_is(op, rule, params, kinds):
        return None
    prepare = loaded(facts_of(op).kernels).prepare
    try:
        return None if prepare is None else prepare(rule, params, *kinds)
    except OverflowError as error:
        raise too_many(op) from error


def swapping(compute: Route, op: Op, rule: str, params: Params, kinds: Sequence[Kind]) -> Ready | None:
    """The same for an array in the other order of bytes."""
    ready = prepared(compute, op, rule, params, [(shape, dtype.newbyteorder("=")) for shape, dtype in kinds])
    return None if ready is None or len(kinds) > 1 else lambda x, *out: ready(native(x), *out)


def prepared_last(op: Op, rule: str, params: Params, *arrays: Any) -> Ready | None:
    """The rule for arrays with these shapes, dtypes and strides, if no large one is copied; they may be read-only."""
    kinds = [(array.shape, array.dtype) for array in arrays]
    plain = params.lasting and all(
        type(array) is np.ndarray and array.dtype.isnative and array.flags.aligned for array in arrays
    )
    if not plain or route(op, rule, params, *kinds)[0] is not by_kernel:
        return None
    if any(array.size >= peak.LEAST for array in arrays) and not is_read_as_it_is(op, rule, params, kinds):
        return None
    prepare = loaded(facts_of(op).kernels).prepare_last
    return None if prepare is None else prepare(rule, params, *arrays)


def learnt_last(op: Op, rule: str, params: Params, arrays: Sequence[Any]) -> Ready | None:
    """`prepared_last`; that there is none is learnt too, since to find that out takes longer than a small call."""
    if (key := key_of(op, rule, params, arrays)) is None or key in KNOWN:
        return None
    ready = prepared_last(op, rule, params, *arrays)
    learn(op, rule, params, arrays, ready)
    return ready


def prepared_writing(op: Op, params: Params, x: Any) -> Ready | None:
    """`writing(x, out)` for such arrays: the result in `out`, or False where `out` must be checked or copied."""
    ready = route(op, "forward", params, (x.shape, x.dtype))[1]
    if ready is None:
        return None
    shape, dtype = params.out_shape(x.shape), result_dtype(op, [x.dtype])

    def writing(x: Any, out: Any) -> bool:
        fits = out.shape == shape and out.dtype == dtype and x.flags.carray and out.flags.carray
        if not fits or np.may_share_memory(x, out):
            return False
        try:
            ready(x, out)
        except MemoryError as error:
            raise no_memory(op, error) from error
        return True

    return writing


def prepared_masked(op: Op, params: PoolParams, shape: tuple[int, ...], kind: Kind) -> Ready | None:
    """The forward rule for masks of this shape and arrays of this kind, which are not large; it takes the mask first."""
    if not params.lasting or math.prod(kind[0]) >= peak.LEAST:
        return None
    return masked_route(op, "forward", params, shape, kind)[1]


def is_read_as_it_is(op: Op, rule: str, params: Params, kinds: Sequence[Kind]) -> bool:
    """Whether pooling kernels copy no contiguous array of these kinds: then the memory that a call needs follows from them.

    Of floats of 16 bits they copy few at a time, if the operator prepares such calls.
    """
    if not isinstance(params, PoolParams):
        return False
    dtypes = [dtype for _, dtype in kinds]
    if all(map(is_half, dtypes)):
        return True
    result = result_dtype(op, inputs_of(rule, dtypes))
    return all(peak.width_in_copy(rule, params, dtype, result) == dtype.itemsize for dtype in dtypes)


def write(compute: Route, ready: Ready | None, op: Op, rule: str, params: Params, arrays: Sequence[Any], out: Any) -> Any:
    """What `compute` gives, or `ready` if that is not None, in the arrays of `out`."""
    if rule not in ("forward", "with_indices"):
        raise KindError(f"out: only supported by the forward rules, not by {rule}")
    shape = params.out_shape(*(array.shape for array in arrays))
    output.check(rule, out, shape, result_dtype(op, [array.dtype for array in arrays]))
    if rule == "forward":
        room = output.room(out, arrays)
        if ready is not None and room is not None:
            ready(*arrays, room)
            return out
        return output.placed(compute(op, rule, params, arrays, out=room), out)
    results = compute(op, rule, params, arrays, out=tuple(output.room(part, arrays) for part in out))
    return tuple(map(output.placed, results, out))


def result_dtype(op: Op, dtypes: Sequence[np.dtype[Any]]) -> np.dtype[Any]:
    """The dtype of the result of the forward rule."""
    if any(dtype.kind == "O" for dtype in dtypes):
        return np.dtype(object)
    return facts_of(op).result_dtype(*(dtype.newbyteorder("=") for dtype in dtypes))
