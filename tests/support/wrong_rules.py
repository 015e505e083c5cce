"""Mistakes to plant: each function takes the right operator and a monkeypatch, and gives the operator with a mistake in it."""

import math
from dataclasses import replace

import numpy as np

from windowgrad import geometry
from windowgrad.params import ConvParams, PadParams
from windowgrad.spec import convolution, logsumexp, maximum, mean, padding, selection
from windowgrad.spec.scalar import cells, windows, zeros


def last_tie_wins_in_jvp(op, patch):
    def jvp(params, x, dx):
        dy = zeros(params.out_shape(x.shape), like=dx)
        for o, taps, _ in windows(params.geometry, x.shape):
            if taps:
                dy[o] = dx[maximum.winner(x, reversed(taps))]
        return dy

    return replace(op, jvp=lambda params, x, dx: (jvp if params.ties == "first" else op.jvp)(params, x, dx))


def padding_wins_as_zero(op, patch):
    def forward(params, x):
        y = op.forward(params, x)
        for o, _, padded in windows(params.geometry, x.shape):
            y[o] = max(y[o], type(y[o])(0)) if padded else y[o]
        return y

    return replace(op, forward=forward)


def an_empty_window_is_minus_one(op, patch):
    def forward(params, x):
        y = op.forward(params, x)
        for o, taps, _ in windows(params.geometry, x.shape):
            y[o] = y[o] if taps else -1
        return y

    return replace(op, forward=forward)


def index_of_the_last_winner(op, patch):
    right = maximum.winner
    patch.setattr(maximum, "winner", lambda x, taps: right(x, list(taps)[::-1]))
    return op


def nan_is_dropped(op, patch):
    patch.setattr(maximum, "greater", lambda a, b: a > b)
    return op


def split_is_not_divided(op, patch):
    patch.setattr(selection, "share", lambda amount, among, ties: amount)
    return op


def split_is_not_divided_in_vjp(op, patch):
    whole = {"split": "all"}
    return replace(op, vjp=lambda params, x, g: op.vjp(replace(params, ties=whole.get(params.ties, params.ties)), x, g))


def all_is_the_first_only(op, patch):
    first = {"all": "first"}

    def of(rule):
        return lambda params, *xs: rule(replace(params, ties=first.get(params.ties, params.ties)), *xs)

    return replace(op, jvp=of(op.jvp), vjp=of(op.vjp))


def divisor_counts_the_overhang(op, patch):
    right = mean.divisor

    def divisor(params, window):
        counted = params.count_include_pad and params.divisor_override is None and hasattr(params.geometry, "kernel")
        return math.prod(params.geometry.kernel) if counted else right(params, window)

    patch.setattr(mean, "divisor", divisor)
    return op


def divisor_ignores_padding(op, patch):
    right = mean.divisor
    patch.setattr(mean, "divisor", lambda params, window: right(params, window._replace(padded=0)) or 1)
    return op


def divisor_ignores_the_override(op, patch):
    right = mean.divisor
    patch.setattr(mean, "divisor", lambda params, window: right(replace(params, divisor_override=None), window))
    return op


def vjp_divides_by_the_real_cells(op, patch):
    return replace(op, vjp=lambda params, x, g: op.vjp(replace(params, count_include_pad=False), x, g))


def vjp_forgets_one_tap(op, patch):
    module = {"avg_pool": mean, "smooth_max_pool": logsumexp}[op.name]

    def fewer(*arguments):
        return (w._replace(taps=w.taps[:-1]) if len(w.taps) > 1 else w for w in windows(*arguments))

    return replace(op, vjp=patched(patch, op.vjp, module, "windows", fewer))


def patched(patch, rule, module, name, wrong):
    """`rule` with a wrong part in its module, while it runs: its sister rules keep the right one."""

    def run(*arguments):
        with patch.context() as here:
            here.setattr(module, name, wrong)
            return rule(*arguments)

    return run


def weights_are_not_normalised(op, patch):
    right = logsumexp.weigh

    def weigh(params, x, window):
        top, weights, total = right(params, x, window)
        return top, weights, total * 0 + 1

    return replace(op, **{name: patched(patch, getattr(op, name), logsumexp, "weigh", weigh) for name in ("jvp", "vjp")})


def padded_zeros_are_left_out(op, patch):
    return replace(op, forward=lambda params, x: op.forward(replace(params, count_include_pad=False), x))


def vjp_ignores_padded_zeros(op, patch):
    return replace(op, vjp=lambda params, x, g: op.vjp(replace(params, count_include_pad=False), x, g))


