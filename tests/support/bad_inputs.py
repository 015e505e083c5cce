"""What is wrong, and what a user is told: a call, the error and its whole text. Here: windows, options and sizes.

Each text names the argument, its value, what it must be and the call. Sizes beyond 2²⁵⁶ are shown as a power of two.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import windowgrad as wg


@dataclass(frozen=True)
class Bad:
    """`call()` raises an `error` whose text is `text`."""

    id: str
    call: Callable[[], Any]
    error: type[wg.WindowgradError]
    text: str


X = np.zeros((3, 8, 8), np.float32)
ROW = np.zeros((1, 8))
WEIGHT = np.zeros((4, 3, 3, 3), np.float32)
TURNED = np.zeros((3, 4, 3, 3), np.float32)  # a weight of conv_transpose
HUGE = 10**5000


def in_words(count: int) -> str:
    power = (count.bit_length() - 1) // 10
    return f"{count / 1024**power:.1f} {('bytes', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB')[power]}"


MEMORY = in_words(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def cells(*values: Any) -> Any:
    """One row of objects."""
    return np.array([values], dtype=object)


CASES = [
    Bad(
        "rank-free function given an int kernel",
        lambda: wg.max_pool(X, 3),
        wg.KindError,
        "kernel_size=3: must be a tuple with one entry per axis; write (3, 3) for two axes, or call the 1d, 2d or 3d "
        "function"
        " [max_pool(x: float32(3, 8, 8), kernel_size=3)]",
    ),
    Bad(
        "rank-free function given an empty kernel",
        lambda: wg.max_pool(X, ()),
        wg.WindowError,
        "kernel_size=(): must have at least one entry [max_pool(x: float32(3, 8, 8), kernel_size=())]",
    ),
    Bad(
        "kernel of more axes than x",
        lambda: wg.max_pool(X, (2, 2, 2, 2)),
        wg.WindowError,
        "shape (3, 8, 8) has 3 axes: must have at least 4, one per axis of the window"
        " [max_pool(x: float32(3, 8, 8), kernel_size=(2, 2, 2, 2))]",
    ),
    Bad(
        "x of fewer axes than the function",
        lambda: wg.max_pool2d(ROW[0], 2),
        wg.WindowError,
        "shape (8,) has 1 axis: must have at least 2, one per axis of the window [max_pool2d(x: float64(8,), kernel_size=2)]",
    ),
    Bad(
        "kernel 0",
        lambda: wg.max_pool2d(X, 0),
        wg.WindowError,
        "kernel_size=0 on axis 0: must be at least 1 [max_pool2d(x: float32(3, 8, 8), kernel_size=0)]",
    ),
    Bad(
        "kernel negative",
        lambda: wg.avg_pool2d(X, (2, -1)),
        wg.WindowError,
        "kernel_size=-1 on axis 1: must be at least 1 [avg_pool2d(x: float32(3, 8, 8), kernel_size=(2, -1))]",
    ),
    Bad(
        "kernel float",
        lambda: wg.max_pool2d(X, 2.0),
        wg.KindError,
        "kernel_size=2.0 on axis 0: must be an integer, not float [max_pool2d(x: float32(3, 8, 8), kernel_size=2.0)]",
    ),
    Bad(
        "kernel bool",
        lambda: wg.max_pool2d(X, True),
        wg.KindError,
        "kernel_size=True on axis 0: must be an integer, not a bool [max_pool2d(x: float32(3, 8, 8), kernel_size=True)]",
    ),
    Bad(
        "kernel str",
        lambda: wg.max_pool2d(X, "3"),
        wg.KindError,
        "kernel_size='3' on axis 0: must be an integer, not str [max_pool2d(x: float32(3, 8, 8), kernel_size='3')]",
    ),
    Bad(
        "kernel None",
        lambda: wg.max_pool2d(X, None),
        wg.KindError,
        "kernel_size=None on axis 0: must be an integer, not NoneType [max_pool2d(x: float32(3, 8, 8), kernel_size=None)]",
    ),
    Bad(
        "kernel 10**30",
        lambda: wg.max_pool2d(X, 10**30),
        wg.WindowError,
        "kernel_size=1000000000000000000000000000000 on axis 0: the window covers 1000000000000000000000000000000 "
        "cells, the padded input has 8 (size 8, padding (0, 0), dilation 1)"
        " [max_pool2d(x: float32(3, 8, 8), kernel_size=1000000000000000000000000000000)]",
    ),
    Bad(
        "kernel 10**5000",
        lambda: wg.max_pool2d(X, HUGE),
        wg.WindowError,
        "kernel_size=2**16609… on axis 0: the window covers 2**16609… cells, the padded input has 8 (size 8, padding "
        "(0, 0), dilation 1)"
        " [max_pool2d(x: float32(3, 8, 8), kernel_size=2**16609…)]",
    ),
    Bad(
        "kernel of three entries in 2d",
        lambda: wg.max_pool2d(X, (3, 3, 3)),
        wg.WindowError,
        "kernel_size=(3, 3, 3): has 3 entries for 2 axes [max_pool2d(x: float32(3, 8, 8), kernel_size=(3, 3, 3))]",
    ),
    Bad(
        "kernel of one entry in 2d",
        lambda: wg.max_pool2d(X, (3,)),
        wg.WindowError,
        "kernel_size=(3,): has 1 entry for 2 axes [max_pool2d(x: float32(3, 8, 8), kernel_size=(3,))]",
    ),
    Bad(
        "kernel a set",
        lambda: wg.max_pool2d(X, {2, 3}),
        wg.KindError,
        "kernel_size={2, 3}: must be an integer or a tuple with one entry per axis, not set"
        " [max_pool2d(x: float32(3, 8, 8), kernel_size={2, 3})]",
    ),
    Bad(
        "kernel an array of floats",
        lambda: wg.max_pool2d(X, np.array([2, 2.5])),
        wg.KindError,
        "kernel_size=np.float64(2.0) on axis 0: must be an integer, not float64"
        " [max_pool2d(x: float32(3, 8, 8), kernel_size: float64(2,))]",
    ),
    Bad(
        "kernel larger than the input",
        lambda: wg.max_pool2d(X, (2, 9)),
        wg.WindowError,
        "kernel_size=9 on axis 1: the window covers 9 cells, the padded input has 8 (size 8, padding (0, 0), "
        "dilation 1)"
        " [max_pool2d(x: float32(3, 8, 8), kernel_size=(2, 9))]",
    ),
    Bad(
        "kernel dilated larger than the padded input",
        lambda: wg.max_pool2d(X, 5, padding=1, dilation=3),
        wg.WindowError,
        "kernel_size=5 on axis 0: the window covers 13 cells, the padded input has 10 (size 8, padding (1, 1), "
        "dilation 3)"
        " [max_pool2d(x: float32(3, 8, 8), kernel_size=5, padding=1, dilation=3)]",
    ),
    Bad(
        "stride 0",
        lambda: wg.max_pool2d(X, 2, 0),
        wg.WindowError,
        "stride=0 on axis 0: must be at least 1 [max_pool2d(x: float32(3, 8, 8), kernel_size=2, stride=0)]",
    ),
    Bad(
        "stride negative",
        lambda: wg.smooth_max_pool2d(X, 2, -1, beta=1.0),
        wg.WindowError,
        "stride=-1 on axis 0: must be at least 1 [smooth_max_pool2d(x: float32(3, 8, 8), kernel_size=2, stride=-1, beta=1.0)]",
    ),
    Bad(
        "stride float",
        lambda: wg.avg_pool2d(X, 2, (1, 1.5)),
        wg.KindError,
        "stride=1.5 on axis 1: must be an integer, not float [avg_pool2d(x: float32(3, 8, 8), kernel_size=2, stride=(1, 1.5))]",
    ),
    Bad(
        "stride str",
        lambda: wg.max_pool2d(X, 2, "same"),
        wg.KindError,
        "stride='same' on axis 0: must be an integer, not str [max_pool2d(x: float32(3, 8, 8), kernel_size=2, stride='same')]",
    ),
    Bad(
        "stride of three entries in 2d",
        lambda: wg.max_pool2d(X, 2, (1, 2, 3)),
        wg.WindowError,
        "stride=(1, 2, 3): has 3 entries for 2 axes [max_pool2d(x: float32(3, 8, 8), kernel_size=2, stride=(1, 2, 3))]",
    ),
    Bad(
        "padding negative",
        lambda: wg.max_pool2d(X, 2, padding=(0, -1)),
        wg.WindowError,
        "padding=-1 on axis 1: must not be negative [max_pool2d(x: float32(3, 8, 8), kernel_size=2, padding=(0, -1))]",
    ),
    Bad(
        "padding pair with a negative",
        lambda: wg.max_pool2d(X, 2, padding=((0, -1), 0)),
        wg.WindowError,
        "padding=(0, -1) on axis 0: must not be negative"
        " [max_pool2d(x: float32(3, 8, 8), kernel_size=2, padding=((0, -1), 0))]",
    ),
    Bad(
        "padding float",
        lambda: wg.max_pool2d(X, 2, padding=((0, 0.5), 0)),
        wg.KindError,
        "padding=(0, 0.5) on axis 0: must be an integer, not float"
        " [max_pool2d(x: float32(3, 8, 8), kernel_size=2, padding=((0, 0.5), 0))]",
    ),
    Bad(
        "padding bool",
        lambda: wg.max_pool2d(X, 2, padding=True),
        wg.KindError,
        "padding=True on axis 0: must be an integer, not a bool [max_pool2d(x: float32(3, 8, 8), kernel_size=2, padding=True)]",
    ),
    Bad(
        "padding an unknown word for pooling",
        lambda: wg.max_pool2d(X, 2, padding="full"),
        wg.WindowError,
        'padding=\'full\': must be "valid", "same", an integer, or one entry per axis'
        " [max_pool2d(x: float32(3, 8, 8), kernel_size=2, padding='full')]",
    ),
    Bad(
        'padding "same" with the stride of pooling',
        lambda: wg.max_pool2d(X, 2, padding="same"),
        wg.WindowError,
        'padding="same": stride must be 1 on every axis, not None, which is kernel_size=(2, 2)'
        " [max_pool2d(x: float32(3, 8, 8), kernel_size=2, padding='same')]",
    ),
    Bad(
        "padding triple",
        lambda: wg.max_pool2d(X, 2, padding=((1, 2, 3), 0)),
        wg.WindowError,
        "padding=(1, 2, 3) on axis 0: must be an integer or a (before, after) pair"
        " [max_pool2d(x: float32(3, 8, 8), kernel_size=2, padding=((1, 2, 3), 0))]",
    ),
    Bad(
        "padding pairs written flat",
        lambda: wg.max_pool2d(X, 2, padding=(1, 1, 1, 1)),
        wg.WindowError,
        "padding=(1, 1, 1, 1): has 4 entries for 2 axes [max_pool2d(x: float32(3, 8, 8), kernel_size=2, padding=(1, 1, 1, 1))]",
    ),
    Bad(
        "padding pair written flat in 1d",
        lambda: wg.max_pool1d(ROW, 2, padding=(1, 2)),
        wg.WindowError,
        "padding=(1, 2): has 2 entries for 1 axis; for a (before, after) pair write ((before, after),)"
        " [max_pool1d(x: float64(1, 8), kernel_size=2, padding=(1, 2))]",
    ),
    Bad(
        "padding 10**9",
        lambda: wg.max_pool2d(X, 2, padding=10**9),
        wg.WindowError,
        f"output of shape (3, 1000000004, 1000000004): needs 10.4 EiB, this machine has {MEMORY} of memory"
        " [max_pool2d(x: float32(3, 8, 8), kernel_size=2, padding=1000000000)]",
    ),
    Bad(
        "padding 10**5000",
        lambda: wg.avg_pool2d(X, 2, padding=HUGE),
        wg.WindowError,
        f"output of shape (3, 2**16609…, 2**16609…): needs over 1048576 EiB, this machine has {MEMORY} of memory"
        " [avg_pool2d(x: float32(3, 8, 8), kernel_size=2, padding=2**16609…)]",
    ),
    Bad(
        "dilation 0",
        lambda: wg.max_pool2d(X, 2, dilation=0),
        wg.WindowError,
        "dilation=0 on axis 0: must be at least 1 [max_pool2d(x: float32(3, 8, 8), kernel_size=2, dilation=0)]",
    ),
    Bad(
        "dilation negative",
        lambda: wg.avg_pool2d(X, 2, dilation=-1),
        wg.WindowError,
        "dilation=-1 on axis 0: must be at least 1 [avg_pool2d(x: float32(3, 8, 8), kernel_size=2, dilation=-1)]",
    ),
    Bad(
        "dilation 10**30",
        lambda: wg.max_pool2d(X, 2, dilation=10**30),
        wg.WindowError,
        "kernel_size=2 on axis 0: the window covers 1000000000000000000000000000001 cells, the padded input has 8 "
        "(size 8, padding (0, 0), dilation 1000000000000000000000000000000)"
        " [max_pool2d(x: float32(3, 8, 8), kernel_size=2, dilation=1000000000000000000000000000000)]",
    ),
    Bad(
        "dilation 10**5000",
        lambda: wg.max_pool2d(X, 2, dilation=HUGE),
        wg.WindowError,
        "kernel_size=2 on axis 0: the window covers 2**16609… cells, the padded input has 8 (size 8, padding (0, 0), "
        "dilation 2**16609…)"
        " [max_pool2d(x: float32(3, 8, 8), kernel_size=2, dilation=2**16609…)]",
    ),
]
