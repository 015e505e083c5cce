"""A pyramid of a Zarr volume within bounded memory: its speed beside copying the same Zarr with Dask, and its peak memory.

    python benchmarks/pyramid.py --size 16 --memory 2GiB

Everything is made in a temporary folder (`--folder`), and removed. Each measurement is a process of its own, so that its
highest resident size is its own. Then crops of every level are compared with NumPy.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

CHUNK = 128
CROPS = 20


def make(path: str, gib: float) -> None:
    """A volume of uint16, smooth with noise, as microscopes give: it compresses a little."""
    import zarr

    side = round((gib * 2**30 / 2) ** (1 / 3) / CHUNK) * CHUNK
    array = zarr.create_array(path, shape=(side,) * 3, chunks=(CHUNK,) * 3, dtype=np.uint16, dimension_names=["z", "y", "x"])
    rng = np.random.default_rng(0)
    line = (np.sin(np.arange(CHUNK) / 20) * 500 + 1000).astype(np.float32)
    base = (line[:, None, None] + line[None, :, None] + line[None, None, :]).astype(np.uint16)
    for corner in np.ndindex(*(side // CHUNK,) * 3):
        box = tuple(slice(i * CHUNK, (i + 1) * CHUNK) for i in corner)
        array[box] = base + rng.integers(0, 64, base.shape, dtype=np.uint16)


def pyramid(source: str, target: str, memory: str) -> None:
    from windowgrad.pyramid import build

    build(Path(source), Path(target), 5, "mean", memory)


def copy(source: str, target: str) -> None:
    import dask.array as da

    da.from_zarr(source).to_zarr(target)


def check(source: str, target: str) -> int:
    """How many cells of random crops differ from what NumPy makes of the level before."""
    import zarr

    group, rng, wrong = zarr.open_group(target, mode="r"), np.random.default_rng(1), 0
    levels = [zarr.open_array(source, mode="r"), *(group[str(i)] for i in range(1, 5))]
    for _ in range(CROPS):
        i = int(rng.integers(1, len(levels)))
        at = [int(rng.integers(0, n - 7)) for n in levels[i].shape]
        found = levels[i][tuple(slice(a, a + 8) for a in at)]
        cells = levels[i - 1][tuple(slice(2 * a, 2 * a + 16) for a in at)].astype(np.float64)
        means = np.rint(cells.reshape(*(s for n in found.shape for s in (n, 2))).mean(axis=(1, 3, 5)))
        wrong += int((found != means).sum())
    return wrong


def measured(*arguments: str) -> tuple[float, int]:
    """(seconds, highest resident bytes) of a part of this file in a process of its own."""
    done = subprocess.run([sys.executable, __file__, "--part", *arguments], check=True, capture_output=True, text=True)
    told = json.loads(done.stdout)
    return told["seconds"], told["bytes"]


def part(name: str, *arguments: str) -> None:
    start = time.perf_counter()
    {"pyramid": pyramid, "copy": copy}[name](*arguments)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    print(json.dumps({"seconds": time.perf_counter() - start, "bytes": peak}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", type=float, default=2.0, help="GiB of the volume")
    parser.add_argument("--memory", default="2GiB")
    parser.add_argument("--folder", default=None)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        source, copied, target = (f"{folder}/{name}.zarr" for name in ("source", "copied", "pyramid"))
        make(source, options.size)
        import zarr

        size = math.prod(zarr.open_array(source, mode="r").shape) * 2
        copying, copy_peak = measured("copy", source, copied)
        making, peak = measured("pyramid", source, target, options.memory)
        print(f"volume                 {size / 2**30:.2f} GiB of uint16 in chunks of {CHUNK}^3")
        print(f"copying it with Dask   {copying:.1f} s, {size / 2**20 / copying:.0f} MiB/s, peak {copy_peak / 2**20:.0f} MiB")
        print(f"pyramid of 5 levels    {making:.1f} s, {size / 2**20 / making:.0f} MiB/s, peak {peak / 2**20:.0f} MiB")
        print(f"speed beside copying   {copying / making:.0%} (asked: at least 50%)")
        print(f"cells of {CROPS} random crops that differ from NumPy: {check(source, target)}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--part"]:
        part(*sys.argv[2:])
    else:
        main()