def flipped(w, rank):
    return np.flip(w, axis=tuple(range(w.ndim - rank, w.ndim)))


def kernel_is_flipped_in_vjp(op, patch):
    def vjp(params, x, w, *rest):
        return (op.vjp(params, x, flipped(w, params.window.rank), *rest)[0], *op.vjp(params, x, w, *rest)[1:])

    return replace(op, vjp=vjp)


def kernel_is_flipped_everywhere(op, patch):
    return replace(op, forward=lambda params, x, w, *bias: op.forward(params, x, flipped(w, params.window.rank), *bias))


def jvp_forgets_the_tangent_of_the_weight(op, patch):
    def jvp(params, *args):
        half = len(args) // 2
        return op.forward(params, args[half], args[1], *args[half + 2 :])

    return replace(op, jvp=jvp)


def vjp_forgets_one_product(op, patch):
    right = convolution.terms
    return replace(op, vjp=patched(patch, op.vjp, convolution, "terms", lambda *arrays: list(right(*arrays))[:-1]))


def bias_gradient_is_that_of_the_first_cell(op, patch):
    def vjp(params, x, w, *rest):
        gx, gw, *gb = op.vjp(params, x, w, *rest)
        first = (slice(None),) + (0,) * params.window.rank
        g = cells(rest[-1])
        summed = g[(..., *first)].reshape(-1, gb[0].size).sum(axis=0) if gb else None
        return (gx, gw, summed) if gb else (gx, gw)

    return replace(op, vjp=vjp)


def groups_are_mixed(op, patch):
    def forward(params, x, w, *bias):
        channel = x.ndim - params.window.rank - 1
        return op.forward(params, np.flip(x, axis=channel) if params.groups > 1 else x, w, *bias)

    return replace(op, forward=forward)


def output_padding_is_put_before(op, patch):
    def forward(params, *xs):
        y = op.forward(params, *xs)
        spatial = tuple(range(y.ndim - params.window.rank, y.ndim))
        return np.roll(y, params.output_padding, axis=spatial)

    return replace(op, forward=forward)


def pad_is_off_by_one(op, patch):
    def forward(params, x):
        y = op.forward(params, x)
        return np.roll(y, 1, axis=-1) if params.padding[-1][1] else y

    return replace(op, forward=forward)


def unpad_takes_the_padding_of_the_other_side(op, patch):
    def forward(params, x):
        return op.forward(type(params)([(hi, lo) for lo, hi in params.padding]), x)

    return replace(op, forward=forward)


def unpad_gradient_is_unpadded_from_the_front(op, patch):
    def vjp(params, x, g):
        moved = PadParams([(0, lo + hi) for lo, hi in params.padding])
        return (padding.pad(moved, g),)

    return replace(op, vjp=vjp)


def bins_end_at_the_floor(op, patch):
    def table(size, n, m, *_):
        start = np.arange(m) * n // m
        none = np.zeros_like(start)
        return geometry.Table(start, np.maximum((np.arange(m) + 1) * n // m - start, 1), 1, none, none)

    patch.setattr(geometry, "_kept_adaptive", table)
    return op


def ceil_mode_keeps_every_window(op, patch):
    right = geometry.Sliding._outputs

    def outputs(self, axis, n):
        room = n + sum(self.padding[axis]) - self.dilation[axis] * (self.kernel[axis] - 1) - 1
        return -(-room // self.stride[axis]) + 1 if self.ceil_mode[axis] else right(self, axis, n)

    patch.setattr(geometry.Sliding, "_outputs", outputs)
    return op


def dilation_is_ignored(op, patch):
    def forward(params, *xs):
        w = params.window
        span = [d * (k - 1) - (k - 1) for k, d in zip(w.kernel, w.dilation, strict=True)]
        closer = [(lo, hi - min(hi, cut)) for (lo, hi), cut in zip(w.padding, span, strict=True)]
        dense = ConvParams(geometry.Sliding(w.kernel, w.stride, closer, 1, w.ceil_mode), params.groups)
        y = op.forward(params, *xs)
        wrong = op.forward(dense, *xs)
        return wrong if wrong.shape == y.shape else y

    return replace(op, forward=forward)


def one_cell_is_one_more(op, rule):
    """The last cell of what `rule` gives, or of the first gradient."""

    def wrong(*arguments):
        result = getattr(op, rule)(*arguments)
        first = result[0] if rule == "vjp" else result
        first.reshape(-1)[-1:] += 1
        return result

    return replace(op, **{rule: wrong})
