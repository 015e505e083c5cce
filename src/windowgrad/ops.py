"""The table of operators: one row for each, with all that is known of it. `functional`, `nn`, the bridges, `conform`, `explain`
and `warmup` read it; none of them knows an operator by its name.

OPS["max_pool"].forward(params, x)     jvp(params, x, dx)     vjp(params, x, g)

A row is the record of the specification (the meaning) with `Facts` (everything else). `OPS` has the same records with their
rules routed by the arrays they are given. A layer or a page is named here as data only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from windowgrad.dispatch import run
from windowgrad.dtypes import conv_dtype, float_of, unchanged
from windowgrad.facts import Facts, Family, Kernels
from windowgrad.spec import convolution, logsumexp, maximum, mean, padding
from windowgrad.spec.op import Op

# --- kernels: imported when the first one is needed, for that loads Numba -------------------------------------------


def max_kernels() -> Kernels:
    from windowgrad.kernels.pool.max import entry

    return Kernels(entry.max_forward, entry.max_jvp, entry.max_vjp, entry.max_with_indices)


def mean_kernels() -> Kernels:
    from windowgrad.kernels.pool.mean import entry

    return Kernels(entry.mean_forward, entry.mean_jvp, entry.mean_vjp)


def smooth_kernels() -> Kernels:
    from windowgrad.kernels.pool.smooth import entry

    return Kernels(entry.smooth_forward, entry.smooth_jvp, entry.smooth_vjp)


def conv_kernels() -> Kernels:
    from windowgrad.kernels.conv import entry

    return Kernels(entry.conv_forward, entry.conv_jvp, entry.conv_vjp)


def pad_kernels() -> Kernels:
    from windowgrad.kernels.elementwise import pad

    return Kernels(pad.pad_forward, pad.pad_jvp, pad.pad_vjp)


def unpad_kernels() -> Kernels:
    from windowgrad.kernels.elementwise import pad

    return Kernels(pad.unpad_forward, pad.unpad_jvp, pad.unpad_vjp)


# --- public functions ------------------------------------------------------------------------------------------------

FLOATS = ("float32", "float64", "float16")
CEIL_MODE = ("ceil_mode", (False, True))
CHANNELS = (("channels", (1, 2)), ("groups", (1, 2)), ("bias", (False, True)))
SUMS = ("plain", "NaN", "infinite", "large")


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def winner_families(operator: str, layer: str) -> tuple[Family, ...]:
    """Pooling that takes one cell of each window, its winner: what is said of ties and of indices is the same for all."""
    groups = words("tie-free tied NaN infinite")
    dtype = ("dtype", (*FLOATS, "int64", "int32", "uint8", "bool"))
    ties = ("ties", words("first all split"))
    return (
        Family(
            operator,
            operator,
            "sliding",
            words("x kernel_size stride padding dilation ceil_mode return_indices * ties empty out"),
            ("ties", "empty"),
            layer,
            words("kernel stride padding dilation ceil_mode ties"),
            (CEIL_MODE, ("group", (*groups, "empty windows")), dtype, ties),
        ),
        Family(
            f"adaptive_{operator}",
            operator,
            "adaptive",
            words("x output_size return_indices * ties out"),
            ("ties",),
            f"Adaptive{layer}",
            words("output_size ties"),
            (("group", groups), dtype, ties),
        ),
        Family(
            f"global_{operator}",
            operator,
            "global",
            words("x rank * keepdims ties out"),
            ("ties",),
            f"Global{layer}",
            words("ties"),
            (("group", groups), dtype, ("ties", words("all first split"))),
        ),
    )


def mean_families(operator: str, layer: str) -> tuple[Family, ...]:
    dtype = ("dtype", (*FLOATS, "int64", "uint8"))
    divisor = (("count_include_pad", (True, False)), ("divisor", (None, 3)))
    return (
        Family(
            operator,
            operator,
            "sliding",
            words("x kernel_size stride padding ceil_mode count_include_pad divisor_override * dilation out"),
            ("count_include_pad", "divisor_override"),
            layer,
            words("kernel stride padding dilation ceil_mode count_include_pad divisor"),
            (CEIL_MODE, *divisor, ("group", (*SUMS, "empty windows")), dtype),
        ),
        Family(
            f"adaptive_{operator}",
            operator,
            "adaptive",
            words("x output_size * out"),
            (),
            f"Adaptive{layer}",
            words("output_size"),
            (("group", SUMS), dtype),
        ),
        Family(
            f"global_{operator}",
            operator,
            "global",
            words("x rank * keepdims out"),
            (),
            f"Global{layer}",
            (),
            (("group", SUMS), dtype),
        ),
    )


def smooth_families(operator: str, layer: str) -> tuple[Family, ...]:
    window = words("x kernel_size stride padding dilation ceil_mode count_include_pad * beta out")
    bins, whole = words("x output_size * beta out"), words("x rank * keepdims beta out")
    return (
        Family(operator, operator, "sliding", window, ("beta", "count_include_pad"), layer),
        Family(f"adaptive_{operator}", operator, "adaptive", bins, ("beta",), f"Adaptive{layer}"),
        Family(f"global_{operator}", operator, "global", whole, ("beta",), f"Global{layer}"),
    )


CONV = Family(
    "conv",
    "conv",
    "convolution",
    words("x weight bias stride padding dilation groups * out"),
    ("groups",),
    "Conv",
    words("stride padding dilation groups"),
    (*CHANNELS, ("group", SUMS), ("dtype", (*FLOATS, "int64", "int8"))),
)
CONV_TRANSPOSE = Family(
    "conv_transpose",
    "conv_transpose",
    "transposed",
    words("x weight bias stride padding output_padding groups dilation * out"),
    ("groups", "output_padding"),
    "ConvTranspose",
    words("stride padding output_padding groups dilation"),
    (
        *CHANNELS,
        ("output_padding", words("none one mixed")),
        ("group", words("plain NaN infinite")),
        ("dtype", (*FLOATS, "int64")),
    ),
)

# --- the rows --------------------------------------------------------------------------------------------------------

MAX = Facts(
    max_kernels,
    unchanged,
    writes_out=True,
    families=winner_families("max_pool", "MaxPool"),
    derivative_reads=("x",),
    partial_results="maximum",
    case_reduction="max",
    case_options=("ties",),
)
MEAN = Facts(
    mean_kernels,
    float_of,
    writes_out=True,
    families=mean_families("avg_pool", "AvgPool"),
    partial_results="mean",
    rounds_by_order=True,
    case_reduction="avg",
    case_options=("count_include_pad", "divisor"),
)
SMOOTH = Facts(
    smooth_kernels,
    float_of,
    writes_out=True,
    families=smooth_families("smooth_max_pool", "SmoothMaxPool"),
    derivative_reads=("x",),
    partial_results="logsumexp",
)
CONVOLUTION = Facts(
    conv_kernels,
    conv_dtype,
    writes_out=True,
    chooses_gradients=True,
    families=(CONV,),
    derivative_reads=("x", "weight"),
    autocasts=True,
    case_reduction="conv",
    case_options=("groups",),
)
TRANSPOSED = replace(CONVOLUTION, families=(CONV_TRANSPOSE,), case_options=("groups", "output_padding"))

MEANINGS: tuple[Op, ...] = (
    replace(maximum.OP, facts=MAX),
    replace(mean.OP, facts=MEAN),
    replace(logsumexp.OP, facts=SMOOTH),
    replace(convolution.CONV, facts=CONVOLUTION),
    replace(convolution.CONV_TRANSPOSE, facts=TRANSPOSED),
    replace(padding.PAD, facts=Facts(pad_kernels, unchanged, writes_out=False, grows=True)),
    replace(padding.UNPAD, facts=Facts(unpad_kernels, unchanged, writes_out=False, grows=False)),
)
"""The rows: what each operator means, with its facts."""


def meaning(name: str) -> Op:
    """The row of an operator."""
    return _ROWS[name]


def routed(op: Op) -> Op:
    """The same operator, computed by whoever computes with the arrays at hand."""
    return replace(
        op,
        forward=partial(run, op, "forward"),
        jvp=partial(run, op, "jvp"),
        vjp=partial(run, op, "vjp"),
        with_indices=partial(run, op, "with_indices") if op.with_indices else None,
    )


def called(name: str, label: str) -> Op:
    """An operator of the table under the name it is called by: max_pool2d is max_pool."""
    return routed(replace(meaning(name), label=label))


_ROWS = {op.name: op for op in MEANINGS}
OPS: Mapping[str, Op] = MappingProxyType({op.name: routed(op) for op in MEANINGS})
FAMILIES: Mapping[str, Family] = MappingProxyType(
    {family.name: family for op in MEANINGS if op.facts for family in op.facts.families}
)
"""The public functions of all operators by their names without a rank."""
