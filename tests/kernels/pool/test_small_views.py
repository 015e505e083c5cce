"""Views of any strides: their calls, when they are known too, give the bits of a copy in a row, and so do winners of channels
that stand last."""

import numpy as np
import pytest

import windowgrad as wg
from support.bits import settled
from support.guarded import exact_memory, guarded
from windowgrad import dispatch
from windowgrad.geometry import Adaptive, Global, Sliding
from windowgrad.kernels.pool.max.entry import last_layout, last_winners
from windowgrad.kernels.vector import views
from windowgrad.ops import OPS
from windowgrad.params import MaxParams

DTYPES = ["float32", "float64", "float16", "uint8", "int16", "int64", "bool"]


def cropped(a):
    big = np.full([*a.shape[:-2], a.shape[-2] + 5, a.shape[-1] + 7], 99).astype(a.dtype)
    big[..., 2:-3, 3:-4] = a
    return big[..., 2:-3, 3:-4]


def read_only(a):
    a.flags.writeable = False
    return a


def unaligned(a):
    view = np.zeros(a.nbytes + 1, np.uint8)[1:].view(a.dtype).reshape(a.shape)
    view[...] = a
    return view


def channels_last(a):
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(a, 1, -1)), -1, 1)


VIEWS = {
    "crop": cropped,
    "columns reversed": lambda a: np.ascontiguousarray(a[..., ::-1])[..., ::-1],
    "every second column": lambda a: np.repeat(a, 2, -1)[..., ::2],
    "every second image": lambda a: np.repeat(a, 2, 0)[::2],
    "some channels": lambda a: np.concatenate([a, a], 1)[:, : a.shape[1]],
    "Fortran order": np.asfortranarray,
    "channels last": channels_last,
    "read-only": lambda a: read_only(a.copy()),
    "read-only crop": lambda a: read_only(cropped(a)),
    "read-only channels last": lambda a: read_only(channels_last(a)),
    "broadcast": lambda a: np.broadcast_to(a[:1], a.shape),
    "other order of bytes": lambda a: a.astype(a.dtype.newbyteorder()),
    "unaligned": unaligned,
}

CALLS = {
    "max": lambda x: wg.max_pool2d(x, 3, 2, 1),
    "indices": lambda x: wg.max_pool2d(x, (2, 3), 2, 1, return_indices=True),
    "min": lambda x: wg.min_pool2d(x, 3, 2, 1, return_indices=True),
    "smallest": lambda x: wg.min_pool2d(x, 2),
    "mean": lambda x: wg.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "bins": lambda x: wg.adaptive_avg_pool2d(x, (3, 2)),
    "all": lambda x: wg.global_max_pool2d(x, return_indices=True),
    "smooth": lambda x: wg.smooth_max_pool2d(x, 2, beta=1.0),
}


def drawn(dtype, shape=(2, 5, 9, 13)):
    x = np.random.default_rng(1).integers(0, 7, shape).astype(dtype)
    if x.dtype.kind == "f":
        x[x == 1], x[0, 0, 0, 3], x[-1, -1, -1, -1] = -0.0, np.nan, np.inf
    return x


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_gives_the_bits_of_its_copy_each_time(view, dtype, monkeypatch):
    monkeypatch.setattr(dispatch, "READY", True)
    x = VIEWS[view](drawn(dtype))
    for name, call in CALLS.items():
        wanted = call(np.array(x, dtype, order="C"))
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        for _ in range(3):
            found = call(x)
            found = found if isinstance(found, tuple) else (found,)
            for one, other in zip(found, wanted, strict=True):
                assert one.dtype == other.dtype, name
                assert settled(np.ascontiguousarray(one)) == settled(np.ascontiguousarray(other)), name
                assert one.flags.writeable
                assert not np.shares_memory(one, x)


