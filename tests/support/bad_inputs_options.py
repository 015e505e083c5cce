"""What is wrong with options, and what a user is told."""

from __future__ import annotations

import numpy as np

import windowgrad as wg
from support.bad_inputs import HUGE, MEMORY, ROW, Bad, X

CASES = [
    Bad(
        "ceil_mode 1",
        lambda: wg.max_pool2d(X, 2, ceil_mode=1),
        wg.KindError,
        "ceil_mode=1: must be True or False [max_pool2d(x: float32(3, 8, 8), kernel_size=2, ceil_mode=1)]",
    ),
    Bad(
        "ceil_mode None",
        lambda: wg.avg_pool2d(X, 2, ceil_mode=None),
        wg.KindError,
        "ceil_mode=None: must be True or False [avg_pool2d(x: float32(3, 8, 8), kernel_size=2, ceil_mode=None)]",
    ),
    Bad(
        "ceil_mode a tuple",
        lambda: wg.max_pool2d(X, 2, ceil_mode=(True, False)),
        wg.KindError,
        "ceil_mode=(True, False): must be True or False"
        " [max_pool2d(x: float32(3, 8, 8), kernel_size=2, ceil_mode=(True, False))]",
    ),
    Bad(
        'return_indices "yes"',
        lambda: wg.max_pool2d(X, 2, return_indices="yes"),
        wg.KindError,
        "return_indices='yes': must be True or False [max_pool2d(x: float32(3, 8, 8), kernel_size=2, return_indices='yes')]",
    ),
    Bad(
        "ties unknown",
        lambda: wg.max_pool2d(X, 2, ties="last"),
        wg.OptionError,
        "ties='last': must be one of 'first', 'all', 'split' [max_pool2d(x: float32(3, 8, 8), kernel_size=2, ties='last')]",
    ),
    Bad(
        "ties a list",
        lambda: wg.max_pool2d(X, 2, ties=["first"]),
        wg.OptionError,
        "ties=['first']: must be one of 'first', 'all', 'split'"
        " [max_pool2d(x: float32(3, 8, 8), kernel_size=2, ties=['first'])]",
    ),
    Bad(
        "ties an array",
        lambda: wg.max_pool2d(X, 2, ties=np.array(["first", "all"])),
        wg.OptionError,
        "ties=array(['first', 'all'], dtype='<U5'): must be one of 'first', 'all', 'split'"
        " [max_pool2d(x: float32(3, 8, 8), kernel_size=2, ties: <U5(2,))]",
    ),
    Bad(
        "ties None for global",
        lambda: wg.global_max_pool2d(X, ties=None),
        wg.OptionError,
        "ties=None: must be one of 'first', 'all', 'split' [global_max_pool2d(x: float32(3, 8, 8), ties=None)]",
    ),
    Bad(
        "ties unknown for adaptive",
        lambda: wg.adaptive_max_pool2d(X, 2, ties="none"),
        wg.OptionError,
        "ties='none': must be one of 'first', 'all', 'split'"
        " [adaptive_max_pool2d(x: float32(3, 8, 8), output_size=2, ties='none')]",
    ),
    Bad(
        "empty unknown",
        lambda: wg.max_pool2d(X, 2, empty="skip"),
        wg.OptionError,
        "empty='skip': must be one of 'zero', 'raise' [max_pool2d(x: float32(3, 8, 8), kernel_size=2, empty='skip')]",
    ),
    Bad(
        "empty unhashable",
        lambda: wg.max_pool2d(X, 2, empty=["zero"]),
        wg.OptionError,
        "empty=['zero']: must be one of 'zero', 'raise' [max_pool2d(x: float32(3, 8, 8), kernel_size=2, empty=['zero'])]",
    ),
    Bad(
        'empty "raise" with an empty window',
        lambda: wg.max_pool1d(ROW, 1, padding=1, empty="raise"),
        wg.WindowError,
        'empty="raise": window 0 on axis 0 covers no cell of the input'
        " [max_pool1d(x: float64(1, 8), kernel_size=1, padding=1, empty='raise')]",
    ),
    Bad(
        "divisor_override 0",
        lambda: wg.avg_pool2d(X, 2, divisor_override=0),
        wg.WindowError,
        "divisor_override=0: must be at least 1 [avg_pool2d(x: float32(3, 8, 8), kernel_size=2, divisor_override=0)]",
    ),
    Bad(
        "divisor_override negative",
        lambda: wg.avg_pool2d(X, 2, divisor_override=-3),
        wg.WindowError,
        "divisor_override=-3: must be at least 1 [avg_pool2d(x: float32(3, 8, 8), kernel_size=2, divisor_override=-3)]",
    ),
    Bad(
        "divisor_override float",
        lambda: wg.avg_pool2d(X, 2, divisor_override=1.5),
        wg.KindError,
        "divisor_override=1.5: must be an integer, not float"
        " [avg_pool2d(x: float32(3, 8, 8), kernel_size=2, divisor_override=1.5)]",
    ),
    Bad(
        "divisor_override bool",
        lambda: wg.avg_pool2d(X, 2, divisor_override=True),
        wg.KindError,
        "divisor_override=True: must be an integer, not a bool"
        " [avg_pool2d(x: float32(3, 8, 8), kernel_size=2, divisor_override=True)]",
    ),
    Bad(
        "divisor_override 10**5000",
        lambda: wg.avg_pool2d(X, 2, divisor_override=HUGE),
        wg.OptionError,
        "divisor_override=2**16609…: too large for float64; use x.astype(object) to compute exactly"
        " [avg_pool2d(x: float32(3, 8, 8), kernel_size=2, divisor_override=2**16609…)]",
    ),
    Bad(
        "divisor_override a tuple",
        lambda: wg.avg_pool2d(X, 2, divisor_override=(4,)),
        wg.KindError,
        "divisor_override=(4,): must be an integer, not tuple"
        " [avg_pool2d(x: float32(3, 8, 8), kernel_size=2, divisor_override=(4,))]",
    ),
    Bad(
        "count_include_pad 1",
        lambda: wg.avg_pool2d(X, 2, count_include_pad=1),
        wg.KindError,
        "count_include_pad=1: must be True or False [avg_pool2d(x: float32(3, 8, 8), kernel_size=2, count_include_pad=1)]",
    ),
    Bad(
        "count_include_pad a tuple",
        lambda: wg.avg_pool2d(X, 2, count_include_pad=(False,)),
        wg.KindError,
        "count_include_pad=(False,): must be True or False"
        " [avg_pool2d(x: float32(3, 8, 8), kernel_size=2, count_include_pad=(False,))]",
    ),
    Bad(
        "count_include_pad None for smooth max",
        lambda: wg.smooth_max_pool2d(X, 2, count_include_pad=None, beta=1),
        wg.KindError,
        "count_include_pad=None: must be True or False"
        " [smooth_max_pool2d(x: float32(3, 8, 8), kernel_size=2, count_include_pad=None, beta=1)]",
    ),
    Bad(
        "rank 0",
        lambda: wg.global_max_pool(X, 0),
        wg.WindowError,
        "rank=0: must be at least 1 [global_max_pool(x: float32(3, 8, 8), rank=0)]",
    ),
    Bad(
        "rank negative",
        lambda: wg.global_avg_pool(X, -1),
        wg.WindowError,
        "rank=-1: must be at least 1 [global_avg_pool(x: float32(3, 8, 8), rank=-1)]",
    ),
    Bad(
        "rank float",
        lambda: wg.global_max_pool(X, 2.0),
        wg.KindError,
        "rank=2.0: must be an integer, not float [global_max_pool(x: float32(3, 8, 8), rank=2.0)]",
    ),
    Bad(
        "rank None",
        lambda: wg.global_max_pool(X, None),
        wg.KindError,
        "rank=None: must be an integer, not NoneType [global_max_pool(x: float32(3, 8, 8), rank=None)]",
    ),
    Bad(
        "rank bool",
        lambda: wg.global_max_pool(X, True),
        wg.KindError,
        "rank=True: must be an integer, not a bool [global_max_pool(x: float32(3, 8, 8), rank=True)]",
    ),
    Bad(
        "rank of more axes than x",
        lambda: wg.global_max_pool(X, 4),
        wg.WindowError,
        "shape (3, 8, 8) has 3 axes: must have at least 4, one per axis of the window"
        " [global_max_pool(x: float32(3, 8, 8), rank=4)]",
    ),
    Bad(
        "rank 10**5000",
        lambda: wg.global_max_pool(X, HUGE),
        wg.WindowError,
        "shape (3, 8, 8) has 3 axes: must have at least 2**16609…, one per axis of the window"
        " [global_max_pool(x: float32(3, 8, 8), rank=2**16609…)]",
    ),
    Bad(
        "keepdims None",
        lambda: wg.global_max_pool2d(X, keepdims=None),
        wg.KindError,
        "keepdims=None: must be True or False [global_max_pool2d(x: float32(3, 8, 8), keepdims=None)]",
    ),
    Bad(
        "keepdims a tuple",
        lambda: wg.global_avg_pool2d(X, keepdims=(True,)),
        wg.KindError,
        "keepdims=(True,): must be True or False [global_avg_pool2d(x: float32(3, 8, 8), keepdims=(True,))]",
    ),
    Bad(
        "output_size an int for any rank",
        lambda: wg.adaptive_max_pool(X, 3),
        wg.KindError,
        "output_size=3: must be a tuple with one entry per axis; write (3, 3) for two axes, or call the 1d, 2d or 3d "
        "function"
        " [adaptive_max_pool(x: float32(3, 8, 8), output_size=3)]",
    ),
    Bad(
        "output_size 0",
        lambda: wg.adaptive_max_pool2d(X, (2, 0)),
        wg.WindowError,
        "output_size=0 on axis 1: must be at least 1 [adaptive_max_pool2d(x: float32(3, 8, 8), output_size=(2, 0))]",
    ),
    Bad(
        "output_size negative",
        lambda: wg.adaptive_avg_pool2d(X, -1),
        wg.WindowError,
        "output_size=-1 on axis 0: must be at least 1 [adaptive_avg_pool2d(x: float32(3, 8, 8), output_size=-1)]",
    ),
    Bad(
        "output_size float",
        lambda: wg.adaptive_max_pool2d(X, 2.0),
        wg.KindError,
        "output_size=2.0 on axis 0: must be an integer, not float [adaptive_max_pool2d(x: float32(3, 8, 8), output_size=2.0)]",
    ),
    Bad(
        "output_size bool",
        lambda: wg.adaptive_max_pool2d(X, True),
        wg.KindError,
        "output_size=True on axis 0: must be an integer, not a bool"
        " [adaptive_max_pool2d(x: float32(3, 8, 8), output_size=True)]",
    ),
    Bad(
        "output_size str",
        lambda: wg.adaptive_max_pool2d(X, (None, "a")),
        wg.KindError,
        "output_size='a' on axis 1: must be an integer, not str"
        " [adaptive_max_pool2d(x: float32(3, 8, 8), output_size=(None, 'a'))]",
    ),
    Bad(
        "output_size of three entries in 2d",
        lambda: wg.adaptive_max_pool2d(X, (2, 2, 2)),
        wg.WindowError,
        "output_size=(2, 2, 2): has 3 entries for 2 axes [adaptive_max_pool2d(x: float32(3, 8, 8), output_size=(2, 2, 2))]",
    ),
    Bad(
        "output_size 10**30",
        lambda: wg.adaptive_max_pool2d(X, 10**30),
        wg.WindowError,
        "output of shape (3, 1000000000000000000000000000000, 1000000000000000000000000000000): needs over 1048576 "
        f"EiB, this machine has {MEMORY} of memory"
        " [adaptive_max_pool2d(x: float32(3, 8, 8), output_size=1000000000000000000000000000000)]",
    ),
    Bad(
        "output_size 10**5000",
        lambda: wg.adaptive_avg_pool2d(X, HUGE),
        wg.WindowError,
        f"output of shape (3, 2**16609…, 2**16609…): needs over 1048576 EiB, this machine has {MEMORY} of memory"
        " [adaptive_avg_pool2d(x: float32(3, 8, 8), output_size=2**16609…)]",
    ),
]
