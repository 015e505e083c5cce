"""Derivatives of functions. Arguments and results may be nested tuples, lists, dicts and dataclasses of arrays.

All transforms nest: a function may itself compute derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any

import numpy as np

from windowgrad.arguments import MOST_AXES, counted, flag, is_int
from windowgrad.autograd import trees
from windowgrad.autograd.arrays import add, multiply, reshape
from windowgrad.autograd.directions import Directed
from windowgrad.autograd.pushing import Pushed, parts
from windowgrad.autograd.steps import as_derivative, ones_like, plus, zeros_like
from windowgrad.autograd.tape import Tape, Var
from windowgrad.autograd.tracer import next_level
from windowgrad.errors import KindError, OptionError, WindowError, show

Function = Callable[..., Any]


def jvp(f: Function, primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> tuple[Any, ...]:
    """Forward mode: (f(*primals), J·tangents), the value and its directional derivative along `tangents`.

    With `has_aux`, f returns (result, anything), and what is beside the result is returned as a third part.

    >>> wg.jvp(lambda x: x * x, (3.0,), (1.0,))
    (array(9.), array(6.))
    """
    return _pushed(Pushed, f, primals, tangents, has_aux)


def directional(f: Function, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """(f(*primals), f′), the one-sided derivative along `tangents`: the limit of (f(x + t·dx) − f(x)) ÷ t from above, t → 0.

    At ties of a maximum it is the greatest tangent among the winners (of a minimum the least), `relu` has max(dx, 0) at 0,
    `abs` |dx| and a p-norm the norm of dx, while `jvp` takes a fixed choice there. It is positively homogeneous in `tangents`,
    but not linear.

    >>> wg.directional(lambda x: wg.max_pool1d(x, 3), (np.array([2.0, 2.0, 1.0]),), (np.array([1.0, 5.0, 0.0]),))
    (array([2.]), array([5.]))
    """
    y, dy = _pushed(Directed, f, primals, tangents, False)
    return y, dy


def _pushed(kind: type[Pushed], f: Function, primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool) -> tuple[Any, ...]:
    _check("f", f, primals=primals, tangents=tangents)
    xs, structure = trees.values("primals", tuple(primals))
    dxs = trees.matched("tangents", tuple(tangents), structure, xs, "primals")
    level = next_level()
    moving = [kind(level, x, as_derivative(dx)) for x, dx in zip(xs, dxs, strict=True)]
    result, aux = f(*trees.unflatten(structure, moving)), None
    if has_aux is not False:
        result, aux = _apart(result, has_aux)
    ys, out = trees.values("result", result)
    results = [parts(y, level) for y in ys]
    moved = [zeros_like(y) if dy is None else dy for y, dy in results]
    both = trees.unflatten(out, [y for y, _ in results]), trees.unflatten(out, moved)
    return (*both, _mapped(lambda leaf: parts(leaf, level)[0], aux)) if has_aux else both


def vjp(f: Function, *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """Backward mode: (f(*primals), pull), where `pull(g)` maps a cotangent of the result to those of the arguments, Jᵀ·g.

    With `has_aux`, f returns (result, anything), and what is beside the result is returned as a third part.

    >>> y, pull = wg.vjp(lambda x, w: x * w, 3.0, 5.0)
    >>> pull(1.0)
    (array(5.), array(3.))
    """
    if not callable(f):
        _check("f", f)
    xs, structure = trees.values("primals", primals)
    tape = Tape.within()
    result, aux = f(*trees.unflatten(structure, tape.checked_leaves(xs))), None
    if has_aux is not False:
        result, aux = _apart(result, has_aux)
    ys, out = trees.values("result", result)
    results = [y.value if _is_of(y, tape) else y for y in ys]

    def pull(g: Any) -> tuple[Any, ...]:
        gs = trees.matched("g", g, out, results, "the result")
        starts: dict[int, Any] = {}
        for y, part in zip(ys, gs, strict=True):
            if _is_of(y, tape):
                starts[y.id] = plus(starts.get(y.id), as_derivative(part))
        found = tape.walk(starts, range(len(xs)))  # in their order
        pulled: tuple[Any, ...] = trees.unflatten(structure, list(found.values()))
        return pulled

    value = trees.unflatten(out, results)
    return (value, pull, _mapped(lambda leaf: leaf.value if _is_of(leaf, tape) else leaf, aux)) if has_aux else (value, pull)


def _apart(result: Any, has_aux: Any) -> tuple[Any, Any]:
    """(the result, what f returned beside it)."""
    if not flag("has_aux", has_aux):
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise KindError(f"has_aux=True: f must return a pair (result, aux), not {type(result).__name__}")
    return result


def _mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    leaves, structure = trees.flatten(tree)
    return trees.unflatten(structure, [function(leaf) for leaf in leaves])


def _is_of(value: Any, tape: Tape) -> bool:
    return isinstance(value, Var) and value.tape is tape


def value_and_grad(f: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., tuple[Any, Any]]:
    """A function that returns f(*args) and the gradient of f, as `grad` does.

    With `has_aux`, f returns (result, anything), and the first part is that pair.

    >>> wg.value_and_grad(lambda x: (x * x, {"twice": 2 * x}), has_aux=True)(3.0)
    ((array(9.), {'twice': array(6.)}), array(6.))
    """
    _check("f", f)
    places, pairs = _places(argnums), flag("has_aux", has_aux)

    @wraps(f)
    def both(*args: Any, **options: Any) -> tuple[Any, Any]:
        chosen = _chosen(places, len(args))

        def partly(*some: Any) -> Any:
            rest = list(args)
            for place, value in zip(chosen, some, strict=True):
                rest[place] = value
            return f(*rest, **options)

        y, pull, *aux = vjp(partly, *(args[place] for place in chosen), has_aux=pairs)
        if not hasattr(y, "size") or y.size != 1:
            given = f"an array of shape {tuple(y.shape)}" if hasattr(y, "shape") else f"a {type(y).__name__}"
            raise WindowError(f"grad needs a function that returns a scalar, not {given}; sum it, or use vjp or jacobian")
        found = pull(ones_like(y))
        return (y, *aux) if pairs else y, found if isinstance(argnums, (tuple, list)) else found[0]

    return both


def grad(f: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns the gradient of f, which returns a scalar, with respect to its argument `argnums`.

    If `argnums` is a tuple, the gradients come as a tuple. With `has_aux`, f returns (result, anything), and the function
    returns (gradient, anything).

    >>> wg.grad(lambda x: wg.sum(x**2))(np.array([1.0, 5.0]))
    array([ 2., 10.])
    """
    both = value_and_grad(f, argnums, has_aux)

    @wraps(f)
    def gradient(*args: Any, **options: Any) -> Any:
        value, found = both(*args, **options)
        return (found, value[1]) if has_aux else found

    return gradient


