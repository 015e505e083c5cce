"""A pyramid holds what NumPy makes of the whole array, opens as OME-Zarr, and is finished by the next run if one was killed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import zarr
from typer.testing import CliRunner

from windowgrad import cli
from windowgrad.errors import KindError, OptionError
from windowgrad.pyramid import build, reduce
from windowgrad.pyramid.build import BASE, Pyramid, block_bytes, workers_for
from windowgrad.pyramid.metadata import levels

SHAPE, CHUNKS = (2, 9, 14, 23), (1, 4, 5, 6)


def cells_of(dtype, shape=SHAPE):
    return np.random.default_rng(0).integers(0, 5, shape).astype(dtype)


def stored(path, cells, chunks=CHUNKS, zarr_format=3):
    array = zarr.create_array(path, shape=cells.shape, chunks=chunks, dtype=cells.dtype, zarr_format=zarr_format)
    array[...] = cells
    return path


def windows(x):
    """(place, cells) of every window of two cells, two apart, of the last three axes; the last cell of an odd axis alone."""
    for place in np.ndindex(x.shape[0], *(-(-n // 2) for n in x.shape[1:])):
        yield place, x[(place[0], *(slice(2 * i, 2 * i + 2) for i in place[1:]))]


def label(cells):
    votes = Counter(cells.ravel().tolist())
    return min(votes, key=lambda value: (-votes[value], value))


BY_HAND = {"mean": lambda w: np.rint(w.mean()), "max": np.max, "mode": label}


@pytest.mark.parametrize(("op", "dtype"), [("mean", "uint8"), ("max", "int32"), ("mode", "uint16"), ("mode", "bool")])
def test_every_level_is_made_of_the_one_before(tmp_path, op, dtype):
    x = cells_of(dtype)
    assert build(stored(tmp_path / "in.zarr", x), tmp_path / "out.zarr", 4, op)
    group = zarr.open_group(tmp_path / "out.zarr", mode="r")
    assert np.array_equal(group["0"][...], x)
    assert [group[str(i)].shape for i in range(4)] == [(2, 9, 14, 23), (2, 5, 7, 12), (2, 3, 4, 6), (2, 2, 2, 3)]
    for i in range(1, 4):
        before, found = group[str(i - 1)][...], group[str(i)]
        assert (found.dtype, found.chunks[1:]) == (x.dtype, tuple(map(min, CHUNKS[1:], found.shape[1:])))
        for place, window in windows(before):
            assert found[place] == BY_HAND[op](window), (i, place)


def test_a_mean_of_floats_is_not_rounded_and_slabs_change_nothing(tmp_path, monkeypatch):
    x = np.random.default_rng(1).standard_normal((1, 8, 12, 16)).astype(np.float32)
    whole = reduce.halved("mean", x, (2, 2, 2))
    monkeypatch.setattr(reduce, "SLAB", 100)
    assert np.array_equal(reduce.halved("mean", x, (2, 2, 2)), whole)
    assert whole[0, 0, 0, 0] == pytest.approx(x[0, :2, :2, :2].mean(), rel=1e-6)


def test_the_smallest_label_wins_among_equals():
    assert reduce.mode(np.array([[3, 1], [1, 3]]), (2, 2)).tolist() == [[1]]
    assert reduce.mode(np.array([[7, 7, 2]]), (2, 2)).tolist() == [[7, 2]]


def test_a_large_integer_stays_in_its_range():
    x = np.full((1, 2), np.iinfo(np.uint64).max)
    assert reduce.mean(x, (1, 2))[0, 0] > 2**63


@pytest.mark.parametrize(("zarr_format", "version"), [(2, "0.4"), (3, "0.5")])
def test_metadata_are_those_of_ome_zarr(tmp_path, zarr_format, version):
    source = stored(tmp_path / "in.zarr", cells_of("uint8"), zarr_format=zarr_format)
    build(source, tmp_path / "out.zarr", 3, "max")
    group = zarr.open_group(tmp_path / "out.zarr", mode="r")
    attributes = dict(group.attrs) if zarr_format == 2 else group.attrs["ome"]
    (scales,) = attributes["multiscales"]
    assert (scales if zarr_format == 2 else attributes)["version"] == version
    assert scales["axes"] == [{"name": n, "type": t} for n, t in zip("czyx", ("channel", *["space"] * 3), strict=True)]
    assert [each["path"] for each in scales["datasets"]] == ["0", "1", "2"]
    first, *_, last = (each["coordinateTransformations"] for each in scales["datasets"])
    assert [each["type"] for each in last] == ["scale", "translation"]
    assert (first[0]["scale"], first[1]["translation"]) == ([1.0] * 4, [0.0] * 4)
    assert (last[0]["scale"], last[1]["translation"]) == ([1.0, 4.0, 4.0, 4.0], [0.0, 1.5, 1.5, 1.5])
    for i in range(3):
        names = getattr(group[str(i)].metadata, "dimension_names", None)
        assert names == (tuple("czyx") if zarr_format == 3 else None)
        assert (tmp_path / "out.zarr" / str(i) / ("c/0/0/0/0" if zarr_format == 3 else "0/0/0/0")).is_file()


def test_a_pyramid_of_an_ome_zarr_image_keeps_its_axes_and_scale(tmp_path):
    axes = [{"name": "y", "type": "space", "unit": "micrometer"}, {"name": "x", "type": "space", "unit": "micrometer"}]
    scale = [{"type": "scale", "scale": [0.5, 0.25]}]
    dataset = {"axes": axes, "datasets": [{"path": "full", "coordinateTransformations": scale}]}
    group = zarr.create_group(tmp_path / "in.zarr", attributes={"ome": {"version": "0.5", "multiscales": [dataset]}})
    stored(tmp_path / "in.zarr" / "full", cells_of("uint8", (6, 7)), (4, 4))
    assert "full" in group
    build(tmp_path / "in.zarr", tmp_path / "out.zarr", 2, "mean")
    (found,) = zarr.open_group(tmp_path / "out.zarr", mode="r").attrs["ome"]["multiscales"]
    assert found["axes"] == axes
    assert found["datasets"][1]["coordinateTransformations"][0]["scale"] == [1.0, 0.5]
    assert found["datasets"][1]["coordinateTransformations"][1]["translation"] == [0.25, 0.125]


# --- killed, and run again ---------------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from pathlib import Path
from windowgrad.pyramid import build as building
from windowgrad.pyramid.build import Pyramid
do, count = Pyramid.do, iter(range(1000))
def dying(self, work):
    do(self, work)
    if next(count) == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
Pyramid.do = dying
building(Path(sys.argv[1]), Path(sys.argv[2]), 3, "mean")
"""


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("blocks", [3, 16])
def test_a_killed_run_is_continued_and_the_result_is_the_same(tmp_path, monkeypatch, blocks):
    source, target = stored(tmp_path / "in.zarr", cells_of("uint8")), tmp_path / "out.zarr"
    done = subprocess.run([sys.executable, "-c", KILLED, source, target, str(blocks)], env=os.environ, check=False)
    assert done.returncode == -signal.SIGKILL
    left = contents(target)
    (target / "0" / f".c.{'0' * 32}.windowgrad-partial").write_bytes(b"what a killed writer leaves")
    made = []
    monkeypatch.setattr(Pyramid, "do", counted(Pyramid.do, made))
    assert build(source, target, 3, "mean")
    found = list(made)
    build(source, tmp_path / "whole" / "out.zarr", 3, "mean")
    assert contents(target) == contents(tmp_path / "whole" / "out.zarr")
    assert len(found) < len(made) - len(found) - blocks + 1  # what was done is not done again
    assert left != contents(target)
    assert not build(source, target, 3, "mean")


