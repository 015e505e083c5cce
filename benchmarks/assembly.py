"""The machine code of the kernels that a call runs: their names and sizes, or the assembly (or LLVM) of one of them.

    python benchmarks/assembly.py "wg.max_pool2d(np.zeros((1, 3, 8, 8), np.float32), 3, 2, 1)"
    python benchmarks/assembly.py "wg.max_pool2d(np.zeros((1, 3, 8, 8), np.float32), 3, 2, 1)" --kernel max_rows
    python benchmarks/assembly.py "wg.max_pool2d(np.zeros((1, 3, 8, 8), np.float32), 3, 2, 1)" --kernel max_rows --llvm

Numba shows no code that it loaded from a cache, so the call compiles its kernels anew, into a cache folder of its own.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from tempfile import TemporaryDirectory
from typing import Any

VECTOR = re.compile(r"\t(v\w+|f\w+\.\w+)\t")  # instructions on vector registers: AVX by their v, NEON by its lanes
SHOWN = 8  # the most frequent instructions


def kernels() -> Iterator[tuple[str, Any]]:
    """The compiled kernels of this process, by module and name."""
    for module in [module for name, module in sys.modules.items() if name.startswith("windowgrad.kernels")]:
        for name, value in vars(module).items():
            own = getattr(value, "overloads", None) and value.py_func.__module__ == module.__name__
            if own and not value.targetoptions.get("forceinline"):  # helpers are part of the kernels that call them
                yield f"{module.__name__.removeprefix('windowgrad.kernels.')}.{name}", value


def summary(assembly: str) -> str:
    found = Counter(VECTOR.findall(assembly))
    frequent = ", ".join(f"{count} {name}" for name, count in found.most_common(SHOWN))
    return f"{len(assembly.splitlines()):6} lines  {frequent}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("call", help="a Python expression; np and wg are there")
    parser.add_argument("--kernel", help="print the code of this one, such as max_rows")
    parser.add_argument("--llvm", action="store_true", help="LLVM's intermediate code, optimised, in place of the assembly")
    asked = parser.parse_args()
    with TemporaryDirectory() as folder:
        os.environ["WINDOWGRAD_CACHE_DIR"] = folder
        import numpy as np

        import windowgrad as wg
        from windowgrad.kernels.runtime import compiler

        compiler.separately = False
        eval(asked.call, {"np": np, "wg": wg})
        found = dict(kernels())
    chosen = {name: value for name, value in found.items() if asked.kernel in (None, name, name.rpartition(".")[2])}
    if not chosen:
        raise SystemExit(f"no kernel {asked.kernel} was compiled, only {', '.join(found)}")
    for name, value in chosen.items():
        for signature, code in (value.inspect_llvm() if asked.llvm else value.inspect_asm()).items():
            if asked.kernel is None:
                print(f"{name:40} {summary(code)}")
            else:
                print(f"# {name}{signature}\n{code}")


if __name__ == "__main__":
    main()
