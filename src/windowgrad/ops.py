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
from windowgrad.dtypes import conv_dtype, float_of, float_of_first, unchanged
from windowgrad.facts import Facts, Family, Kernels
from windowgrad.spec import convolution, extension, logsumexp, maximum, mean, minimum, padding, pnorm, sharpness, unpooling
from windowgrad.spec.op import Op

# --- kernels: imported when the first one is needed, for that loads Numba -------------------------------------------


def max_kernels() -> Kernels:
    from windowgrad.kernels.pool import small, small_last
    from windowgrad.kernels.pool.max import entry
    from windowgrad.kernels.pool.small_halves import halving, halving_last, unless_saved
    from windowgrad.kernels.pool.small_views import viewing

    rules = entry.max_forward, entry.max_jvp, entry.max_vjp, entry.max_with_indices
    saving = entry.max_saving, entry.max_saves, entry.max_pushing
    prepare = halving(small.prepare_max, unless_saved, small.direct_max, entry.max_vjp)
    last = halving_last(small_last.prepare_max_last, unless_saved, small_last.direct_max_last, entry.max_vjp)
    return Kernels(*rules, *saving, prepare=prepare, prepare_last=viewing(prepare, last))


def min_kernels() -> Kernels:
    from windowgrad.kernels.pool.min import entry, small
    from windowgrad.kernels.pool.small_halves import halving, halving_last
    from windowgrad.kernels.pool.small_views import viewing

    rules = entry.min_forward, entry.min_jvp, entry.min_vjp, entry.min_with_indices
    saving = entry.min_saving, entry.min_saves, entry.min_pushing
    prepare, last = halving(small.prepare_min), halving_last(small.prepare_min_last)
    return Kernels(*rules, *saving, prepare=prepare, prepare_last=viewing(prepare, last))


def mean_kernels() -> Kernels:
    from windowgrad.kernels.pool import small, small_last
    from windowgrad.kernels.pool.mean import entry
    from windowgrad.kernels.pool.small_halves import halving, halving_last, never
    from windowgrad.kernels.pool.small_views import viewing

    rules = entry.mean_forward, entry.mean_jvp, entry.mean_vjp
    prepare = halving(small.prepare_mean, never, small.direct_mean)
    last = halving_last(small_last.prepare_mean_last, never, small_last.direct_mean_last)
    return Kernels(*rules, prepare=prepare, prepare_last=viewing(prepare, last))


def smooth_kernels() -> Kernels:
    from windowgrad.kernels.pool.small_halves import halving
    from windowgrad.kernels.pool.small_views import viewing
    from windowgrad.kernels.pool.smooth import entry, small

    rules = entry.smooth_forward, entry.smooth_jvp, entry.smooth_vjp
    prepare = halving(small.prepare_smooth)
    return Kernels(*rules, None, entry.smooth_saving, entry.smooth_saves, prepare=prepare, prepare_last=viewing(prepare))


def lp_kernels() -> Kernels:
    from windowgrad.kernels.pool.lp import entry, gradients, small
    from windowgrad.kernels.pool.small_halves import halving, halving_last

    rules = entry.lp_forward, entry.lp_jvp, entry.lp_vjp
    prepare, last = halving(small.prepare_lp), halving_last(small.prepare_lp_last)
    return Kernels(*rules, None, gradients.lp_saving, gradients.lp_saves, prepare=prepare, prepare_last=last)


def sharp_kernels() -> Kernels:
    from windowgrad.kernels.pool.smooth import sharp

    return Kernels(sharp.sharp_forward, sharp.sharp_jvp, sharp.sharp_vjp)


def masked_max() -> Kernels:
    from windowgrad.kernels.pool.masked import winners

    return winners.rules("max")


def masked_min() -> Kernels:
    from windowgrad.kernels.pool.masked import winners

    return winners.rules("min")


def masked_mean() -> Kernels:
    from windowgrad.kernels.pool.masked import sums

    return Kernels(sums.mean_forward, sums.mean_jvp, sums.mean_vjp, prepare=sums.prepare_mean)


def masked_smooth() -> Kernels:
    from windowgrad.kernels.pool.masked import sums

    return Kernels(sums.smooth_forward, sums.smooth_jvp, sums.smooth_vjp, prepare=sums.prepare_smooth)


def masked_lp() -> Kernels:
    from windowgrad.kernels.pool.masked import sums

    return Kernels(sums.lp_forward, sums.lp_jvp, sums.lp_vjp)


def masked_sharp() -> Kernels:
    from windowgrad.kernels.pool.masked import sharp

    return Kernels(sharp.sharp_forward, sharp.sharp_jvp, sharp.sharp_vjp)


def conv_kernels() -> Kernels:
    from windowgrad.kernels.conv import entry

    return Kernels(entry.conv_forward, entry.conv_jvp, entry.conv_vjp, prepare=entry.prepare)


def pad_kernels() -> Kernels:
    from windowgrad.kernels.elementwise import pad

    return Kernels(pad.pad_forward, pad.pad_jvp, pad.pad_vjp)


