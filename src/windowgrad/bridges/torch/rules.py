"""The rules of an operator as steps that PyTorch differentiates, each in terms of the others, so to any order and both ways.

With J the derivative of f at x:     f is moved by J·dx and pulls g back to Jᵀ·g
                                     J(x)·dx is linear in dx, and its derivative in x is the record's `curve`
                                     J(x)ᵀ·g is linear in g, and its derivative in x is the record's `curve_back`
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any

import torch
from torch.autograd import Function, forward_ad
from torch.overrides import has_torch_function

from windowgrad.bridges.torch.batches import is_of_old_batch, is_old_batch, mapped, mapped_as_before, places
from windowgrad.bridges.torch.graph import stepped
from windowgrad.bridges.torch.memory import Tensors, are_without_data, on_numpy, on_numpy_saving, value_dtype
from windowgrad.dispatch import asked
from windowgrad.ops import routed
from windowgrad.params import Params
from windowgrad.spec.op import Op

PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})

Needs = Sequence[bool]
Given = Sequence[torch.Tensor | None]
"""Tangents or gradients, of which any may be absent: None is zero."""


def are_plain(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether the memory of the tensors is all there is to know, and nobody watches what is done with them."""
    return PLAIN.issuperset(map(type, tensors)) and not torch._C._len_torch_dispatch_stack()


def evaluated(op: Op, rule: str, params: Params, tensors: Sequence[torch.Tensor], needs: Sequence[bool] = ()) -> Any:
    """The rule, without its derivatives: on the memory of plain tensors, else as a step of whoever is watching."""
    if are_plain(tensors) and not are_without_data(tensors):
        if is_old_batch(tensors):
            opened = places(op, rule, needs, len(tensors))
            return mapped_as_before(lambda *each: evaluated(op, rule, params, each, needs), opened, tensors)
        return on_numpy(op, rule, params, tensors, needs)
    return stepped(op, rule, params, tensors, needs)


def at_once(step: type[Function], *arguments: Any) -> Any:
    """`step.apply` without transforms; by itself it would first bind its arguments to a signature, which takes long."""
    return super(Function, step).apply(*arguments)  # type: ignore[misc]  # its class is PyTorch's C++


def applied(step: type[Step], op: Op, params: Params, *tensors: torch.Tensor, needs: tuple[bool, ...] = ()) -> Any:
    """A step, recorded if anybody will differentiate or batch it."""
    if torch._C._are_functorch_transforms_active():
        return step.apply(op, params, needs, *tensors)  # type: ignore[no-untyped-call]
    if forward_ad._current_level >= 0 or is_recorded(tensors):
        return at_once(step, op, params, needs, *tensors)
    return step.forward(op, params, needs, *tensors)


def is_recorded(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether PyTorch will ask for a gradient of what is computed from the tensors."""
    if torch.is_grad_enabled():
        for tensor in tensors:
            if tensor.requires_grad:
                return True
    return False


# --- the ordinary call -------------------------------------------------------------------------------------------


def are_unwatched(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether no transform, mode, tracer or subclass has a word to say in a call with these tensors."""
    for tensor in tensors:
        if type(tensor) not in PLAIN or is_of_old_batch(tensor):
            return False
    return (
        forward_ad._current_level < 0
        and not torch._C._len_torch_dispatch_stack()
        and not torch._C._are_functorch_transforms_active()
        and not torch._C._is_tracing()
        and not has_torch_function(tensors)
    )


def ordinary(op: Op, params: Params, tensors: Sequence[torch.Tensor]) -> Any:
    """The forward rule on tensors that are unwatched."""
    return at_once(Saving, op, params, *tensors) if is_recorded(tensors) else on_numpy(op, "forward", params, tensors)


class Saving(Function):
    """f(x), with what it saves for its gradient."""

    @staticmethod
    def forward(ctx: Any, op: Op, params: Params, *tensors: torch.Tensor) -> Any:
        y, saved = on_numpy_saving(op, params, tensors)
        ctx.op, ctx.params = op, params
        ctx.save_for_backward(*tensors, saved)
        ctx.set_materialize_grads(False)
        return y

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor | None) -> Any:
        (*xs, saved), wanted = ctx.saved_tensors, ctx.needs_input_grad[2:]
        if g is None or torch.is_grad_enabled() or not are_unwatched((g,)):  # it may be differentiated again, or batched
            return None, None, *pulled(ctx.op, ctx.params, xs, g, wanted)
        found = on_numpy(ctx.op, "vjp", ctx.params, (*xs, g), wanted, saved)
        return (None, None, *found) if len(found) == len(wanted) else (None, None, *spread(found, wanted))


