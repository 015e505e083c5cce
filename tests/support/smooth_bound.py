"""Whether a smooth maximum in float32 is within its bound: compared with the plain formula in many digits."""

import mpmath
import numpy as np

from support import oracle
from windowgrad.kernels.pool.smooth import cells
from windowgrad.ops import OPS


def smooth_exactly(params, x):
    """The plain formula with enough digits for exponents of 10⁵ and more."""
    beta, left = mpmath.mpf(params.beta), np.True_ if params.where is None else params.where.array
    left = np.broadcast_to(left, x.shape)

    def value(real, padded):
        terms = [mpmath.exp(beta * mpmath.mpf(float(x[cell]))) for cell in real if left[cell]]
        terms += [mpmath.mpf(1)] * (padded if params.count_include_pad else 0)
        return mpmath.log(mpmath.fsum(terms)) / beta if terms else mpmath.mpf(0)

    return oracle.pooled(params, x, value)


def check_smooth(params, x):
    """Within 4·2⁻²⁴·max(|y|, 1/|β|)."""
    found = OPS["smooth_max_pool"].forward(params, x)
    assert found.dtype == np.float32
    with mpmath.workdps(40):
        exact = smooth_exactly(params, x)
        for got, y in zip(found.flat, exact.flat, strict=True):
            bound = 4 * mpmath.mpf(2) ** -24 * max(abs(y), 1 / abs(mpmath.mpf(params.beta))) + mpmath.mpf(2) ** -150
            assert abs(mpmath.mpf(float(got)) - y) <= bound, (got, y)


def with_reach(monkeypatch, **limits):
    """How far the cells of a plane may be from its middle, or from 0 if it is narrow."""
    for name, limit in limits.items():
        monkeypatch.setattr(cells, name, limit)
    monkeypatch.setattr(cells, "scale_of", cells.scale_of.__wrapped__)
