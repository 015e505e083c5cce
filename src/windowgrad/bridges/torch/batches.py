"""What `torch.vmap` does with a rule: one call for the whole batch where its axis can stand before the others, else a loop.

PyTorch has an older batching too, behind `is_grads_batched=True` and `jacobian(vectorize=True)`. Its tensors look plain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from windowgrad.routes import facts_of
from windowgrad.spec.op import Op


def places(op: Op, rule: str, needs: Sequence[bool], count: int) -> set[int]:
    """Which of the `count` arrays of a rule may have more axes before their own: those that have a batch already."""
    if len(op.inputs) == 1 + len(facts_of(op).indices):
        return set(range(count))
    if any(needs[1:]):  # the gradient of a weight is a sum over its batch
        return set()
    return {0, {"jvp": count // 2, "vjp": count - 1}.get(rule, 0)}


def mapped(
    call: Callable[..., Any], size: int, places: set[int], tensors: Sequence[torch.Tensor], dims: Sequence[int | None]
) -> tuple[Any, Any]:
    """(what `call` gives for each entry of the batch, the axis on which the batch stands there); `dims`: where it was."""
    given = list(zip(tensors, dims, strict=True))
    if all(d is None or i in places for i, d in enumerate(dims)):
        results = call(*(leading(t, d, size) if i in places else t for i, (t, d) in enumerate(given)))
    else:
        each = [call(*(t if d is None else t.select(d, i) for t, d in given)) for i in range(size)]
        several = isinstance(each[0], tuple)
        results = tuple(torch.stack(parts) for parts in zip(*each, strict=True)) if several else torch.stack(each)
    return results, (0,) * len(results) if isinstance(results, tuple) else 0


def leading(tensor: torch.Tensor, dim: int | None, size: int) -> torch.Tensor:
    """The tensor with the batch as its first axis; one that has none is the same for every entry."""
    return tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)


# --- the older batching ------------------------------------------------------------------------------------------


is_of_old_batch: Callable[[torch.Tensor], bool] = torch._C._functorch.is_legacy_batchedtensor


def is_old_batch(tensors: Sequence[torch.Tensor]) -> bool:
    return any(map(is_of_old_batch, tensors))


def mapped_as_before(call: Callable[..., Any], places: set[int], tensors: Sequence[torch.Tensor]) -> Any:
    """The same for tensors of the older batching: they are opened, computed with, and closed again."""
    level = torch._C._vmapmode_increment_nesting() - 1
    torch._C._vmapmode_decrement_nesting()
    batched = [torch._C._functorch.is_legacy_batchedtensor(tensor) for tensor in tensors]
    opened = [torch._remove_batch_dim(t, level, 1, 0) if old else t for t, old in zip(tensors, batched, strict=True)]
    size = next(t.shape[0] for t, old in zip(opened, batched, strict=True) if old)
    results, _ = mapped(call, size, places, opened, [0 if old else None for old in batched])
    several = isinstance(results, tuple)
    closed = [torch._add_batch_dim(result, 0, level) for result in (results if several else (results,))]
    return tuple(closed) if several else closed[0]
