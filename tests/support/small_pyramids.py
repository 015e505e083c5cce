"""Small arrays on disk to make pyramids of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import zarr


def stored(path, seed=0, shape=(16, 16), chunks=(4, 4), **options):
    array = zarr.create_array(path, shape=shape, chunks=chunks, dtype="uint8", **options)
    array[...] = np.random.default_rng(seed).integers(0, 255, shape)
    return path


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def level(target, number):
    return zarr.open_group(target, mode="r")[str(number)][...]