def counted(do, made):
    def counting(self, work):
        made.append(work)
        do(self, work)

    return counting


# --- refusals ----------------------------------------------------------------------------------------------------


def test_what_is_not_this_pyramid_is_left_as_it_is(tmp_path):
    source = stored(tmp_path / "in.zarr", cells_of("uint8"))
    build(source, tmp_path / "out.zarr", 2, "mean")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("mine")
    stored(tmp_path / "other.zarr", cells_of("uint8"))
    for target, message in [
        ("out.zarr", "a different pyramid"),
        ("notes", "not a Zarr group"),
        ("other.zarr", "not a Zarr group"),
    ]:
        before = contents(tmp_path / target)
        with pytest.raises((OptionError, KindError), match=f"{target}: exists and is {message}"):
            build(source, tmp_path / target, 2, "max")
        assert contents(tmp_path / target) == before
    with pytest.raises(OptionError, match="must not be in"):
        build(source, source / "out", 2, "max")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"op": "median"}, "op='median': must be one of mean, max, mode"),
        ({"levels": 0}, "levels=0: must be at least 1"),
        ({"levels": 9}, r"levels=9: must be at most 6 for an array of shape \(2, 9, 14, 23\), no axis is left to halve then"),
        ({"memory": "much"}, "memory='much': must be a size such as 1GiB"),
        ({"memory": None}, "memory=None: must be a size such as 1GiB"),
        ({"memory": "1e400GB"}, "memory='1e400GB': must be a size such as 1GiB"),
        ({"memory": "10MB"}, "memory=10MB: chunks of 1x4x5x6 cells need at least .* MiB"),
        ({"axes": "zyx"}, "axes='zyx': must have 4 letters"),
        ({"axes": "zcyx"}, "axes='zcyx': must be letters of t, c, z, y, x, each at most once and in this order"),
        ({"axes": "abcd"}, "axes='abcd': must be letters of"),
    ],
)
def test_a_wrong_option_is_refused_and_says_why(tmp_path, options, message):
    source = stored(tmp_path / "in.zarr", cells_of("uint8"))
    with pytest.raises(OptionError, match=message):
        build(source, tmp_path / "out.zarr", **{"levels": 2, "op": "mean", **options})
    assert not (tmp_path / "out.zarr").exists()