def extend_kernels() -> Kernels:
    from windowgrad.kernels.elementwise import extend

    return Kernels(extend.extend_forward, extend.extend_jvp, extend.extend_vjp)


def unpool_kernels() -> Kernels:
    from windowgrad.kernels.elementwise import unpool

    return Kernels(unpool.unpool_forward, unpool.unpool_jvp, unpool.unpool_vjp)


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


def winner_families(operator: str, layer: str, kind: str) -> tuple[Family, ...]:
    """Pooling that takes one cell of each window, its winner: what is said of ties and of indices is the same for all."""
    groups, ties = words("tie-free tied NaN infinite"), words("first all split")
    dtype = ("dtype", (*FLOATS, "int64", "int32", "uint8", "bool"))
    notes = "NaN wins over every number; among equal cells the first in row-major order wins."
    return (
        Family(
            operator,
            operator,
            "sliding",
            words("x kernel_size stride padding dilation ceil_mode return_indices * ties empty where out"),
            ("ties", "empty"),
            layer,
            f"The {kind} value of each window.",
            f"Padded cells are absent. {notes}",
            case_arguments=words("kernel stride padding dilation ceil_mode ties"),
            factors=(CEIL_MODE, ("group", (*groups, "empty windows")), dtype, ("ties", ties)),
        ),
        Family(
            f"adaptive_{operator}",
            operator,
            "adaptive",
            words("x output_size return_indices * ties empty where out"),
            ("ties", "empty"),
            f"Adaptive{layer}",
            f"The {kind} value of each of `output_size` bins per axis.",
            notes,
            case_arguments=words("output_size ties"),
            factors=(("group", groups), dtype, ("ties", ties)),
        ),
        Family(
            f"global_{operator}",
            operator,
            "global",
            words("x rank * keepdims return_indices ties empty where out"),
            ("ties", "empty"),
            f"Global{layer}",
            f"The {kind} value over the last `rank` axes.",
            f"NaN wins over every number. Every cell that equals the {kind} gets the gradient, unless `ties` says otherwise.",
            defaults=(("ties", "all"),),
            case_arguments=("ties",),
            factors=(("group", groups), dtype, ("ties", words("all first split"))),
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
            words("x kernel_size stride padding ceil_mode count_include_pad divisor_override * dilation where out"),
            ("count_include_pad", "divisor_override"),
            layer,
            "The mean of each window.",
            "The divisor counts the cells inside the padded input, or only the real ones (`count_include_pad=False`), and "
            "never the overhang of ceil mode; `divisor_override` replaces it.",
            case_arguments=words("kernel stride padding dilation ceil_mode count_include_pad divisor"),
            factors=(CEIL_MODE, *divisor, ("group", (*SUMS, "empty windows")), dtype),
        ),
        Family(
            f"adaptive_{operator}",
            operator,
            "adaptive",
            words("x output_size * where out"),
            (),
            f"Adaptive{layer}",
            "The mean of each of `output_size` bins per axis.",
            "",
            case_arguments=("output_size",),
            factors=(("group", SUMS), dtype),
        ),
        Family(
            f"global_{operator}",
            operator,
            "global",
            words("x rank * keepdims where out"),
            (),
            f"Global{layer}",
            "The mean over the last `rank` axes.",
            "",
            factors=(("group", SUMS), dtype),
        ),
    )


def smooth_families(operator: str, layer: str) -> tuple[Family, ...]:
    notes = "A smooth maximum for β > 0, a smooth minimum for β < 0. It never overflows."
    return (
        Family(
            operator,
            operator,
            "sliding",
            words("x kernel_size stride padding dilation ceil_mode count_include_pad * beta where out"),
            ("beta", "count_include_pad"),
            layer,
            "(1/β)·log Σ exp(β·x) of each window.",
            f"{notes} With `count_include_pad=False` it tends to `max_pool` as β grows.",
        ),
        Family(
            f"adaptive_{operator}",
            operator,
            "adaptive",
            words("x output_size * beta where out"),
            ("beta",),
            f"Adaptive{layer}",
            "(1/β)·log Σ exp(β·x) of each of `output_size` bins per axis.",
            notes,
        ),
        Family(
            f"global_{operator}",
            operator,
            "global",
            words("x rank * keepdims beta where out"),
            ("beta",),
            f"Global{layer}",
            "(1/β)·log Σ exp(β·x) over the last `rank` axes.",
            notes,
        ),
    )


