"""What is wrong with arrays, their cells and beta, and what a user is told."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np

import windowgrad as wg
from support.bad_inputs import Bad, X, cells

CASES = [
    Bad(
        "beta 0",
        lambda: wg.smooth_max_pool2d(X, 2, beta=0),
        wg.OptionError,
        "beta=0: must not be zero; the smooth maximum tends to infinity there"
        " [smooth_max_pool2d(x: float32(3, 8, 8), kernel_size=2, beta=0)]",
    ),
    Bad(
        "beta 0.0 for adaptive",
        lambda: wg.adaptive_smooth_max_pool2d(X, 2, beta=0.0),
        wg.OptionError,
        "beta=0.0: must not be zero; the smooth maximum tends to infinity there"
        " [adaptive_smooth_max_pool2d(x: float32(3, 8, 8), output_size=2, beta=0.0)]",
    ),
    Bad(
        "beta nan",
        lambda: wg.smooth_max_pool2d(X, 2, beta=float("nan")),
        wg.OptionError,
        "beta=nan: must be finite; max_pool is the limit [smooth_max_pool2d(x: float32(3, 8, 8), kernel_size=2, beta=nan)]",
    ),
    Bad(
        "beta inf for global",
        lambda: wg.global_smooth_max_pool2d(X, beta=float("inf")),
        wg.OptionError,
        "beta=inf: must be finite; max_pool is the limit [global_smooth_max_pool2d(x: float32(3, 8, 8), beta=inf)]",
    ),
    Bad(
        "beta str",
        lambda: wg.smooth_max_pool2d(X, 2, beta="1"),
        wg.KindError,
        "beta='1': must be a real number, not str [smooth_max_pool2d(x: float32(3, 8, 8), kernel_size=2, beta='1')]",
    ),
    Bad(
        "beta complex",
        lambda: wg.smooth_max_pool2d(X, 2, beta=1j),
        wg.KindError,
        "beta=1j: must be a real number, not complex [smooth_max_pool2d(x: float32(3, 8, 8), kernel_size=2, beta=1j)]",
    ),
    Bad(
        "beta NumPy complex",
        lambda: wg.smooth_max_pool2d(X, 2, beta=np.complex64(1)),
        wg.KindError,
        "beta=np.complex64(1+0j): must be a real number, not complex64"
        " [smooth_max_pool2d(x: float32(3, 8, 8), kernel_size=2, beta: complex64())]",
    ),
    Bad(
        "beta bool",
        lambda: wg.smooth_max_pool2d(X, 2, beta=True),
        wg.KindError,
        "beta=True: must be a real number, not bool [smooth_max_pool2d(x: float32(3, 8, 8), kernel_size=2, beta=True)]",
    ),
    Bad(
        "beta NumPy bool",
        lambda: wg.smooth_max_pool2d(X, 2, beta=np.True_),
        wg.KindError,
        "beta=np.True_: must be a real number, not bool [smooth_max_pool2d(x: float32(3, 8, 8), kernel_size=2, beta: bool())]",
    ),
    Bad(
        "beta None",
        lambda: wg.smooth_max_pool2d(X, 2, beta=None),
        wg.KindError,
        "beta=None: must be a real number, not NoneType [smooth_max_pool2d(x: float32(3, 8, 8), kernel_size=2, beta=None)]",
    ),
    Bad(
        "beta an array",
        lambda: wg.smooth_max_pool2d(X, 2, beta=np.array([1.0, 2.0])),
        wg.WindowError,
        "beta of shape (2,): must be () or (3,), one for each entry of the axis before the windows"
        " [smooth_max_pool2d(x: float32(3, 8, 8), kernel_size=2, beta: float64(2,))]",
    ),
    Bad(
        "beta a list",
        lambda: wg.smooth_max_pool2d(X, 2, beta=[1.0]),
        wg.KindError,
        "beta=[1.0]: must be a real number, not list [smooth_max_pool2d(x: float32(3, 8, 8), kernel_size=2, beta=[1.0])]",
    ),
    Bad(
        "beta a signalling NaN",
        lambda: wg.smooth_max_pool2d(X, 2, beta=Decimal("sNaN")),
        wg.OptionError,
        "beta=Decimal('sNaN'): must be finite; max_pool is the limit"
        " [smooth_max_pool2d(x: float32(3, 8, 8), kernel_size=2, beta=Decimal('sNaN'))]",
    ),
    Bad(
        "beta 10**400",
        lambda: wg.smooth_max_pool2d(X, 2, beta=10**400),
        wg.OptionError,
        "beta=2**1328…: too large for float64; use x.astype(object) to compute exactly"
        " [smooth_max_pool2d(x: float32(3, 8, 8), kernel_size=2, beta=2**1328…)]",
    ),
    Bad(
        "beta a fraction below every float",
        lambda: wg.smooth_max_pool2d(X, 1, beta=Fraction(1, 10**400)),
        wg.OptionError,
        "beta=Fraction(1, 1000000000000000000000000000000000000000000000000000000000000000000…: too small for "
        "float64; use x.astype(object) to compute exactly"
        " [smooth_max_pool2d(x: float32(3, 8, 8), kernel_size=1, beta=Fraction(1, "
        "1000000000000000000000000000000000000000000000000000000000000000000…)]",
    ),
    Bad(
        "x a list",
        lambda: wg.max_pool2d([[1.0, 2.0], [3.0, 4.0]], 2),
        wg.KindError,
        "x: must be a NumPy array, not list; try numpy.asarray(x) [max_pool2d(x=[[1.0, 2.0], [3.0, 4.0]], kernel_size=2)]",
    ),
    Bad(
        "x None",
        lambda: wg.avg_pool2d(None, 2),
        wg.KindError,
        "x: must be a NumPy array, not NoneType; try numpy.asarray(x) [avg_pool2d(x=None, kernel_size=2)]",
    ),
    Bad(
        "x a number",
        lambda: wg.global_max_pool(3.0, 1),
        wg.KindError,
        "x: must be a NumPy array, not float; try numpy.asarray(x) [global_max_pool(x=3.0, rank=1)]",
    ),
    Bad(
        "x a NumPy scalar",
        lambda: wg.max_pool1d(np.float32(1), 2),
        wg.KindError,
        "x: must be a NumPy array, not numpy.float32; try numpy.asarray(x) [max_pool1d(x: float32(), kernel_size=2)]",
    ),
    Bad(
        "x a 0-d array",
        lambda: wg.max_pool1d(np.zeros(()), 2),
        wg.WindowError,
        "shape () has 0 axes: must have at least 1, one per axis of the window [max_pool1d(x: float64(), kernel_size=2)]",
    ),
    Bad(
        "x a masked array",
        lambda: wg.pad(np.ma.masked_equal(X, 0), (1, 1)),
        wg.KindError,
        "x: must not be a masked array, which only pooling takes; "
        "fill it with what masked elements should count as, such as x.filled(0)"
        " [pad(x: float32(3, 8, 8), padding=(1, 1))]",
    ),
    Bad(
        "x complex",
        lambda: wg.avg_pool2d(X.astype(complex), 2),
        wg.KindError,
        "x: unsupported dtype complex128; must be bool, int8 to int64, uint8 to uint64, "
        "float16, float32, float64, or object"
        " [avg_pool2d(x: complex128(3, 8, 8), kernel_size=2)]",
    ),
    Bad(
        "x longdouble",
        lambda: wg.avg_pool2d(X.astype(np.longdouble), 2),
        wg.KindError,
        "x: unsupported dtype float128; must be bool, int8 to int64, uint8 to uint64, float16, "
        "float32, float64, or object"
        " [avg_pool2d(x: float128(3, 8, 8), kernel_size=2)]",
    ),
    Bad(
        "x of strings",
        lambda: wg.max_pool1d(np.array([["a", "b"]]), 2),
        wg.KindError,
        "x: unsupported dtype <U1; must be bool, int8 to int64, uint8 to uint64, float16, "
        "float32, float64, or object"
        " [max_pool1d(x: <U1(1, 2), kernel_size=2)]",
    ),
    Bad(
        "x of dates",
        lambda: wg.max_pool1d(np.zeros((1, 8), "M8[s]"), 2),
        wg.KindError,
        "x: unsupported dtype datetime64[s]; must be bool, int8 to int64, uint8 to uint64, "
        "float16, float32, float64, or object"
        " [max_pool1d(x: datetime64[s](1, 8), kernel_size=2)]",
    ),
    Bad(
        "x structured",
        lambda: wg.max_pool1d(np.zeros((1, 8), [("a", "f4")]), 2),
        wg.KindError,
        "x: unsupported dtype [('a', '<f4')]; must be bool, int8 to int64, uint8 to uint64, "
        "float16, float32, float64, or object"
        " [max_pool1d(x: [('a', '<f4')](1, 8), kernel_size=2)]",
    ),
    Bad(
        "x with a spatial axis of length 0",
        lambda: wg.max_pool2d(X[..., :0], 2),
        wg.WindowError,
        "size=0 on axis 1: must be at least 1 [max_pool2d(x: float32(3, 8, 0), kernel_size=2)]",
    ),
    Bad(
        "x adaptive with a spatial axis of length 0",
        lambda: wg.adaptive_avg_pool2d(X[:, :0], 1),
        wg.WindowError,
        "size=0 on axis 0: must be at least 1 [adaptive_avg_pool2d(x: float32(3, 0, 8), output_size=1)]",
    ),
    Bad(
        "x global with a spatial axis of length 0",
        lambda: wg.global_max_pool2d(X[..., :0]),
        wg.WindowError,
        "size=0 on axis 1: must be at least 1 [global_max_pool2d(x: float32(3, 8, 0))]",
    ),
    Bad(
        "cells None",
        lambda: wg.max_pool1d(cells(None, 1), 2),
        wg.KindError,
        "max_pool: unsupported elements of type NoneType; must be real numbers [max_pool1d(x: object(1, 2), kernel_size=2)]",
    ),
    Bad(
        "cells str in a mean",
        lambda: wg.avg_pool1d(cells("a", "b"), 2),
        wg.KindError,
        "avg_pool: unsupported elements of type str; must be real numbers [avg_pool1d(x: object(1, 2), kernel_size=2)]",
    ),
    Bad(
        "cells str in a maximum",
        lambda: wg.max_pool1d(cells("a", "b"), 2),
        wg.KindError,
        "max_pool: unsupported elements of type str; must be real numbers [max_pool1d(x: object(1, 2), kernel_size=2)]",
    ),
    Bad(
        "cells str in a convolution",
        lambda: wg.conv1d(cells("a", "b"), cells([1, 1])),
        wg.KindError,
        "conv: unsupported elements of type str; must be real numbers [conv1d(x: object(1, 2), weight: object(1, 1, 2))]",
    ),
    Bad(
        "cells complex in a maximum",
        lambda: wg.max_pool1d(cells(1j, 2), 2),
        wg.KindError,
        "max_pool: unsupported elements of type complex; must be real numbers [max_pool1d(x: object(1, 2), kernel_size=2)]",
    ),
    Bad(
        "cells that do not mix",
        lambda: wg.avg_pool1d(cells(Fraction(1), Decimal(1)), 2),
        wg.KindError,
        "avg_pool: cannot compute with elements of type Decimal, Fraction: unsupported operand type(s) for +: "
        "'Fraction' and 'decimal.Decimal'"
        " [avg_pool1d(x: object(1, 2), kernel_size=2)]",
    ),
    Bad(
        "cells without exp",
        lambda: wg.smooth_max_pool1d(cells(Fraction(1), Fraction(2)), 2, beta=1),
        wg.KindError,
        "Fraction has no exp: smooth max needs float, Decimal, mpmath.mpf or Dual; convert each Fraction"
        " [smooth_max_pool1d(x: object(1, 2), kernel_size=2, beta=1)]",
    ),
    Bad(
        "cells Decimal with a float beta",
        lambda: wg.smooth_max_pool1d(cells(Decimal(1), Decimal(2)), 2, beta=0.5),
        wg.KindError,
        "smooth_max_pool: cannot compute with elements of type Decimal: unsupported operand type(s) for *: 'float' and "
        "'decimal.Decimal'"
        " [smooth_max_pool1d(x: object(1, 2), kernel_size=2, beta=0.5)]",
    ),
]
