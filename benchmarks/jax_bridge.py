"""What a call on a JAX array costs beyond the same call on NumPy arrays: eager, and in a compiled program.

The arrays are small, where the way there and back shows most, and large, where a copy would. "Gradient" is the whole of
jax.grad of the sum, compared with the forward rule, the sum and the vjp in NumPy. What JAX takes for x + 1, compiled, on the
same array stands beside them.

    python benchmarks/jax_bridge.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from timing import THREADS, best

import windowgrad as wg
from windowgrad.geometry import Sliding
from windowgrad.ops import OPS
from windowgrad.params import ConvParams, MaxParams, MeanParams

SMALL, LARGE = (1, 4, 8, 8), (8, 64, 56, 56)
OPERATORS: dict[str, tuple[Callable[..., Any], Callable[..., Any], str, Any]] = {
    "max_pool2d 2×2": (lambda x, w: wg.max_pool2d(x, 2), lambda x, w: (x,), "max_pool", MaxParams(Sliding((2, 2)))),
    "avg_pool2d 2×2": (lambda x, w: wg.avg_pool2d(x, 2), lambda x, w: (x,), "avg_pool", MeanParams(Sliding((2, 2)))),
    "conv2d 3×3": (wg.conv2d, lambda x, w: (x, w), "conv", ConvParams(Sliding((3, 3), 1))),
}


def calls(name: str, shape: tuple[int, ...]) -> dict[str, Callable[[], Any]]:
    """The call on NumPy's arrays and on JAX's, and the gradients of its sum."""
    call, inputs, op, params = OPERATORS[name]
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s, dtype=np.float32) for s in (shape, (shape[1], shape[1], 3, 3)))
    jx, jw = jnp.asarray(x), jnp.asarray(w)
    g = np.ones_like(call(x, w))

    def total(x: Any, w: Any) -> Any:
        return call(x, w).sum()

    def by_numpy() -> Any:
        return call(x, w).sum(), OPS[op].vjp(params, *inputs(x, w), g)

    argnums = tuple(range(len(inputs(x, w))))
    compiled, gradient = jax.jit(call), jax.grad(total, argnums)
    compiled_gradient, plain = jax.jit(gradient), jax.jit(lambda x: x + 1)
    return {
        "NumPy": lambda: call(x, w),
        "eager": lambda: call(jx, jw).block_until_ready(),
        "compiled": lambda: compiled(jx, jw).block_until_ready(),
        "NumPy's gradient": by_numpy,
        "eager gradient": lambda: jax.block_until_ready(gradient(jx, jw)),
        "compiled gradient": lambda: jax.block_until_ready(compiled_gradient(jx, jw)),
        "x + 1": lambda: plain(jx).block_until_ready(),
    }


def measured(name: str, shape: tuple[int, ...]) -> str:
    every = calls(name, shape)
    for call in every.values():
        call()  # compiles it
    times = {who: 1e6 * t for who, t in best(every, rounds=15, seconds=20).items()}
    forward, gradient = times["NumPy"], times["NumPy's gradient"]
    extra = {
        "eager": times["eager"] - forward,
        "compiled": times["compiled"] - forward,
        "eager gradient": times["eager gradient"] - gradient,
        "compiled gradient": times["compiled gradient"] - gradient,
    }
    beyond = ", ".join(f"{who} {t:+.0f}" for who, t in extra.items())
    return f"{forward:.0f} and {gradient:.0f} µs in NumPy; beyond it, in µs: {beyond}; x + 1 by JAX: {times['x + 1']:.0f}"


if __name__ == "__main__":
    wg.set_num_threads(THREADS)
    for name in OPERATORS:
        print(f"{name} of {'×'.join(map(str, SMALL))}: {measured(name, SMALL)}", flush=True)
    for name in list(OPERATORS)[:2]:  # a large convolution takes so long that what lies around it cannot be seen
        print(f"{name} of {'×'.join(map(str, LARGE))}: {measured(name, LARGE)}", flush=True)
