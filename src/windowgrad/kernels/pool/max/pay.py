"""Which kernel gives the gradients of a maximum to their winners: the first of them whose condition is true."""

from __future__ import annotations

from typing import Any

from windowgrad.geometry import Geometry
from windowgrad.kernels.pool.max.winner_apart import winner_apart
from windowgrad.kernels.pool.max.winner_codes import are_apart, are_few, are_near, are_pairs, are_triples, codes_of
from windowgrad.kernels.pool.max.winner_few import few_plan, winner_few
from windowgrad.kernels.pool.max.winner_gather import winner_gather
from windowgrad.kernels.pool.max.winner_grid import gather_plan
from windowgrad.kernels.pool.max.winner_near import near_plan, winner_runs
from windowgrad.kernels.pool.max.winner_pairs import pair_plan, winner_pairs
from windowgrad.kernels.pool.max.winner_scatter import scatter_plan, winner_scatter
from windowgrad.kernels.pool.max.winner_triples import winner_triples


def payment(geometry: Geometry, spatial: tuple[int, ...], channels: int) -> tuple[Any, tuple[Any, ...], int]:
    """The kernel that gives each gradient to its winner, what it is told besides its arrays, and its parts of a plane."""
    codes = codes_of(geometry, spatial)
    if channels == 1 and are_pairs(codes):
        packed = pair_plan(geometry, spatial)
        return winner_pairs, (packed,), int(packed[0])
    if channels == 1 and are_triples(codes):
        packed = near_plan(geometry, spatial)
        return winner_triples, (packed,), int(packed[0])
    if channels == 1 and are_few(codes):
        return winner_few, (few_plan(geometry, spatial),), 1
    if channels > 1 and are_apart(codes, channels):
        packed, along = pair_plan(geometry, spatial), codes.axes[-1]
        return winner_apart, (packed, channels, along.taps, along.stride), int(packed[0])
    if codes.gathers:
        packed = gather_plan(geometry, spatial, channels)
        return winner_gather, (packed,), int(packed[0])
    if channels > 1 and are_near(codes, channels):
        packed = near_plan(geometry, spatial)
        return winner_runs, (packed, channels), int(packed[0])
    packed = scatter_plan(geometry, spatial, channels)
    return winner_scatter, (packed,), int(packed[6])