class Step(Function):
    """`apply(op, params, needs, *tensors)`; `needs` says which gradients a vjp gives, and is empty elsewhere.

    `pull(op, params, needs, tensors, wanted, *gradients)` is its derivative, without PyTorch's context: the gradients of the
    tensors in `wanted`, from those of the results.
    """

    rule: str
    pull: Callable[..., Sequence[torch.Tensor | None]]

    @classmethod
    def forward(cls, op: Op, params: Params, needs: tuple[bool, ...], *tensors: torch.Tensor) -> Any:
        return evaluated(op, cls.rule, params, tensors, needs)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.op, ctx.params, ctx.needs, *tensors = inputs
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)
        ctx.set_materialize_grads(False)

    @classmethod
    def backward(cls, ctx: Any, *gradients: torch.Tensor | None) -> Any:
        found = cls.pull(ctx.op, ctx.params, ctx.needs, ctx.saved_tensors, ctx.needs_input_grad[3:], *gradients)
        return None, None, None, *found

    @classmethod
    def vmap(cls, info: Any, dims: Any, op: Op, params: Params, needs: tuple[bool, ...], *tensors: torch.Tensor) -> Any:
        call = partial(applied, cls, op, params, needs=needs)
        return mapped(call, info.batch_size, places(op, cls.rule, needs, len(tensors)), tensors, dims[3:])


@contextmanager
def moving(ctx: Any) -> Iterator[list[torch.Tensor]]:
    """The saved tensors, for a jvp to compute with.

    PyTorch has turned forward mode off here, for all levels, so a jvp of a jvp would lose what the outer one moves. It is
    on again inside, and the tensors are without the tangents of this level, which are the jvp's own arguments.
    """
    with forward_ad._set_fwd_grad_enabled(True):
        yield [torch._VF._unpack_dual(tensor, level=0)[0] for tensor in ctx.saved_tensors]  # PyTorch has no other level


class Forward(Step):
    """f(x)"""

    rule = "forward"

    @staticmethod
    def jvp(ctx: Any, _op: None, _params: None, _needs: None, *dxs: torch.Tensor | None) -> Any:
        with moving(ctx) as xs:
            return moved(ctx.op, ctx.params, xs, dxs)

    @staticmethod
    def pull(op: Op, params: Params, _: Needs, xs: Tensors, wanted: Needs, g: torch.Tensor | None) -> Any:
        return pulled(op, params, xs, g, wanted)


class Indices(Step):
    """(f(x), where the winners stand)"""

    rule = "with_indices"

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        Step.setup_context(ctx, inputs, output)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def jvp(ctx: Any, _op: None, _params: None, _needs: None, dx: torch.Tensor | None) -> Any:
        with moving(ctx) as xs:
            return moved(ctx.op, ctx.params, xs, (dx,)), None

    @staticmethod
    def pull(op: Op, params: Params, _: Needs, xs: Tensors, wanted: Needs, g: torch.Tensor | None, _g: None = None) -> Any:
        return pulled(op, params, xs, g, wanted)


class Jvp(Step):
    """J(x)·dx"""

    rule = "jvp"

    @staticmethod
    def jvp(ctx: Any, _op: None, _params: None, _needs: None, *tangents: torch.Tensor | None) -> Any:
        with moving(ctx) as saved:
            (xs, dxs), (exs, edxs) = halves(saved), halves(tangents)
            total = plus(moved(ctx.op, ctx.params, xs, edxs), curved(ctx.op, ctx.params, xs, dxs, exs))
            return applied(Jvp, ctx.op, ctx.params, *xs, *filled(edxs, xs)) if total is None else total

    @staticmethod
    def pull(op: Op, params: Params, _: Needs, tensors: Tensors, wanted: Needs, g: torch.Tensor | None) -> Any:
        (xs, dxs), (by_xs, by_dxs) = halves(tensors), halves(wanted)
        return *curved_back(op, params, xs, dxs, g, by_xs), *pulled(op, params, xs, g, by_dxs)


