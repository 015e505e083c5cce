"""Forward mode of a maximum: value and tangent of a window come from one search for its winner, with the bits of the rules."""

import numpy as np
import pytest

import windowgrad as wg
from support.bits import LAYOUTS, drawn_cells, drawn_geometry, settled
from support.exact import DTYPES, FLOATS
from windowgrad.autograd.pushing import Pushed
from windowgrad.dispatch import run, run_pushing
from windowgrad.errors import WindowError
from windowgrad.geometry import Global, Sliding
from windowgrad.kernels.pool.max import entry
from windowgrad.ops import OPS
from windowgrad.params import TIES, Mask, MaxParams, MeanParams, MinParams

RECORDS = {"max_pool": MaxParams, "min_pool": MinParams}


def drawn(rng):
    """A name, parameters, cells with ties, signed zeros, NaN and infinities among them, and tangents."""
    while True:
        rank = int(rng.integers(1, 4))
        shape = (*(int(n) for n in rng.integers(1, 4, rng.integers(0, 3))), *(int(n) for n in rng.integers(1, 15, rank)))
        geometry = drawn_geometry(rng, shape[-rank:])
        try:
            geometry.out_shape(shape)
        except WindowError:
            continue
        mask = Mask(rng.random(shape[-rank:]) < 0.6) if rng.random() < 0.4 else None
        name = str(rng.choice(list(RECORDS)))
        params = RECORDS[name](geometry, str(rng.choice(TIES)), where=mask)
        x = drawn_cells(rng, shape, rank, DTYPES[rng.integers(len(DTYPES))])
        if x.dtype in FLOATS and rng.random() < 0.5:
            x = rng.choice(np.array([0.0, -0.0, 1.0, np.nan, -np.inf, np.inf]), shape).astype(x.dtype)
        dx = drawn_cells(rng, shape, rank, FLOATS[rng.integers(len(FLOATS))])
        made = [LAYOUTS[str(rng.choice(list(LAYOUTS)))](a, rank, rng) for a in (x, dx)]
        return name, params, *made


@pytest.mark.parametrize("seed", range(10))
def test_both_at_once_have_the_bits_of_the_two_rules(seed):
    rng, at_once = np.random.default_rng([31, seed]), 0
    for _ in range(25):
        name, params, x, dx = drawn(rng)
        found = Pushed(1, x, dx).follow(OPS[name], "forward", params, [Pushed(1, x, dx)])
        rules = run(OPS[name], "forward", params, x), run(OPS[name], "jvp", params, x, dx)
        for one, other in zip((found.value, found.tangent), rules, strict=True):
            assert (one.dtype, one.shape) == (other.dtype, other.shape), (name, params)
            assert settled(one) == settled(other), (name, params, x)
        at_once += run_pushing(OPS[name], params, x, dx) is not None
    assert at_once


def test_the_winners_are_searched_for_once(monkeypatch):
    searched, x = [], np.arange(32, dtype=np.float32).reshape(2, 4, 4)
    monkeypatch.setattr(entry, "winners", lambda *given, real=entry.winners: searched.append(given) or real(*given))
    monkeypatch.setattr(entry, "max_forward", None)
    y, dy = wg.jvp(lambda x: wg.max_pool2d(x, 2), (x,), (2 * x,))
    assert (y.tolist(), (2 * y).tolist()) == ([[[5, 7], [13, 15]], [[21, 23], [29, 31]]], dy.tolist())
    assert len(searched) == 1


def test_ties_that_are_shared_and_arrays_that_are_cut_are_left_to_the_rules():
    x, first = np.ones((2, 9, 9), np.float32), MaxParams(Sliding((3, 3)))
    assert run_pushing(OPS["max_pool"], first, x, x) is not None
    assert run_pushing(OPS["max_pool"], MaxParams(Global(2), "first"), x, x) is not None
    for ties in ("all", "split"):
        assert run_pushing(OPS["max_pool"], MaxParams(Sliding((3, 3)), ties), x, x) is None
    assert run_pushing(OPS["avg_pool"], MeanParams(Sliding((3, 3))), x, x) is None
    assert run_pushing(OPS["max_pool"], first, x.astype(object), x.astype(object)) is None
    assert run_pushing(OPS["max_pool"], first, x, None) is None
    long = np.zeros((8, 1 << 19), np.float32)
    assert entry.cut_for_tangents(first, long, long) is not None
    assert run_pushing(OPS["max_pool"], first, long, long) is None
