"""What is wrong with padding, shapes, records and the rules of an operator, and what a user is told."""

from __future__ import annotations

import numpy as np

import windowgrad as wg
from support.bad_inputs import MEMORY, ROW, TURNED, WEIGHT, Bad, X
from windowgrad.geometry import Adaptive, Global, Sliding
from windowgrad.ops import OPS
from windowgrad.params import ConvParams, MaxParams, MeanParams, PadParams, SmoothParams, TransposeParams, UnpadParams

CASES = [
    Bad(
        "unpad more than there is",
        lambda: wg.unpad(X, (4, 4)),
        wg.WindowError,
        "padding=(4, 4) on axis 0: leaves size 0 of 8, must leave at least 1 [unpad(x: float32(3, 8, 8), padding=(4, 4))]",
    ),
    Bad(
        "unpad a negative padding",
        lambda: wg.unpad(X, ((0, -1),)),
        wg.WindowError,
        "padding=(0, -1) on axis 0: must not be negative [unpad(x: float32(3, 8, 8), padding=((0, -1),))]",
    ),
    Bad(
        "unpad more axes than there are",
        lambda: wg.unpad(ROW, (1, 1, 1)),
        wg.WindowError,
        "padding=((1, 1), (1, 1), (1, 1)): has 3 entries, but shape (1, 8) has only 2 axes"
        " [unpad(x: float64(1, 8), padding=(1, 1, 1))]",
    ),
    Bad(
        "pad an int for any rank",
        lambda: wg.pad(X, 1),
        wg.KindError,
        "padding=1: must be a tuple with one entry per axis; write (1, 1) for two axes [pad(x: float32(3, 8, 8), padding=1)]",
    ),
    Bad(
        "pad by an unknown mode",
        lambda: wg.pad(X, (1, 1), "wrap"),
        wg.OptionError,
        "mode='wrap': must be one of 'constant', 'reflect', 'replicate', 'circular'"
        " [pad(x: float32(3, 8, 8), padding=(1, 1), mode='wrap')]",
    ),
    Bad(
        "pad a value that the dtype cannot hold",
        lambda: wg.pad(np.ones((2, 2), np.int8), (1, 1), value=200),
        wg.OptionError,
        "value=200: must be an integer from -128 to 127 for x of dtype int8 [pad(x: int8(2, 2), padding=(1, 1), value=200)]",
    ),
    Bad(
        "pad half a value around integers",
        lambda: wg.pad(np.ones((2, 2), bool), (1, 1), value=0.5),
        wg.OptionError,
        "value=0.5: must be an integer from 0 to 1 for x of dtype bool [pad(x: bool(2, 2), padding=(1, 1), value=0.5)]",
    ),
    Bad(
        "pad a value with a mode that has none",
        lambda: wg.pad(X, (1, 1), "reflect", 2),
        wg.OptionError,
        'value=2: has no meaning with mode="reflect"; it is for mode="constant"'
        " [pad(x: float32(3, 8, 8), padding=(1, 1), mode='reflect', value=2)]",
    ),
    Bad(
        "pad a text",
        lambda: wg.pad(X, (1, 1), value="1"),
        wg.KindError,
        "value='1': must be a real number, not str [pad(x: float32(3, 8, 8), padding=(1, 1), value='1')]",
    ),
    Bad(
        "pad around nothing",
        lambda: wg.pad(np.ones((2, 0)), (1,), "circular"),
        wg.WindowError,
        "size=0 on axis 0: must be at least 1 [pad(x: float64(2, 0), padding=(1,), mode='circular')]",
    ),
    Bad(
        "unpool to a place that is not there",
        lambda: wg.max_unpool1d(ROW, np.array([[0, 1, 2, 3, 16, 5, 6, 7]]), 2),
        wg.WindowError,
        "indices[0, 4]=16: must be -1 or from 0 to 15, an index into the output plane (16,)"
        " [max_unpool1d(x: float64(1, 8), indices: int64(1, 8), kernel_size=2)]",
    ),
    Bad(
        "unpool to a negative place",
        lambda: wg.max_unpool(ROW.astype(object), np.full((1, 8), -2), (2,)),
        wg.WindowError,
        "indices[0, 0]=-2: must be -1 or from 0 to 15, an index into the output plane (16,)"
        " [max_unpool(x: object(1, 8), indices: int64(1, 8), kernel_size=(2,))]",
    ),
    Bad(
        "unpool with indices of another shape",
        lambda: wg.max_unpool1d(ROW, np.zeros((1, 7), int), 2),
        wg.WindowError,
        "indices of shape (1, 7): must be (1, 8), the shape of x"
        " [max_unpool1d(x: float64(1, 8), indices: int64(1, 7), kernel_size=2)]",
    ),
    Bad(
        "unpool with indices that are floats",
        lambda: wg.max_unpool1d(ROW, np.zeros((1, 8)), 2),
        wg.KindError,
        "indices: unsupported dtype float64; must be integers"
        " [max_unpool1d(x: float64(1, 8), indices: float64(1, 8), kernel_size=2)]",
    ),
    Bad(
        "unpool to another batch",
        lambda: wg.max_unpool1d(ROW, np.zeros((1, 8), int), 2, output_size=(2, 16)),
        wg.WindowError,
        "output_size=(2, 16): must begin with (1,), the leading axes of x"
        " [max_unpool1d(x: float64(1, 8), indices: int64(1, 8), kernel_size=2, output_size=(2, 16))]",
    ),
    Bad(
        "unpool with unknown duplicates",
        lambda: wg.max_unpool1d(ROW, np.zeros((1, 8), int), 2, duplicates="first"),
        wg.OptionError,
        "duplicates='first': must be one of 'last', 'add'"
        " [max_unpool1d(x: float64(1, 8), indices: int64(1, 8), kernel_size=2, duplicates='first')]",
    ),
    Bad(
        "unpool with more padding than there is",
        lambda: wg.max_unpool1d(ROW[:, :1], np.zeros((1, 1), int), 2, padding=1),
        wg.WindowError,
        "padding=(1, 1) on axis 0: gives an output of size 0, must be at least 1"
        " [max_unpool1d(x: float64(1, 1), indices: int64(1, 1), kernel_size=2, padding=1)]",
    ),
    Bad(
        "pad a word",
        lambda: wg.pad(X, "same"),
        wg.KindError,
        "padding='same': must be a tuple with one entry per axis, not str [pad(x: float32(3, 8, 8), padding='same')]",
    ),
    Bad(
        "pad a triple",
        lambda: wg.pad(X, ((1, 2, 3),)),
        wg.WindowError,
        "padding=(1, 2, 3) on axis 0: must be an integer or a (before, after) pair"
        " [pad(x: float32(3, 8, 8), padding=((1, 2, 3),))]",
    ),
    Bad(
        "pad 10**30",
        lambda: wg.pad(X, (10**30,)),
        wg.WindowError,
        f"output of shape (3, 8, 2000000000000000000000000000008): needs over 1048576 EiB, this machine has {MEMORY} "
        "of memory"
        " [pad(x: float32(3, 8, 8), padding=(1000000000000000000000000000000,))]",
    ),
    Bad(
        "pool_out_shape of an int",
        lambda: wg.pool_out_shape(8, (3,)),
        wg.KindError,
        "spatial=8: must be a tuple with one entry per axis; write (8, 8) for two axes"
        " [pool_out_shape(spatial=8, kernel_size=(3,))]",
    ),
    Bad(
        "pool_out_shape of a float size",
        lambda: wg.pool_out_shape((8.0,), (3,)),
        wg.KindError,
        "spatial=8.0 on axis 0: must be an integer, not float [pool_out_shape(spatial=(8.0,), kernel_size=(3,))]",
    ),
    Bad(
        "pool_out_shape of size 0",
        lambda: wg.pool_out_shape((0,), (1,)),
        wg.WindowError,
        "size=0 on axis 0: must be at least 1 [pool_out_shape(spatial=(0,), kernel_size=(1,))]",
    ),
    Bad(
        "pool_out_shape of a negative size",
        lambda: wg.pool_out_shape((2, -8), (3,)),
        wg.WindowError,
        "spatial=-8 on axis 1: must not be negative [pool_out_shape(spatial=(2, -8), kernel_size=(3,))]",
    ),
    Bad(
        "pool_out_shape of a window too large",
        lambda: wg.pool_out_shape((8,), (9,)),
        wg.WindowError,
        "kernel_size=9 on axis 0: the window covers 9 cells, the padded input has 8 (size 8, padding (0, 0), "
        "dilation 1)"
        " [pool_out_shape(spatial=(8,), kernel_size=(9,))]",
    ),
    Bad(
        "conv_out_shape of one axis too many",
        lambda: wg.conv_out_shape((8, 8), (3,)),
        wg.WindowError,
        "spatial=(8, 8): has 2 entries for 1 axis [conv_out_shape(spatial=(8, 8), kernel_size=(3,))]",
    ),
    Bad(
        "conv_out_shape stride None",
        lambda: wg.conv_out_shape((8,), (3,), stride=None),
        wg.KindError,
        "stride=None on axis 0: must be an integer, not NoneType [conv_out_shape(spatial=(8,), kernel_size=(3,), stride=None)]",
    ),
    Bad(
        "conv_transpose_out_shape stride None",
        lambda: wg.conv_transpose_out_shape((8,), (3,), stride=None),
        wg.KindError,
        "stride=None on axis 0: must be an integer, not NoneType"
        " [conv_transpose_out_shape(spatial=(8,), kernel_size=(3,), stride=None)]",
    ),
    Bad(
        "conv_transpose_out_shape that leaves nothing",
        lambda: wg.conv_transpose_out_shape((1,), (3,), padding=2),
        wg.WindowError,
        "padding=(2, 2) on axis 0: gives an output of size -1, must be at least 1"
        " [conv_transpose_out_shape(spatial=(1,), kernel_size=(3,), padding=2)]",
    ),
    Bad(
        "adaptive_bins of nothing",
        lambda: wg.adaptive_bins(0, 3),
        wg.WindowError,
        "n=0: must be at least 1 [adaptive_bins(n=0, m=3)]",
    ),
    Bad(
        "adaptive_bins to None",
        lambda: wg.adaptive_bins(3, None),
        wg.KindError,
        "m=None: must be an integer, not NoneType [adaptive_bins(n=3, m=None)]",
    ),
    Bad(
        "adaptive_bins to 10**30",
        lambda: wg.adaptive_bins(8, 10**30),
        wg.WindowError,
        "an axis with 1000000000000000000000000000000 outputs: its table of windows does not fit into memory "
        f"({MEMORY})"
        " [adaptive_bins(n=8, m=1000000000000000000000000000000)]",
    ),
    Bad(
        "vjp with a gradient of the wrong shape",
        lambda: OPS["max_pool"].vjp(MaxParams(Sliding((2, 2))), X, X),
        wg.WindowError,
        "g of shape (3, 8, 8): must be (3, 4, 4), the shape of the output",
    ),
    Bad(
        "vjp without a gradient",
        lambda: OPS["avg_pool"].vjp(MeanParams(Sliding((2, 2))), X),
        wg.KindError,
        "avg_pool.vjp: got 1 array, must be given x, g",
    ),
    Bad(
        "vjp with two gradients",
        lambda: OPS["max_pool"].vjp(MaxParams(Sliding((2, 2))), X, X, X),
        wg.KindError,
        "max_pool.vjp: got 3 arrays, must be given x, g",
    ),
    Bad(
        "vjp with a list",
        lambda: OPS["avg_pool"].vjp(MeanParams(Sliding((8, 8))), X, [[[1]]] * 3),
        wg.KindError,
        "g: must be a NumPy array, not list; try numpy.asarray(g)",
    ),
    Bad(
        "vjp with a complex gradient",
        lambda: OPS["avg_pool"].vjp(MeanParams(Global(2)), X, np.zeros((3, 1, 1), complex)),
        wg.KindError,
        "g: unsupported dtype complex128; must be bool, int8 to int64, uint8 to uint64, float16, float32, float64, or object",
    ),
    Bad(
        "jvp with a tangent of the wrong shape",
        lambda: OPS["conv"].jvp(ConvParams(Sliding((3, 3))), X, WEIGHT, X, WEIGHT[:1]),
        wg.WindowError,
        "dweight of shape (1, 3, 3, 3): must be (4, 3, 3, 3), the shape of weight",
    ),
    Bad(
        "jvp with a tangent missing",
        lambda: OPS["conv"].jvp(ConvParams(Sliding((3, 3))), X, WEIGHT, X),
        wg.KindError,
        "conv.jvp: got 3 arrays, must be given x, weight, bias, dx, dweight, dbias",
    ),
    Bad(
        "forward without arrays",
        lambda: OPS["smooth_max_pool"].forward(SmoothParams(Global(1), 1.0)),
        wg.KindError,
        "smooth_max_pool.forward: got 0 arrays, must be given x",
    ),
    Bad(
        "forward without a weight",
        lambda: OPS["conv"].forward(ConvParams(Sliding((3, 3))), X),
        wg.KindError,
        "conv.forward: got 1 array, must be given x, weight, bias",
    ),
    Bad(
        "a window that is not the weight's",
        lambda: OPS["conv"].forward(ConvParams(Sliding((2, 2))), X, WEIGHT),
        wg.WindowError,
        "weight of shape (4, 3, 3, 3): its window is (3, 3), must be kernel_size=(2, 2)",
    ),
    Bad(
        "params of another operator",
        lambda: OPS["max_pool"].forward(MeanParams(Global(2)), X),
        wg.KindError,
        "params=MeanParams(geometry=Global(rank=2, keepdims=True), count_include_pad=True, divisor_override=None): "
        "must be MaxParams for max_pool",
    ),
    Bad(
        "params that are a class",
        lambda: OPS["max_pool"].forward(MaxParams, X),
        wg.KindError,
        "params=<class 'windowgrad.params.MaxParams'>: must be MaxParams for max_pool",
    ),
    Bad(
        "params of the adjoint of conv",
        lambda: OPS["conv"].forward(TransposeParams(Sliding((3, 3))), X, TURNED),
        wg.KindError,
        "params=TransposeParams(window=Sliding(kernel=(3, 3), stride=(3, 3), padding=((0, 0), (0, 0)), dilation=(1, "
        "1), ceil_mode=(False, False)), groups=1, output_padding=(0, 0)): must be ConvParams for conv",
    ),
    Bad(
        "params of the adjoint of pad",
        lambda: OPS["pad"].forward(UnpadParams((1,)), X),
        wg.KindError,
        "params=UnpadParams(padding=((1, 1),)): must be PadParams for pad",
    ),
    Bad(
        "params of the adjoint of unpad",
        lambda: OPS["unpad"].forward(PadParams((1,)), X),
        wg.KindError,
        "params=PadParams(padding=((1, 1),)): must be UnpadParams for unpad",
    ),
    Bad(
        "a record without geometry",
        lambda: MaxParams((2, 2)),
        wg.KindError,
        "geometry=(2, 2): must be Sliding, Adaptive or Global",
    ),
    Bad(
        "a record of conv without windows",
        lambda: ConvParams(Global(2)),
        wg.KindError,
        "window=Global(rank=2, keepdims=True): must be a Sliding geometry",
    ),
    Bad(
        "a record with beta 0",
        lambda: SmoothParams(Global(1), 0),
        wg.OptionError,
        "beta=0: must not be zero; the smooth maximum tends to infinity there",
    ),
    Bad(
        "a record with divisor 0",
        lambda: MeanParams(Global(1), divisor_override=0),
        wg.WindowError,
        "divisor_override=0: must be at least 1",
    ),
    Bad(
        "Sliding with two ceil modes for one axis",
        lambda: Sliding((3,), ceil_mode=(True, False)),
        wg.WindowError,
        "ceil_mode=(True, False): has 2 entries for 1 axis",
    ),
    Bad(
        "Adaptive to nothing",
        lambda: Adaptive(()),
        wg.WindowError,
        "output_size=(): must have at least one entry",
    ),
    Bad(
        "Global of no axes",
        lambda: Global(0),
        wg.WindowError,
        "rank=0: must be at least 1",
    ),
]