class Vjp(Step):
    """J(x)ᵀ·g, of the inputs that need it"""

    rule = "vjp"

    @staticmethod
    def jvp(ctx: Any, _op: None, _params: None, _needs: None, *tangents: torch.Tensor | None) -> Any:
        with moving(ctx) as saved:
            (*xs, g), (*exs, eg) = saved, tangents
            along_g = pulled(ctx.op, ctx.params, xs, eg, ctx.needs)
            along_x = curved_back(ctx.op, ctx.params, xs, exs, g, ctx.needs)
            sums = (plus(a, b, like=x) for a, b, x in zip(along_g, along_x, xs, strict=True))
            return tuple(total for total, need in zip(sums, ctx.needs, strict=True) if need)

    @staticmethod
    def pull(op: Op, params: Params, needs: Needs, tensors: Tensors, wanted: Needs, *given: torch.Tensor | None) -> Any:
        (*xs, g), (*by_xs, by_g), hs = tensors, wanted, spread(given, needs)
        return *curved_back(op, params, xs, hs, g, by_xs), moved(op, params, xs, hs) if by_g else None


RULES: dict[str, type[Step]] = {step.rule: step for step in (Forward, Indices, Jvp, Vjp)}


# --- the derivatives ---------------------------------------------------------------------------------------------


def moved(op: Op, params: Params, xs: Tensors, dxs: Given) -> Any:
    """J(x)·dx, or None where nothing moves."""
    if all(dx is None for dx in dxs):
        return None
    if op.linear and any(dx is None for dx in dxs):
        return moved_in_part(op, params, xs, dxs)
    return applied(Jvp, op, params, *xs, *filled(dxs, xs))


def moved_in_part(op: Op, params: Params, xs: Tensors, dxs: Given) -> Any:
    """The same for a bilinear operator, of the inputs that move: a product with no part in it is not computed."""
    (x, w), (dx, dw, *dbias) = xs[:2], dxs
    pairs = [(a, b) for a, b in ((dx, w), (x, dw)) if a is not None and b is not None]
    products = [applied(Forward, op, params, *pair) for pair in pairs]
    if dbias and dbias[0] is not None:
        shape = params.out_shape(*(tuple(t.shape) for t in xs))
        products.append(dbias[0].reshape(-1, *(1,) * (len(w.shape) - 2)).expand(shape))
    return sum(products[1:], start=products[0]).to(value_dtype(op, [t.dtype for t in xs]))


def pulled(op: Op, params: Params, xs: Tensors, g: torch.Tensor | None, needs: Sequence[bool]) -> list[Any]:
    """J(x)ᵀ·g for the inputs that need it, None for the others."""
    if g is None or not any(needs):
        return [None] * len(needs)
    return spread(applied(Vjp, op, params, *xs, g, needs=tuple(needs)), needs)


def spread(given: Sequence[Any], needs: Sequence[bool]) -> list[Any]:
    """What a vjp gives, at the places of the inputs; None at those that need none."""
    rest = iter(given)
    return [next(rest) if need else None for need in needs]


def curved(op: Op, params: Params, xs: Tensors, dxs: Given, exs: Given) -> Any:
    if op.curve is None or all(ex is None for ex in exs):
        return None
    return op.curve(rules_of(op), params, xs, dxs, exs)


def curved_back(
    op: Op, params: Params, xs: Tensors, dxs: Given, g: torch.Tensor | None, needs: Sequence[bool]
) -> Sequence[torch.Tensor | None]:
    if op.curve_back is None or g is None or not any(needs) or all(dx is None for dx in dxs):
        return [None] * len(xs)
    return asked(op.curve_back, rules_of(op), params, xs, dxs, g, needs=needs)  # type: ignore[no-any-return]


@lru_cache(maxsize=64)
def rules_of(op: Op) -> Op:
    """The operator on tensors, differentiable again."""
    return routed(op)


def halves(given: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    return given[: len(given) // 2], given[len(given) // 2 :]


def filled(tangents: Given, xs: Tensors) -> tuple[torch.Tensor, ...]:
    """The tangents with zeros for those that are absent; an index, which is an integer, has one of the dtype of the others."""
    kind = next((dx.dtype for dx in tangents if dx is not None), None)
    return tuple(
        torch.zeros_like(x, dtype=x.dtype if x.is_floating_point() else kind) if dx is None else dx
        for dx, x in zip(tangents, xs, strict=True)
    )


def plus(a: torch.Tensor | None, b: torch.Tensor | None, like: torch.Tensor | None = None) -> torch.Tensor | None:
    if a is None or b is None:
        alone = b if a is None else a
        return alone if alone is not None or like is None else torch.zeros_like(like)
    return a + b
