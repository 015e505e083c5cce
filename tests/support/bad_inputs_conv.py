"""What is wrong with a convolution, and what a user is told."""

from __future__ import annotations

import numpy as np
import torch

import windowgrad as wg
from support.bad_inputs import HUGE, MEMORY, TURNED, WEIGHT, Bad, X

CASES = [
    Bad(
        "weight of rank 2",
        lambda: wg.conv(X, WEIGHT[0, 0]),
        wg.WindowError,
        "weight of shape (3, 3): must have at least 3 axes, two for channels and one per axis of the window"
        " [conv(x: float32(3, 8, 8), weight: float32(3, 3))]",
    ),
    Bad(
        "weight of rank 3 in conv2d",
        lambda: wg.conv2d(X, WEIGHT[0]),
        wg.WindowError,
        "weight of shape (3, 3, 3): must have 4 axes, two for channels and one per axis of the window"
        " [conv2d(x: float32(3, 8, 8), weight: float32(3, 3, 3))]",
    ),
    Bad(
        "weight a list",
        lambda: wg.conv2d(X, [[1.0]]),
        wg.KindError,
        "weight: must be an array, not list; write numpy.asarray(...) [conv2d(x: float32(3, 8, 8), weight=[[1.0]])]",
    ),
    Bad(
        "weight None",
        lambda: wg.conv2d(X, None),
        wg.KindError,
        "weight: must be an array, not NoneType; write numpy.asarray(...) [conv2d(x: float32(3, 8, 8), weight=None)]",
    ),
    Bad(
        "weight a tensor beside an array",
        lambda: wg.conv2d(X, torch.zeros(4, 3, 3, 3)),
        wg.KindError,
        "x: must be a tensor like the others, not ndarray; call torch.as_tensor(x)"
        " [conv2d(x: float32(3, 8, 8), weight: torch.float32(4, 3, 3, 3))]",
    ),
    Bad(
        "weight masked",
        lambda: wg.conv2d(X, np.ma.masked_equal(WEIGHT, 1)),
        wg.KindError,
        "weight: must not be a masked array, which only pooling takes; "
        "fill it with what masked elements should count as, such as weight.filled(0)"
        " [conv2d(x: float32(3, 8, 8), weight: float32(4, 3, 3, 3))]",
    ),
    Bad(
        "weight with an axis of length 0",
        lambda: wg.conv2d(X, WEIGHT[..., :0]),
        wg.WindowError,
        "kernel_size=0 on axis 1: must be at least 1 [conv2d(x: float32(3, 8, 8), weight: float32(4, 3, 3, 0))]",
    ),
    Bad(
        "x None for conv",
        lambda: wg.conv2d(None, WEIGHT),
        wg.KindError,
        "x: must be a NumPy array, not NoneType; try numpy.asarray(x) [conv2d(x=None, weight: float32(4, 3, 3, 3))]",
    ),
    Bad(
        "x None for conv_transpose with a bias",
        lambda: wg.conv_transpose2d(None, TURNED, np.zeros(4)),
        wg.KindError,
        "x: must be a NumPy array, not NoneType; try numpy.asarray(x)"
        " [conv_transpose2d(x=None, weight: float32(3, 4, 3, 3), bias: float64(4,))]",
    ),
    Bad(
        "x without channels",
        lambda: wg.conv2d(X[0], WEIGHT),
        wg.WindowError,
        "x of shape (8, 8): must have at least 3 axes (channels and 2 for the window)"
        " [conv2d(x: float32(8, 8), weight: float32(4, 3, 3, 3))]",
    ),
    Bad(
        "x smaller than the window",
        lambda: wg.conv2d(X[..., :2], WEIGHT),
        wg.WindowError,
        "kernel_size=3 on axis 1: the window covers 3 cells, the padded input has 2 (size 2, padding (0, 0), "
        "dilation 1)"
        " [conv2d(x: float32(3, 8, 2), weight: float32(4, 3, 3, 3))]",
    ),
    Bad(
        "x of conv with a spatial axis of length 0",
        lambda: wg.conv2d(X[..., :0], WEIGHT),
        wg.WindowError,
        "size=0 on axis 1: must be at least 1 [conv2d(x: float32(3, 8, 0), weight: float32(4, 3, 3, 3))]",
    ),
    Bad(
        "channels that do not match",
        lambda: wg.conv2d(X[:2], WEIGHT),
        wg.WindowError,
        "weight of shape (4, 3, 3, 3) with groups=1 expects 3 channels, but x of shape (2, 8, 8) has 2"
        " [conv2d(x: float32(2, 8, 8), weight: float32(4, 3, 3, 3))]",
    ),
    Bad(
        "channels that do not match transposed",
        lambda: wg.conv_transpose2d(X, WEIGHT),
        wg.WindowError,
        "weight of shape (4, 3, 3, 3) expects 4 channels, but x of shape (3, 8, 8) has 3"
        " [conv_transpose2d(x: float32(3, 8, 8), weight: float32(4, 3, 3, 3))]",
    ),
    Bad(
        "groups that do not divide the input channels",
        lambda: wg.conv2d(X, WEIGHT, groups=2),
        wg.WindowError,
        "weight of shape (4, 3, 3, 3) with groups=2 expects 6 channels, but x of shape (3, 8, 8) has 3"
        " [conv2d(x: float32(3, 8, 8), weight: float32(4, 3, 3, 3), groups=2)]",
    ),
    Bad(
        "groups that do not divide the output channels",
        lambda: wg.conv2d(X, WEIGHT[:, :1], groups=3),
        wg.WindowError,
        "groups=3: must divide the 4 output channels of weight (4, 1, 3, 3)"
        " [conv2d(x: float32(3, 8, 8), weight: float32(4, 1, 3, 3), groups=3)]",
    ),
    Bad(
        "groups that do not divide the input channels transposed",
        lambda: wg.conv_transpose2d(X, TURNED, groups=2),
        wg.WindowError,
        "groups=2: must divide the 3 input channels of weight (3, 4, 3, 3)"
        " [conv_transpose2d(x: float32(3, 8, 8), weight: float32(3, 4, 3, 3), groups=2)]",
    ),
    Bad(
        "groups 0",
        lambda: wg.conv2d(X, WEIGHT, groups=0),
        wg.WindowError,
        "groups=0: must be at least 1 [conv2d(x: float32(3, 8, 8), weight: float32(4, 3, 3, 3), groups=0)]",
    ),
    Bad(
        "groups float",
        lambda: wg.conv2d(X, WEIGHT, groups=1.0),
        wg.KindError,
        "groups=1.0: must be an integer, not float [conv2d(x: float32(3, 8, 8), weight: float32(4, 3, 3, 3), groups=1.0)]",
    ),
    Bad(
        "groups 10**5000",
        lambda: wg.conv2d(X, WEIGHT, groups=HUGE),
        wg.WindowError,
        "weight of shape (4, 3, 3, 3) with groups=2**16609… expects 2**16611… channels, but x of shape (3, 8, 8) has 3"
        " [conv2d(x: float32(3, 8, 8), weight: float32(4, 3, 3, 3), groups=2**16609…)]",
    ),
    Bad(
        "bias of the wrong length",
        lambda: wg.conv2d(X, WEIGHT, np.zeros(3)),
        wg.WindowError,
        "bias of shape (3,): must be (4,), one entry per output channel"
        " [conv2d(x: float32(3, 8, 8), weight: float32(4, 3, 3, 3), bias: float64(3,))]",
    ),
    Bad(
        "bias of the wrong rank",
        lambda: wg.conv_transpose2d(X, TURNED, np.zeros((4, 1))),
        wg.WindowError,
        "bias of shape (4, 1): must be (4,), one entry per output channel"
        " [conv_transpose2d(x: float32(3, 8, 8), weight: float32(3, 4, 3, 3), bias: float64(4, 1))]",
    ),
    Bad(
        "bias a number",
        lambda: wg.conv2d(X, WEIGHT, 1.0),
        wg.KindError,
        "bias: must be a NumPy array, not float; try numpy.asarray(bias)"
        " [conv2d(x: float32(3, 8, 8), weight: float32(4, 3, 3, 3), bias=1.0)]",
    ),
    Bad(
        "conv stride None",
        lambda: wg.conv2d(X, WEIGHT, stride=None),
        wg.KindError,
        "stride=None on axis 0: must be an integer, not NoneType"
        " [conv2d(x: float32(3, 8, 8), weight: float32(4, 3, 3, 3), stride=None)]",
    ),
    Bad(
        "conv dilation 10**30",
        lambda: wg.conv2d(X, WEIGHT, dilation=10**30),
        wg.WindowError,
        "kernel_size=3 on axis 0: the window covers 2000000000000000000000000000001 cells, the padded input has 8 "
        "(size 8, padding (0, 0), dilation 1000000000000000000000000000000)"
        " [conv2d(x: float32(3, 8, 8), weight: float32(4, 3, 3, 3), dilation=1000000000000000000000000000000)]",
    ),
    Bad(
        "conv padding an unknown word",
        lambda: wg.conv2d(X, WEIGHT, padding="full"),
        wg.WindowError,
        'padding=\'full\': must be "valid", "same", an integer, or one entry per axis'
        " [conv2d(x: float32(3, 8, 8), weight: float32(4, 3, 3, 3), padding='full')]",
    ),
    Bad(
        'conv padding "same" with stride 2',
        lambda: wg.conv2d(X, WEIGHT, stride=(1, 2), padding="same"),
        wg.WindowError,
        'padding="same": stride must be 1 on every axis, not (1, 2)'
        " [conv2d(x: float32(3, 8, 8), weight: float32(4, 3, 3, 3), stride=(1, 2), padding='same')]",
    ),
    Bad(
        'conv padding "same" with stride 10**5000',
        lambda: wg.conv2d(X, WEIGHT, stride=HUGE, padding="same"),
        wg.WindowError,
        'padding="same": stride must be 1 on every axis, not 2**16609…'
        " [conv2d(x: float32(3, 8, 8), weight: float32(4, 3, 3, 3), stride=2**16609…, padding='same')]",
    ),
    Bad(
        "conv padding 10**30",
        lambda: wg.conv2d(X, WEIGHT, padding=10**30),
        wg.WindowError,
        "output of shape (4, 2000000000000000000000000000006, 2000000000000000000000000000006): needs over 1048576 "
        f"EiB, this machine has {MEMORY} of memory"
        " [conv2d(x: float32(3, 8, 8), weight: float32(4, 3, 3, 3), padding=1000000000000000000000000000000)]",
    ),
    Bad(
        'conv_transpose padding "same"',
        lambda: wg.conv_transpose2d(X, TURNED, padding="same"),
        wg.KindError,
        "padding='same': must be an integer or one entry per axis"
        " [conv_transpose2d(x: float32(3, 8, 8), weight: float32(3, 4, 3, 3), padding='same')]",
    ),
    Bad(
        "conv_transpose padding that leaves nothing",
        lambda: wg.conv_transpose2d(X, TURNED, padding=(0, 5)),
        wg.WindowError,
        "padding=(5, 5) on axis 1: gives an output of size 0, must be at least 1"
        " [conv_transpose2d(x: float32(3, 8, 8), weight: float32(3, 4, 3, 3), padding=(0, 5))]",
    ),
    Bad(
        "conv_transpose stride 10**5000",
        lambda: wg.conv_transpose2d(X, TURNED, stride=HUGE),
        wg.WindowError,
        f"output of shape (4, 2**16612…, 2**16612…): needs over 1048576 EiB, this machine has {MEMORY} of memory"
        " [conv_transpose2d(x: float32(3, 8, 8), weight: float32(3, 4, 3, 3), stride=2**16609…)]",
    ),
    Bad(
        "output_padding as large as stride and dilation",
        lambda: wg.conv_transpose2d(X, TURNED, stride=2, dilation=3, output_padding=3),
        wg.WindowError,
        "output_padding=3 on axis 0: must be smaller than the stride (2) or the dilation (3)"
        " [conv_transpose2d(x: float32(3, 8, 8), weight: float32(3, 4, 3, 3), stride=2, output_padding=3, "
        "dilation=3)]",
    ),
    Bad(
        "output_padding float",
        lambda: wg.conv_transpose2d(X, TURNED, stride=2, output_padding=1.0),
        wg.KindError,
        "output_padding=1.0 on axis 0: must be an integer, not float"
        " [conv_transpose2d(x: float32(3, 8, 8), weight: float32(3, 4, 3, 3), stride=2, output_padding=1.0)]",
    ),
    Bad(
        "output_padding None",
        lambda: wg.conv_transpose2d(X, TURNED, stride=2, output_padding=None),
        wg.KindError,
        "output_padding=None on axis 0: must be an integer, not NoneType"
        " [conv_transpose2d(x: float32(3, 8, 8), weight: float32(3, 4, 3, 3), stride=2, output_padding=None)]",
    ),
    Bad(
        "output_padding of three entries in 2d",
        lambda: wg.conv_transpose2d(X, TURNED, stride=2, output_padding=(1, 1, 1)),
        wg.WindowError,
        "output_padding=(1, 1, 1): has 3 entries for 2 axes"
        " [conv_transpose2d(x: float32(3, 8, 8), weight: float32(3, 4, 3, 3), stride=2, output_padding=(1, 1, 1))]",
    ),
    Bad(
        "output_padding 10**5000",
        lambda: wg.conv_transpose2d(X, TURNED, stride=HUGE, output_padding=HUGE),
        wg.WindowError,
        "output_padding=2**16609… on axis 0: must be smaller than the stride (2**16609…) or the dilation (1)"
        " [conv_transpose2d(x: float32(3, 8, 8), weight: float32(3, 4, 3, 3), stride=2**16609…, "
        "output_padding=2**16609…)]",
    ),
    Bad(
        "integers whose sum may overflow",
        lambda: wg.conv1d(np.full((1, 8), 2**62), np.full((1, 1, 2), 2)),
        wg.WindowError,
        "x: int64 and weight: int64: a sum of 2 products may reach 18446744073709551616, more than int64 holds; use "
        "floats, or x.astype(object) for exact integers of any size"
        " [conv1d(x: int64(1, 8), weight: int64(1, 1, 2))]",
    ),
    Bad(
        "one integer product that may overflow",
        lambda: wg.conv_transpose1d(np.full((1, 8), 2**62), np.full((1, 1, 1), 4)),
        wg.WindowError,
        "x: int64 and weight: int64: a sum of 1 product may reach 18446744073709551616, more than int64 holds; use "
        "floats, or x.astype(object) for exact integers of any size"
        " [conv_transpose1d(x: int64(1, 8), weight: int64(1, 1, 1))]",
    ),
]
