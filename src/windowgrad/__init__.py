"""Pooling and convolution in any dimension, with an executable specification."""

import sys as _sys

from windowgrad import autograd, dispatch, errors, functional, geometry, nn, ops, params, spec
from windowgrad.autograd import Tape, Var, check_grads, directional, grad, hessian, hvp, jacobian, jvp, value_and_grad, vjp
from windowgrad.autograd.arrays import *  # noqa: F403  # as below
from windowgrad.autograd.arrays import __all__ as _array_functions
from windowgrad.bridges import torch_import_hook as _torch_import_hook
from windowgrad.drawing import explain
from windowgrad.errors import GradientError, KindError, OptionError, WindowError, WindowgradError
from windowgrad.functional import *  # noqa: F403  # its __all__ is the list of public functions, in one place
from windowgrad.functional import __all__ as _functions
from windowgrad.kernels.runtime.buffers import get_buffer_cap, set_buffer_cap
from windowgrad.kernels.runtime.threads import get_num_threads, set_num_threads
from windowgrad.spec import Dual

__all__ = [
    "Dual",
    "GradientError",
    "KindError",
    "OptionError",
    "Tape",
    "Var",
    "WindowError",
    "WindowgradError",
    "autograd",
    "check_grads",
    "directional",
    "dispatch",
    "errors",
    "explain",
    "functional",
    "geometry",
    "get_buffer_cap",
    "get_num_threads",
    "grad",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "nn",
    "ops",
    "params",
    "set_buffer_cap",
    "set_num_threads",
    "spec",
    "value_and_grad",
    "vjp",
    *_array_functions,
    *_functions,
]

_torch_import_hook.mark_when_imported([getattr(functional, name) for name in _functions] + list(autograd.arrays.SINGLE_STEPS))
_torch_import_hook.wrap_when_imported(_functions, [_sys.modules[__name__], functional])
_torch_import_hook.wrap_when_imported(_array_functions, [_sys.modules[__name__], autograd.arrays])


def __getattr__(name: str) -> str:
    if name == "__version__":  # read when asked for: the version stands in the package's metadata, which is slow to load
        from importlib.metadata import version

        return version(__name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
