"""How an output comes about, in words and numbers: `max(1, 2, 6, 7) = 7`."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from windowgrad.arguments import counted
from windowgrad.drawing.calls import Call
from windowgrad.drawing.numbers import added, digits, equals, listed, term
from windowgrad.drawing.views import shown
from windowgrad.errors import cut
from windowgrad.params import LpParams, MaxParams, MeanParams, PoolParams, SmoothParams
from windowgrad.routes import facts_of
from windowgrad.spec.mean import divisor
from windowgrad.spec.scalar import Window, same

if TYPE_CHECKING:
    from windowgrad.drawing.planes import Tap

MOST_CELLS = 4
"""How many cells are listed with their shares."""


class Counts(NamedTuple):
    """What a window covers: cells, padding, cells that a mask leaves out, and places past the padding."""

    cells: int
    padded: int
    masked: int
    past: int


def counted_cells(counts: Counts) -> str:
    """`4 cells + 5 padding`."""
    return (
        counted("cell", counts.cells)
        + (f" + {counts.padded} padding" if counts.padded else "")
        + (f", {counts.past} past the padding" if counts.past else "")
        + (f", {counts.masked} left out by the mask" if counts.masked else "")
    )


# --- pooling -------------------------------------------------------------------------------------------------------


def pooled(params: PoolParams, taps: Sequence[Tap], counts: Counts, value: Any, call: Call) -> list[str]:
    terms, result = [term(tap.value) for tap in taps], equals(value, call.dtype)
    if isinstance(params, MaxParams):
        return selected(params, taps, terms, result, call)
    if isinstance(params, MeanParams):
        return mean(params, terms, counts, result)
    if isinstance(params, SmoothParams):
        return smooth(params, terms, counts, result)
    if not terms:
        return [f"no cell {result}"]
    if isinstance(params, LpParams):
        p = digits(params.norm_type)
        return [f"({added([f'|{text}|^{p}' for text in terms])})^(1/{p}) {result}"]
    assert call.op is not None
    return [f"{call.op.name}({', '.join(listed(terms))}) {result}"]


def selected(params: MaxParams, taps: Sequence[Tap], terms: list[str], result: str, call: Call) -> list[str]:
    if not taps:
        return [f"no cell {result}"]
    assert call.op is not None
    name = str(facts_of(call.op).partial_results)[:3]  # the maximum or the minimum of parts
    lines = [f"{name}({', '.join(listed(terms))}) {result}"]
    winner = next(tap for tap in taps if tap.share != 0)
    equal = sum(same(tap.value, winner.value) for tap in taps)
    if equal > 1:
        rule = {"first": "the first gets the gradient", "all": "each gets the gradient", "split": "they share the gradient"}
        lines.append(f'{equal} cells are equal; ties="{params.ties}": {rule[params.ties]}')
    return lines


def mean(params: MeanParams, terms: list[str], counts: Counts, result: str) -> list[str]:
    by = divisor(params, Window((), [()] * counts.cells, counts.padded))
    if params.divisor_override is not None:
        why = "divisor_override"
    elif not params.count_include_pad:
        why = "the cells alone, count_include_pad=False" if counts.padded else ""
    else:
        why = f"{counts.cells} + {counts.padded} padding" if counts.padded else ""
    sum_ = added(terms) if terms else "0"
    lines = [f"({sum_}) / {by} {result}" if len(terms) > 1 else f"{sum_} / {by} {result}"]
    return [*lines, f"divisor {by}: {why}"] if why else lines


def smooth(params: SmoothParams, terms: list[str], counts: Counts, result: str) -> list[str]:
    beta = digits(params.beta)
    zeros = counts.padded if params.count_include_pad else 0
    parts = [f"exp({beta}·{text})" for text in terms] + [f"{zeros}·exp(0)"] * bool(zeros)
    return [f"log({added(parts)}) / {beta} {result}"] if parts else [f"no cell {result}"]


def folded(call: Call, cells: list[Any], value: Any) -> list[str]:
    """Of `reduce_windows`: the cells in the order in which they are folded."""
    assert call.fold is not None
    f, init = call.fold
    terms = [term(init)] * (init is not None) + list(map(term, cells))
    return [f"{cut(getattr(f, '__name__', type(f).__name__), 20)} folds {', '.join(listed(terms))} {equals(value, call.dtype)}"]


# --- other operators -------------------------------------------------------------------------------------------------


def convolved(taps: Sequence[Tap], bias: Any, value: Any, call: Call, outside: int) -> list[str]:
    products = [f"{term(tap.value)}·{factor(tap.weight)}" for tap in taps]
    parts = products + [f"bias {term(bias)}"] * (bias is not None)
    lines = [counted("cell", len(taps)) + (f" + {outside} zeros outside" if outside else "")]
    lines.append(f"{added(parts)} {equals(value, call.dtype)}" if parts else f"no cell {equals(value, call.dtype)}")
    if taps:
        lines.append(
            f"back: a gradient of 1 gives each cell its weight, each weight its cell{', the bias 1' * (bias is not None)}"
        )
    return lines


def factor(weight: Any) -> str:
    """A second factor: a minus in it is in brackets."""
    text = term(weight)
    return f"({text})" if text.startswith("−") else text


def unpooled(taps: Sequence[Tap], duplicates: str, index: Any, value: Any, call: Call) -> list[str]:
    if not taps:
        return [f"no cell has index {index} {equals(value, call.dtype)}"]
    if len(taps) == 1:
        return [f"cell {shown(taps[0].place)} has index {index} {equals(value, call.dtype)}", *back(taps)]
    how = added([term(tap.value) for tap in taps]) if duplicates == "add" else f"the last, {term(taps[-1].value)}"
    start = f'{len(taps)} cells have index {index}; duplicates="{duplicates}"'
    return [f"{start}: {how} {equals(value, call.dtype)}", *back(taps)]


def bordered(taps: Sequence[Tap], place: Sequence[int], mode: str, value: Any, call: Call) -> list[str]:
    if not taps:
        return [f"outside x, at {shown(tuple(place))}: the constant {term(value)}; no gradient"]
    (tap,) = taps
    outside = f"outside x, at {shown(tuple(place))}: {mode} takes " if tuple(place) != tap.place else ""
    return [f"{outside}cell {shown(tap.place)} {equals(value, call.dtype)}", *back(taps)]


# --- the way back ----------------------------------------------------------------------------------------------------


def back(taps: Sequence[Tap], lost: Any = 0) -> list[str]:
    """Where a gradient of 1 goes."""
    getting = [tap for tap in taps if tap.share is not None and tap.share != 0]
    if not getting:
        return []
    shares = {digits(tap.share) for tap in getting}
    rest = f"; {digits(lost, 3)} is lost in the padding" if lost != 0 else ""
    if len(shares) == 1 and len(getting) > 2:
        every = f"each of the {len(getting)} cells" if len(getting) == len(taps) else f"each of {len(getting)} cells"
        return [f"back: a gradient of 1 gives {shares.pop()} to {every}{rest}"]
    some = [f"{digits(tap.share, 3)} to cell {shown(tap.place)}" for tap in getting[:MOST_CELLS]]
    more = f", and to {len(getting) - MOST_CELLS} more cells" if len(getting) > MOST_CELLS else ""
    return [f"back: a gradient of 1 gives {', '.join(some)}{more}{rest}"]


def lost(params: PoolParams, taps: Sequence[Tap], counts: Counts) -> Any:
    """What padded zeros that count get of a gradient."""
    counting = getattr(params, "count_include_pad", False) and getattr(params, "divisor_override", None) is None
    if not counting or not counts.padded or not taps:
        return 0
    return 1 - sum((tap.share for tap in taps), start=Fraction(0))
