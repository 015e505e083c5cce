"""Write the public functions of windowgrad from the table of operators: src/windowgrad/functional/<module>.py.

    python tools/generate_functional.py            writes the files
    python tools/generate_functional.py --check    says which of them are not what the table says, and fails

Each operator has the functions of its families, for any number of axes and for 1, 2 and 3. They stand in a module with the
name of the operator's module in `windowgrad.spec`. What an argument is called, its type, its default and what is said of it
is written once, below; which arguments a function has, and in what order, is in the table.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

if "windowgrad" not in sys.modules:  # the table is read without the package around it, which imports what is written here
    found = find_spec("windowgrad")
    assert found is not None
    sys.modules["windowgrad"] = module_from_spec(found)

from windowgrad.dtypes import conv_dtype, float_of, unchanged
from windowgrad.facts import Family
from windowgrad.geometry import Adaptive, Global, Sliding
from windowgrad.ops import MEANINGS
from windowgrad.params import ConvParams, TransposeParams
from windowgrad.spec.op import Op

FOLDER = Path(__file__).parent.parent / "src" / "windowgrad" / "functional"
WIDTH = 124  # of a line, with its indent; the project's is 128
RANKS = (None, 1, 2, 3)


class Argument(NamedTuple):
    """Its type, its default as it is written ("" where it has none), and what is said of it."""

    kind: str
    default: str
    text: str


SHAPES = {None: "*spatial", 1: "length", 2: "height, width", 3: "depth, height, width"}
LAST = {1: "the last axis", 2: "the last 2 axes", 3: "the last 3 axes"}
COMMON = {
    "dilation": Argument("Size", "1", "distance between neighbouring cells of a window."),
    "ceil_mode": Argument("bool", "False", "True adds a last window that hangs over the end, if it starts before the end."),
    "return_indices": Argument(
        "bool", "False", "True also returns the flat index of each winner in its plane, −1 where a window has no cell."
    ),
    "ties": Argument(
        "Ties",
        '"first"',
        'which of equal cells gets the derivative: the "first", "all" of them, or each an equal share ("split").',
    ),
    "empty": Argument("Empty", '"zero"', 'what a window with no real cell gives: "zero", or an error ("raise").'),
    "count_include_pad": Argument("bool", "True", "True counts padded cells as zeros, False leaves them out."),
    "divisor_override": Argument("int | None", "None", "an integer to divide by instead."),
    "beta": Argument(
        "Any",
        "",
        "β, a real number other than 0: how sharp the maximum is. As an array (a variable of a tape, a tensor), with no axes "
        "or with one entry for each entry of the axis before the windows, it has a derivative.",
    ),
    "norm_type": Argument("float", "", "p, a finite number of at least 1."),
    "where": Argument(
        "Any", "None", "an array of bool that broadcasts to x: cells where it is False are left out; None leaves out none."
    ),
    "rank": Argument("int", "", "how many of the last axes are pooled."),
    "keepdims": Argument("bool", "True", "True keeps the pooled axes with length 1, False removes them."),
    "bias": Argument("A | None", "None", "an array (out,), or None."),
    "output_padding": Argument("Size", "0", "cells added at the end of each axis, fewer than `stride` or `dilation`."),
    "groups": Argument("int", "1", "how many groups the channels are split into."),
    "out": Argument("A | None", "None", "an array of the result's shape and dtype, which is written and returned."),
}
DTYPES = {
    unchanged: "x's dtype",
    float_of: "x's dtype if that is a float, else float32 for integers of 8 and 16 bits and float64 for wider ones",
    conv_dtype: "the promoted dtype of floats; integers are summed exactly, those of 8 bits in int32, all others in int64",
}


def argument(family: Family, rank: int | None, name: str) -> Argument:
    """An argument of the function for `rank` axes."""
    one_each = "one integer per axis" if rank is None else "an integer, or one per axis"
    sizes = "Sequence[int]" if rank is None else "Size"
    is_pool = family.windows in ("sliding", "adaptive", "global")
    if name == "x":
        return Argument("A", "", f"an array {shape_in(family, rank)}; all axes before these are batch.")
    if name == "kernel_size":
        return Argument(sizes, "", f"cells of a window: {one_each}.")
    if name == "output_size" and not is_pool:
        text = "the sizes of the result, or its whole shape, instead of `output_padding`; None is the least."
        return Argument("Size | None", "None", text)
    if name == "output_size":
        kind, bins = ("Sequence[int | None]", "one per axis") if rank is None else ("Bins", "an integer, or one per axis")
        return Argument(kind, "", f"how many bins: {bins}; None keeps an axis.")
    if name == "weight":
        sides = "in, out ÷ groups" if family.windows == "transposed" else "out, in ÷ groups"
        return Argument("A", "", f"an array ({sides}, *window)" + ("." if rank is None else f" with {rank + 2} axes."))
    if name == "stride" and is_pool:
        return Argument("Size | None", "None", "distance between neighbouring windows; None is `kernel_size`.")
    if name == "stride":
        return Argument("Size", "1", "distance between neighbouring windows.")
    if name == "padding":
        text = "cells added on both sides: an integer, one per axis, or a (before, after) pair per axis"
        if family.windows == "transposed":
            return Argument("Padding", "0", f"{text}; it cuts cells off the result.")
        return Argument("Padding | Named", "0", f'{text}; or "valid" (none) or "same" (for stride 1).')
    found = COMMON[name]
    if name == "out" and "return_indices" in family.arguments:
        found = found._replace(text=f"{found.text} With indices, a pair of which either may be None.")
    return found._replace(default=literal(dict(family.defaults)[name])) if name in dict(family.defaults) else found


def literal(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def shape_in(family: Family, rank: int | None) -> str:
    channels = "" if family.windows in ("sliding", "adaptive", "global") else "in, "
    return f"(…, {channels}{SHAPES[rank]})"


def shape_out(family: Family, rank: int | None) -> str:
    names = {
        "sliding": "*pool_out_shape(…)",
        "adaptive": "*output_size",
        "convolution": "out, *conv_out_shape(…)",
        "transposed": "out, *conv_transpose_out_shape(…)",
        "global": ", ".join("1" * (rank or 0)) or "*(1,) * rank",
    }
    return f"(…, {names[family.windows]})"


# --- one function ------------------------------------------------------------------------------------------------


def names_of(family: Family, rank: int | None) -> tuple[str, ...]:
    """The arguments of the function; a function of fixed rank is not told its rank."""
    return tuple(name for name in family.arguments if rank is None or name != "rank")


def public_name(family: Family, rank: int | None) -> str:
    return family.name if rank is None else f"{family.name}{rank}d"


def signature(family: Family, rank: int | None, result: str, **kinds: str) -> str:
    """`def name(…) -> result:`; `kinds` replaces types and defaults, and one without a default makes it keyword-only."""
    parts, keyword_only = [], False
    for name in names_of(family, rank):
        if name == "*":
            parts += [] if keyword_only else ["*"]
            keyword_only = True
            continue
        kind, default, _ = argument(family, rank, name)
        written = kinds.get(name, kind + (f" = {default}" if default else ""))
        if name in kinds and " = " not in written and parts and " = " in parts[-1] and not keyword_only:
            parts.append("*")
            keyword_only = True
        parts.append(f"{name}: {written}")
    return f"def {public_name(family, rank)}({', '.join(parts)},) -> {result}:"


def function(op: Op, family: Family, rank: int | None) -> Iterator[str]:
    name = public_name(family, rank)
    yield f"{name.upper()} = {computed(op, family, rank)}\n"
    if "return_indices" in family.arguments:
        yield f"@overload\n{signature(family, rank, 'A', return_indices='Literal[False] = False')} ..."
        both = {"return_indices": "Literal[True]", "out": "Pair[A] = None"}
        yield f"@overload\n{signature(family, rank, 'tuple[A, A]', **both)} ..."
        yield signature(family, rank, "Any", x="Any", out="Any = None")
    else:
        yield signature(family, rank, "A")
    yield indented(f'"""{docstring(op, family, rank)}\n"""')
    yield "    try:"
    yield from body(family, rank)
    yield "    except WindowgradError as error:"
    yield f"        show_call(error, {name}, locals())"
    yield "        raise\n"


def computed(op: Op, family: Family, rank: int | None) -> str:
    """What stands beside a function, made once: how it computes."""
    called = f"called({family.operator!r}, {public_name(family, rank)!r})"
    record = op.params.__name__
    return {
        "sliding": f"pooling({called}, windows, {record}, {rank})",
        "adaptive": f"pooling({called}, bins, {record}, {rank})",
        "global": f"pooling({called}, everything, {record}{f', {rank}' if rank else ''})",
        "convolution": f"convolving({called}, {rank})",
        "transposed": f"transposing({called}, {rank})",
    }[family.windows]


def body(family: Family, rank: int | None) -> Iterator[str]:
    constant, given = public_name(family, rank).upper(), "".join(f", {name}" for name in family.options)
    if "weight" in family.arguments:
        given += ", output_size" if family.windows == "transposed" else ""
        yield f"        y: A = {constant}(x, weight, bias, (stride, padding, dilation{given}), out)"
        yield "        return y"
        return
    options = {
        "sliding": f"kernel_size, stride, padding, dilation, ceil_mode{given}",
        "adaptive": f"output_size{given}",
        "global": f"{'' if rank else 'rank, '}keepdims{given}",
    }[family.windows]
    options += "," if ", " not in options else ""
    if "beta" in family.options:
        yield from sharpened(family, rank, options)
    if "return_indices" in family.arguments:
        yield f"        return {constant}(x, ({options}), out, return_indices, where)"
    else:
        yield f"        y: A = {constant}(x, ({options}), out, where=where)"
        yield "        return y"


def sharpened(family: Family, rank: int | None, options: str) -> Iterator[str]:
    """The lines for a β that is an array, which is an input of an operator of its own."""
    make = {"sliding": "windows", "adaptive": "bins", "global": "everything"}[family.windows]
    known = [] if family.windows == "global" and rank is None else [str(rank)]
    told = ", ".join([*known, *(name for name in options.split(", ") if name != "beta")])
    yield "        if is_array(beta):"
    yield f"            learned: A = sharpened({public_name(family, rank)!r}, {make}(SharpParams, {told}), x, beta, out, where)"
    yield "            return learned"


def docstring(op: Op, family: Family, rank: int | None) -> str:
    assert op.facts is not None
    summary = family.summary if rank is None else family.summary.replace("the last `rank` axes", LAST[rank])
    parts = [summary, *([family.notes] if family.notes else []), arguments(family, rank)]
    pair = " With indices, a pair of such an array and one of int64." if "return_indices" in family.arguments else ""
    parts.append(f"Returns an array {shape_out(family, rank)} of {DTYPES[op.facts.result_dtype]}.{pair}")
    return "\n\n".join([filled(part) for part in parts] + [example(op, family, rank)])


def arguments(family: Family, rank: int | None) -> str:
    lines = ["Arguments:"]
    for name in names_of(family, rank):
        if name != "*":
            text = f"{name}: {argument(family, rank, name).text}"
            lines.append(
                textwrap.indent(textwrap.fill(text, WIDTH - 8, subsequent_indent="    ", break_on_hyphens=False), "    ")
            )
    return "\n".join(lines)


def filled(part: str) -> str:
    return part if part.startswith("Arguments:") else textwrap.fill(part, WIDTH - 4, break_on_hyphens=False)


def indented(text: str) -> str:
    return textwrap.indent(text, "    ")


# --- an example --------------------------------------------------------------------------------------------------


def example(op: Op, family: Family, rank: int | None) -> str:
    """A call on a small array, and what the specification gives for it."""
    axes = rank or 2
    side = {1: 6, 2: 4, 3: 2}[axes]
    shape = (side,) * axes
    x = np.arange(float(np.prod(shape))).reshape(shape)
    made = f"np.arange({x.size}.0)" + (f".reshape{shape}" if axes > 1 else "")
    two: Any = 2 if rank else (2,) * axes
    one: Any = 1 if rank else (1,) * axes
    rest = ", beta=2" if "beta" in family.arguments else ""
    made += ", 2" if "norm_type" in family.arguments else ""
    options: Sequence[Any] = (2,) if {"beta", "norm_type"} & set(family.options) else ()
    name = f"wg.{public_name(family, rank)}"
    if family.windows == "sliding":
        call, params = f"{name}({made}, {two}{rest})", op.params(Sliding((2,) * axes), *options)  # type: ignore[call-arg]
    elif family.windows == "adaptive":
        call, params = f"{name}({made}, {one}{rest})", op.params(Adaptive((1,) * axes), *options)  # type: ignore[call-arg]
    elif family.windows == "global":
        call = f"{name}({made}{'' if rank else ', 2'}{rest})"
        params = op.params(Global(axes, True), *options)  # type: ignore[call-arg]
    else:
        return convolved(op, family, name, axes)
    y = np.asarray(op.forward(params, x.astype(object)), dtype=float)
    digits = ".round(3)" if not op.exact else ""
    return f">>> {call}{digits}.tolist()\n{y.round(3).tolist() if digits else y.tolist()}"


def convolved(op: Op, family: Family, name: str, axes: int) -> str:
    side, record = ({1: 3, 2: 2, 3: 1}, TransposeParams) if family.windows == "transposed" else ({1: 4, 2: 3, 3: 2}, ConvParams)
    x, weight = np.ones((1, *(side[axes],) * axes)), np.ones((1, 1, *(2,) * axes))
    y = op.forward(record(Sliding((2,) * axes, 1)), x.astype(object), weight.astype(object)).astype(float)
    return f">>> {name}(np.ones({x.shape}), np.ones({weight.shape})).tolist()\n{y.tolist()}"


# --- a module ----------------------------------------------------------------------------------------------------


def module_of(op: Op) -> str:
    """The name of its module in the specification."""
    return op.vjp.__module__.rpartition(".")[2]


def module(ops: Sequence[Op]) -> str:
    """The text of the module that has the functions of these operators."""
    families = [(op, family) for op in ops if op.facts for family in op.facts.families]
    body = "\n".join(line for op, family in families for rank in RANKS for line in function(op, family, rank))
    public = sorted(public_name(family, rank) for _, family in families for rank in RANKS)
    records = ", ".join(sorted(op.params.__name__ for op in ops))
    text = f'"""{titled(families)}\n\n{GENERATED}\n"""\n\n'
    text += f"from __future__ import annotations\n\n{IMPORTS.format(records=records)}\n__all__ = {public!r}\n\n\n{body}"
    return formatted(text)


def titled(families: Sequence[tuple[Op, Family]]) -> str:
    first = [family.name for _, family in families]
    return f"The functions {', '.join(first[:-1])} and {first[-1]}, of any rank and of rank 1, 2, 3."


GENERATED = "Generated by tools/generate_functional.py from the table in `ops`; do not edit it by hand."


IMPORTS = """
from collections.abc import Sequence
from typing import Any, Literal, overload

