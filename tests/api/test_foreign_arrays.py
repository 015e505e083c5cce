"""Arrays of other packages where they are not computed with: the error says what to write, and that works."""

import dask.array as da
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import zarr

import windowgrad as wg


def test_a_gradient_of_foreign_arrays_names_theirs():
    for x, hint in (
        (torch.ones(2), "torch.autograd differentiates tensors"),
        (jnp.ones(2), "jax.grad differentiates JAX arrays"),
    ):
        with pytest.raises(wg.KindError, match=hint):
            wg.grad(wg.sum)(x)


def test_a_zarr_array_is_read_lazily_or_at_once_as_the_error_says():
    x = zarr.array(np.arange(16.0).reshape(4, 4), chunks=(2, 2))
    with pytest.raises(
        wg.KindError, match=r"use dask\.array\.from_zarr\(x\) to compute lazily, or x\[\.\.\.\] to read it into memory"
    ):
        wg.max_pool2d(x, 2)
    assert wg.max_pool2d(da.from_zarr(x), 2).compute().tolist() == wg.max_pool2d(x[...], 2).tolist() == [[5, 7], [13, 15]]


def test_a_masked_array_is_for_pooling_only():
    x = np.ma.masked_greater(np.array([-3.0, 9.0, -1.0, -2.0]), 5)
    assert wg.max_pool1d(x, 2).tolist() == [-3, -1]
    with pytest.raises(wg.KindError, match=r"x: must not be a masked array, which only pooling takes"):
        wg.pad(x, (1,))
    assert wg.pad(x.filled(0), (1,)).tolist() == [0, -3, 0, -1, -2, 0]