def lp_families(operator: str, layer: str) -> tuple[Family, ...]:
    notes = "Padded cells add nothing. It does not overflow unless the norm does. The derivatives of a norm of zeros are 0."
    norm = ("norm_type", (2, 1, 3, 2.5)), ("signs", ("both", "positive"))
    dtype = ("dtype", (*FLOATS, "int64", "uint8"))
    return (
        Family(
            operator,
            operator,
            "sliding",
            words("x norm_type kernel_size stride ceil_mode * padding dilation where out"),
            ("norm_type",),
            layer,
            "The p-norm (Σ|x|^p)^(1/p) of each window.",
            notes,
            case_arguments=words("norm_type kernel stride padding dilation ceil_mode"),
            factors=(CEIL_MODE, *norm, ("group", (*SUMS, "empty windows")), dtype),
        ),
        Family(
            f"adaptive_{operator}",
            operator,
            "adaptive",
            words("x norm_type output_size * where out"),
            ("norm_type",),
            f"Adaptive{layer}",
            "The p-norm (Σ|x|^p)^(1/p) of each of `output_size` bins per axis.",
            notes,
            case_arguments=words("norm_type output_size"),
            factors=(*norm, ("group", SUMS), dtype),
        ),
        Family(
            f"global_{operator}",
            operator,
            "global",
            words("x norm_type rank * keepdims where out"),
            ("norm_type",),
            f"Global{layer}",
            "The p-norm (Σ|x|^p)^(1/p) over the last `rank` axes.",
            notes,
            case_arguments=("norm_type",),
            factors=(*norm, ("group", SUMS), dtype),
        ),
    )


CONV = Family(
    "conv",
    "conv",
    "convolution",
    words("x weight bias stride padding dilation groups * out"),
    ("groups",),
    "Conv",
    "Cross-correlation of x with a weight, plus a bias.",
    "Padded cells are zeros. Channels are split into `groups` that do not mix.",
    case_arguments=words("stride padding dilation groups"),
    factors=(*CHANNELS, ("group", SUMS), ("dtype", (*FLOATS, "int64", "int8"))),
)
CONV_TRANSPOSE = Family(
    "conv_transpose",
    "conv_transpose",
    "transposed",
    words("x weight bias stride padding output_padding groups dilation * output_size out"),
    ("groups", "output_padding"),
    "ConvTranspose",
    "The adjoint of `conv` in its input, plus a bias.",
    "Inputs of several sizes have a convolution of the same size; `output_padding` or `output_size` chooses among them.",
    case_arguments=words("stride padding output_padding groups dilation"),
    factors=(
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
    masked=masked_max,
    families=winner_families("max_pool", "MaxPool", "greatest"),
    derivative_reads=("x",),
    partial_results="maximum",
    kernel_options=(("first",), ("all",)),
    case_options=("ties",),
)
MIN = replace(
    MAX,
    kernels=min_kernels,
    masked=masked_min,
    families=winner_families("min_pool", "MinPool", "least"),
    copies_x=True,
    partial_results="minimum",
)
MEAN = Facts(
    mean_kernels,
    float_of,
    writes_out=True,
    masked=masked_mean,
    families=mean_families("avg_pool", "AvgPool"),
    partial_results="mean",
    rounds_by_order=True,
    case_options=("count_include_pad", "divisor"),
)
SMOOTH = Facts(
    smooth_kernels,
    float_of,
    writes_out=True,
    masked=masked_smooth,
    families=smooth_families("smooth_max_pool", "SmoothMaxPool"),
    derivative_reads=("x",),
    partial_results="logsumexp",
    kernel_options=((1.0,),),
)
LP = Facts(
    lp_kernels,
    float_of,
    writes_out=True,
    masked=masked_lp,
    families=lp_families("lp_pool", "LpPool"),
    derivative_reads=("x",),
    partial_results="p-norm",
    kernel_options=((1,), (2,), (3,), (4,), (5,), (7,)),
    case_options=("norm_type",),
)
SHARP = Facts(
    sharp_kernels,
    float_of_first,
    writes_out=False,
    masked=masked_sharp,
    chooses_gradients=True,
    derivative_reads=("x", "beta"),
    kernel_options=(),
)
CONVOLUTION = Facts(
    conv_kernels,
    conv_dtype,
    writes_out=True,
    chooses_gradients=True,
    families=(CONV,),
    derivative_reads=("x", "weight"),
    autocasts=True,
    kernel_options=((1,), (2,)),
    case_options=("groups",),
)
TRANSPOSED = replace(CONVOLUTION, families=(CONV_TRANSPOSE,), kernel_options=((1,),), case_options=("groups", "output_padding"))

UNPOOL = Facts(
    unpool_kernels,
    unchanged,
    writes_out=False,
    chooses_gradients=True,
    indices=("indices",),
    derivative_reads=("indices",),
)

MEANINGS: tuple[Op, ...] = (
    replace(maximum.OP, facts=MAX),
    replace(minimum.OP, facts=MIN),
    replace(mean.OP, facts=MEAN),
    replace(logsumexp.OP, facts=SMOOTH),
    replace(pnorm.OP, facts=LP),
    replace(sharpness.OP, facts=SHARP),
    replace(convolution.CONV, facts=CONVOLUTION),
    replace(convolution.CONV_TRANSPOSE, facts=TRANSPOSED),
    replace(unpooling.OP, facts=UNPOOL),
    replace(padding.PAD, facts=Facts(pad_kernels, unchanged, writes_out=False, grows=True)),
    replace(extension.OP, facts=Facts(extend_kernels, unchanged, writes_out=False, grows=True)),
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
"""All operators by their names, with rules that take arrays of any kind."""
FAMILIES: Mapping[str, Family] = MappingProxyType(
    {family.name: family for op in MEANINGS if op.facts for family in op.facts.families}
)
"""The public functions of all operators by their names without a rank."""