from windowgrad.arguments import Padding, Size
from windowgrad.errors import WindowgradError
from windowgrad.functional.call import show_call
from windowgrad.functional.convolving import convolving, transposing
from windowgrad.functional.pooling import pooling
from windowgrad.functional.records import bins, everything, windows
from windowgrad.functional.sharpness import is_array, sharpened
from windowgrad.functional.signatures import A, Bins, Empty, Named, Pair, Ties
from windowgrad.ops import called
from windowgrad.params import SharpParams, {records}
"""
"""Of these, the ones that a module has no use for are taken out again."""


def formatted(text: str) -> str:
    """The text as the project's formatter leaves it, without imports that it has no use for."""
    for command in (["check", "--quiet", "--fix", "--select", "F401,I"], ["format", "--quiet"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(FOLDER / "generated.py"), "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout
    return text


def modules() -> dict[Path, str]:
    """The text of every generated file."""
    ops: dict[str, list[Op]] = {}
    for op in MEANINGS:
        if op.facts and op.facts.families:
            ops.setdefault(module_of(op), []).append(op)
    return {FOLDER / f"{name}.py": module(some) for name, some in ops.items()}


def main(check: bool) -> int:
    wrong = 0
    for path, text in modules().items():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        wrong += 1
        if check:
            print(f"{path}: is not what the table says; python tools/generate_functional.py writes it")
        else:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path}")
    return wrong if check else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