@pytest.mark.parametrize("channels", [1, 3, 8, 21, 64, 70])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize(
    "geometry",
    [
        Sliding((3, 3), 2, 1),
        Sliding((2, 2), 3, ((1, 4), (2, 3))),
        Sliding((3, 2), (1, 3), 1, (2, 1), True),
        Sliding((2,), 2),
        Adaptive((3, 4)),
        Global(2),
    ],
    ids=repr,
)
def test_winners_of_channels_that_stand_last(geometry, dtype, channels):
    x = drawn(dtype, (2, channels, 9, 11)) if geometry.rank == 2 else drawn(dtype, (2, 2, channels, 11))
    last = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, -geometry.rank - 1, -1)), -1, -geometry.rank - 1)
    params = MaxParams(geometry)
    wanted = OPS["max_pool"].with_indices(params, x)
    layout = last_layout(geometry, last)
    if channels == 1 or layout is None:
        assert channels == 1
        return
    with exact_memory():
        stored = guarded(np.moveaxis(last, -geometry.rank - 1, -1), "end")
        found = last_winners(MaxParams(geometry), layout, np.moveaxis(stored, -1, -geometry.rank - 1))
    for one, other in zip(found, wanted, strict=True):
        assert settled(np.ascontiguousarray(one)) == settled(other)
        assert np.moveaxis(one, -geometry.rank - 1, -1).flags.c_contiguous


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "uint8"])
@pytest.mark.parametrize("pool", [wg.global_max_pool2d, wg.global_min_pool2d, wg.global_avg_pool2d], ids=lambda f: f.__name__)
def test_pooled_axes_are_removed_where_channels_stand_last(pool, dtype):
    for channels in (3, 8, 21):
        x = drawn(dtype, (2, channels, 6, 7))
        view, calls = channels_last(x), [{}]
        if pool is not wg.global_avg_pool2d:
            calls.append({"return_indices": True})
        for told in calls:
            wanted = pool(x, keepdims=False, **told)
            for _ in range(2):
                found = pool(view, keepdims=False, **told)
                for one, other in zip(*(a if told else (a,) for a in (found, wanted)), strict=True):
                    assert settled(one) == settled(other)
        if x.dtype.kind == "f":
            g = np.arange(2 * channels, dtype=dtype).reshape(2, channels)
            gx = wg.vjp(lambda a: pool(a, keepdims=False), x)[1](g)[0]
            for _ in range(2):
                assert settled(np.ascontiguousarray(wg.vjp(lambda a: pool(a, keepdims=False), view)[1](g)[0])) == settled(gx)


def test_a_result_is_written_beside_views_and_never_over_its_input(monkeypatch):
    monkeypatch.setattr(dispatch, "READY", True)
    x = drawn("float32")
    wanted, memory = wg.max_pool2d(x, 1, 1), x.copy()
    for _ in range(3):
        out = np.empty_like(wanted)
        assert wg.max_pool2d(x, 1, 1, out=out) is out
        assert settled(out) == settled(wanted)
        assert wg.max_pool2d(memory, 1, 1, out=memory) is memory
        assert settled(memory) == settled(wanted)
        with pytest.raises(wg.WindowError, match="must be"):
            wg.max_pool2d(x, 1, 1, out=out[:1])
        with pytest.raises(wg.KindError, match="dtype of the result"):
            wg.max_pool2d(x, 1, 1, out=out.astype(np.float64))


@pytest.mark.parametrize("seed", range(40))
def test_copies_of_views_have_their_bits(seed):
    rng = np.random.default_rng(seed)
    ndim, dtype = rng.integers(1, 6), rng.choice([*DTYPES, "complex64", "complex128"])
    a = rng.integers(0, 2, tuple(rng.integers(1, 40 // ndim, ndim))).astype(dtype).transpose(rng.permutation(ndim))
    cuts = [slice(int(rng.integers(0, 2)), None, int(rng.choice([1, 1, 2, 3]))) for _ in range(ndim)]
    a = a[tuple(slice(None, None, -1) if rng.random() < 0.2 else cut if rng.random() < 0.5 else slice(None) for cut in cuts)]
    for x in (a, np.broadcast_to(a[..., :1], a.shape)):
        assert views.copied(x).tobytes() == x.tobytes()
        if views.is_view(x):
            assert views.copier(x)(x).tobytes() == x.tobytes()


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64"])
@pytest.mark.parametrize("edge", ["start", "end"])
def test_squares_of_columns_are_turned_around_and_nothing_beside_them(dtype, edge):
    """With as many columns and rows as fill squares and blocks of columns, and a few more or less."""
    rng = np.random.default_rng(11)
    with exact_memory(at=edge):
        for columns in (1, 7, 8, 9, 63, 64, 65, 130):
            for channels in (2, 3, 7, 8, 9, 17):
                x = guarded(rng.integers(0, 99, (2, columns, channels)).astype(dtype), edge)
                for view in (x.swapaxes(1, 2), x[:, ::-1].swapaxes(1, 2), x[:, :, : channels - 1].swapaxes(1, 2)):
                    assert views.copied(view).tobytes() == view.tobytes()