def hessian(f: Function, argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """A function that returns the Hessian of f, which returns a scalar, with respect to its argument `argnums`.

    Of an array it is of shape `x.shape + x.shape`; nested arguments give the structure of the argument twice. Forward over
    backward mode. To multiply with a vector, `hvp` is cheaper: it never forms the matrix.

    >>> wg.hessian(lambda x: x[0] ** 2 * x[1])(np.array([3.0, 5.0]))
    array([[10.,  6.],
           [ 6.,  0.]])
    """
    _check("f", f)
    return _jacobian(grad(f, argnums), argnums, forward=True)


def hvp(f: Function, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, ...]:
    """The Hessian of f, which returns a scalar, times `tangents`: forward over backward mode, the Hessian is never formed."""
    _check("f", f, primals=primals, tangents=tangents)
    _, moved = jvp(grad(f, tuple(range(len(primals)))), primals, tangents)
    result: tuple[Any, ...] = moved
    return result


def jacobian(f: Function, argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """A function that returns the Jacobian of f with respect to its argument `argnums`.

    Its arrays are of shape `result.shape + argument.shape`, in the structure of the result, and inside it of the argument.
    Forward mode is used where the arguments have fewer elements than the results, backward mode otherwise.
    """
    _check("f", f)
    return _jacobian(f, argnums)


def _jacobian(f: Function, argnums: int | Sequence[int], forward: bool = False) -> Callable[..., Any]:
    """`forward` asks for forward mode whatever the sizes are."""
    places = _places(argnums)

    @wraps(f)
    def derivatives(*args: Any, **options: Any) -> Any:
        chosen = _chosen(places, len(args))
        xs, structure = trees.values("arguments", tuple(args[place] for place in chosen))
        nested: list[Any] = []

        def flat(*leaves: Any) -> list[Any]:
            rest = list(args)
            for place, value in zip(chosen, trees.unflatten(structure, leaves), strict=True):
                rest[place] = value
            ys, out = trees.values("result", f(*rest, **options))
            nested.append(out)
            return ys

        ys, pull = vjp(flat, *xs)
        for shape in (y.shape + x.shape for y in ys for x in xs):
            if len(shape) > MOST_AXES:
                has = f"has {len(shape)} axes (those of the result, then of the argument)"
                raise WindowError(f"the Jacobian of shape {show(shape)} {has}: an array has at most {MOST_AXES}")
        if not forward and sum(y.size for y in ys) <= sum(x.size for x in xs):
            rows = [_stacked([pull(basis) for basis in _bases(ys, k)], ys[k], xs, front=True) for k in range(len(ys))]
        else:
            moved = [[jvp(flat, xs, basis)[1] for basis in _bases(xs, i)] for i in range(len(xs))]
            by_input = [_stacked(moved[i], xs[i], ys, front=False) for i in range(len(xs))]
            rows = [[line[k] for line in by_input] for k in range(len(ys))]
        found = [trees.unflatten(structure, row) for row in rows]
        return trees.unflatten(nested[0], [row if isinstance(argnums, (tuple, list)) else row[0] for row in found])

    return derivatives


def _bases(arrays: Sequence[Any], place: int) -> Iterator[list[Any]]:
    """Zeros like all arrays, but for a 1 that goes through the cells of the one at `place`."""
    for cell in np.ndindex(*arrays[place].shape):
        basis = [zeros_like(array) for array in arrays]
        basis[place][cell] = 1
        yield basis


def _stacked(lines: Sequence[Sequence[Any]], along: Any, others: Sequence[Any], front: bool) -> list[Any]:
    """For each of `others`, its entries of all `lines` in one array, whose first (or last) axes are those of `along`."""
    found = []
    for i, other in enumerate(others):
        parts = [line[i] for line in lines]
        shape = along.shape + other.shape if front else other.shape + along.shape
        if parts and all(isinstance(part, np.ndarray) for part in parts):
            found.append(np.stack(parts, axis=0 if front else -1).reshape(shape))
            continue
        wide = along.shape + (1,) * len(other.shape) if front else along.shape
        thin = other.shape if front else other.shape + (1,) * len(along.shape)
        total: Any = np.zeros(shape, dtype=other.dtype)
        for part, (unit,) in zip(parts, _bases([along], 0), strict=True):
            total = add(total, multiply(reshape(part, thin), unit.reshape(wide)))
        found.append(total)
    return found


def _places(argnums: Any) -> list[int]:
    """The places of the arguments as they are given."""
    places = list(argnums) if isinstance(argnums, (tuple, list)) else [argnums]
    if not all(map(is_int, places)):
        raise KindError(f"argnums={show(argnums)}: must be an integer or a tuple of integers")
    return [int(place) for place in places]


def _chosen(places: list[int], given: int) -> list[int]:
    """The places of the arguments, counted from 0."""
    if len(places) == 1 and 0 <= places[0] < given:
        return places
    said = show(places[0] if len(places) == 1 else tuple(places))
    for place in places:
        if not -given <= place < given:
            raise OptionError(f"argnums={said}: out of range, {counted('argument', given)} given")
    chosen = [place % given for place in places]
    if len(set(chosen)) < len(chosen):
        raise OptionError(f"argnums={said}: must not name an argument twice")
    return chosen


def _check(name: str, f: Any, **sequences: Any) -> None:
    if not callable(f):
        raise KindError(f"{name}: must be a function, not {type(f).__name__}")
    for argument, value in sequences.items():
        if not isinstance(value, (tuple, list)):
            raise KindError(f"{argument}: must be a tuple with one entry per argument of f, not {type(value).__name__}")
