"""Dask's schedulers all give the same: threads, processes, and a cluster, also one that loses a worker on the way."""

from __future__ import annotations

import os
import signal

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster

import windowgrad as wg
from support.chunked import same_numbers

pytestmark = pytest.mark.processes  # which Dask starts

X = np.random.default_rng(0).standard_normal((2, 37, 41)).astype(np.float32)


def pooled(x):
    """Windows over the borders of chunks, a region over everything, and indices."""
    best, where = wg.max_pool2d(x, 5, 1, 2, return_indices=True)
    return [
        best,
        where,
        wg.avg_pool2d(x, 3, 2, 1),
        wg.global_max_pool2d(x),
        wg.conv2d(x[:, None], X[:, :1, :3, None], padding=1),
    ]


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_threads_and_processes_give_the_same(scheduler):
    found = dask.compute(*pooled(da.from_array(X, (1, 10, 15))), scheduler=scheduler, num_workers=2)
    for value, whole in zip(found, pooled(X), strict=True):
        assert same_numbers(value, whole)


def dies_once(block, marker, block_id=None):
    """The block; but whoever first works on one in the middle is killed."""
    if block_id == (1, 2, 1):
        try:
            marker.touch(exist_ok=False)
            os.kill(os.getpid(), signal.SIGKILL)
        except FileExistsError:
            pass
    return block


def test_a_cluster_that_loses_a_worker_gives_the_same(tmp_path):
    x, marker = da.from_array(X, (1, 10, 15)), tmp_path / "killed"
    dying = x.map_blocks(dies_once, marker, dtype=x.dtype, meta=np.empty((0, 0, 0), x.dtype))
    options = {
        "n_workers": 2,
        "threads_per_worker": 1,
        "processes": True,
        "dashboard_address": None,
        "local_directory": tmp_path,
    }
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        found = client.gather(client.compute(pooled(dying)[:2]))
    assert marker.exists()
    for value, whole in zip(found, pooled(X)[:2], strict=True):
        assert same_numbers(value, whole)