def test_a_wrong_source_is_refused_and_says_why(tmp_path):
    (tmp_path / "text").mkdir()
    zarr.create_group(tmp_path / "group.zarr")
    stored(tmp_path / "group.zarr" / "a", cells_of("uint8"))
    stored(tmp_path / "float.zarr", cells_of("float32"))
    stored(tmp_path / "line.zarr", np.zeros(5), (2,))
    stored(tmp_path / "complex.zarr", cells_of("complex64"))
    for name, op, message in [
        ("none", "mean", "none: does not exist"),
        ("text", "mean", "text: cannot be opened as Zarr"),
        ("group.zarr", "mean", r"a Zarr group, not an array; choose one of its arrays \(a\)"),
        ("float.zarr", "mode", "op=mode: unsupported dtype float32; must be bool or an integer"),
        ("line.zarr", "mean", "the array has 1 axis: OME-Zarr supports 2 to 5"),
        ("complex.zarr", "mean", "unsupported dtype complex64"),
    ]:
        with pytest.raises((KindError, OptionError), match=message):
            build(tmp_path / name, tmp_path / "out.zarr", 2, op)
        assert not (tmp_path / "out.zarr").exists()


def test_the_memory_says_how_many_blocks_are_worked_on_at_a_time():
    sizes = levels(SHAPE, CHUNKS, "czyx", 2)
    assert workers_for(sizes, 1, str(BASE + block_bytes(sizes, 1))) == 1
    assert workers_for(sizes, 1, "1TiB") == os.cpu_count()


def test_the_command_shows_no_bar_before_all_is_checked(tmp_path):
    result = CliRunner().invoke(cli.app, ["pyramid", str(tmp_path / "none"), str(tmp_path / "out.zarr"), "--levels", "2"])
    assert isinstance(result.exception, OptionError)
    assert result.output.strip() == ""


def test_the_command_makes_a_pyramid_and_says_so(tmp_path):
    source, target = stored(tmp_path / "in.zarr", cells_of("uint8", (9, 9)), (4, 4)), tmp_path / "out.zarr"
    for said in ("made", "already complete"):
        result = CliRunner().invoke(
            cli.app, ["pyramid", str(source), str(target), "--levels", "2", "--op", "mode", "--axes", "yx"]
        )
        assert result.exit_code == 0, result.output
        assert re.search(f"out.zarr: {said}", result.output)
    assert json.loads((Path(target) / "zarr.json").read_text())["attributes"]["windowgrad"]["complete"]
