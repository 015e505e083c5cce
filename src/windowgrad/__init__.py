"""Pooling and convolution in any dimension, with a written meaning."""

from windowgrad import dispatch, errors, functional, geometry, ops, params, spec
from windowgrad.bridges import leaves as _leaves
from windowgrad.errors import KindError, OptionError, WindowError, WindowgradError
from windowgrad.functional import *  # noqa: F403  # its __all__ is the list of public functions, in one place
from windowgrad.functional import __all__ as _functions
from windowgrad.kernels.buffers import get_buffer_cap, set_buffer_cap
from windowgrad.kernels.threads import get_num_threads, set_num_threads
from windowgrad.spec import Dual

__all__ = [
    "Dual",
    "KindError",
    "OptionError",
    "WindowError",
    "WindowgradError",
    "dispatch",
    "errors",
    "functional",
    "geometry",
    "get_buffer_cap",
    "get_num_threads",
    "ops",
    "params",
    "set_buffer_cap",
    "set_num_threads",
    "spec",
    *_functions,
]

_leaves.watch([getattr(functional, name) for name in _functions])


def __getattr__(name: str) -> str:
    if name == "__version__":  # read when asked for: the version stands in the package's metadata, which is slow to load
        from importlib.metadata import version

        return version(__name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
