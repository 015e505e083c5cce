"""A disk that is full, a folder that cannot be written, a damaged chunk and wrong arguments are one sentence each."""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys

import numpy as np
import pytest
import zarr

from support.small_pyramids import level, stored
from windowgrad.errors import KindError, OptionError, WindowgradError
from windowgrad.pyramid import build

LIMITED = """
import resource, sys
from windowgrad import cli
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
sys.argv = ["windowgrad", "pyramid", *sys.argv[2:], "--levels", "2", "--op", "mode"]
cli.main()
"""


def command(*arguments, program=None):
    """(status, the last line of standard error) of a run; there is no traceback on it."""
    start = ["-c", program] if program else ["-c", "from windowgrad import cli; cli.main()", "pyramid"]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    done = subprocess.run([sys.executable, *start, *map(str, arguments)], text=True, check=False, **pipes)
    assert "Traceback" not in done.stderr + done.stdout
    assert len(done.stderr.strip().splitlines()) <= 1
    return done.returncode, done.stderr.strip()


def test_a_full_disk_is_one_sentence_and_the_next_run_goes_on(tmp_path):
    """RLIMIT_FSIZE stands in for a full disk: writing a chunk fails, the metadata fit."""
    source, target = stored(tmp_path / "in.zarr", shape=(600, 600), chunks=(300, 300)), tmp_path / "out.zarr"
    assert command(20_000, source, target, program=LIMITED) == (
        2,
        f"windowgrad: {target}: cannot be written: File too large; "
        "finished chunks are kept, and the same command continues from them",
    )
    assert not list(target.rglob("*partial"))
    assert build(source, target, 2, "mode")
    assert np.array_equal(level(target, 0), zarr.open(source)[...])
    assert resource.getrlimit(resource.RLIMIT_FSIZE) == (resource.RLIM_INFINITY,) * 2


def test_a_disk_on_which_nothing_fits_is_left_as_it_was(tmp_path):
    source = stored(tmp_path / "in.zarr")
    status, said = command(1, source, tmp_path / "new" / "out.zarr", program=LIMITED)
    assert (status, said) == (2, f"windowgrad: {tmp_path / 'new' / 'out.zarr'}: cannot be written: File too large")
    assert not (tmp_path / "new").exists()


def test_a_target_that_cannot_be_written_is_one_sentence(tmp_path):
    source = stored(tmp_path / "in.zarr")
    (tmp_path / "file").write_text("mine")
    status, said = command(source, tmp_path / "file" / "out.zarr")
    assert (status, said) == (2, f"windowgrad: {tmp_path / 'file' / 'out.zarr'}: cannot be written: Not a directory")
    status, said = command(source, "/proc/out.zarr")  # where not even root makes a folder
    assert (status, said) == (2, "windowgrad: /proc/out.zarr: cannot be written: No such file or directory")


def test_a_damaged_chunk_is_named_and_what_was_made_stays(tmp_path):
    source, target = stored(tmp_path / "in.zarr"), tmp_path / "out.zarr"
    whole = (source / "c" / "2" / "1").read_bytes()
    (source / "c" / "2" / "1").write_bytes(b"damaged")
    status, said = command(source, target, "--levels", "2", "--op", "mode")
    assert status == 2
    assert re.fullmatch(rf"windowgrad: {source}/c/2/1: this chunk cannot be read \(\w+: .+\)", said)
    assert not json.loads((target / "zarr.json").read_text())["attributes"]["windowgrad"]["complete"]
    (source / "c" / "2" / "1").write_bytes(whole)
    assert command(source, target, "--levels", "2", "--op", "mode")[0] == 2  # it has changed
    assert command(source, target, "--levels", "2", "--op", "mode", "--rebuild") == (0, "")


@pytest.mark.parametrize("url", ["s3://bucket/x.zarr", "https://host/x.zarr", "gs://b/x", "simplecache::s3://b/x"])
def test_a_url_is_refused_and_leaves_nothing_behind(tmp_path, monkeypatch, url):
    stored(tmp_path / "in.zarr")
    monkeypatch.chdir(tmp_path)
    for source, target in ((url, "out.zarr"), ("in.zarr", url)):
        with pytest.raises(OptionError, match=f"^{re.escape(url)}: is a URL, but only local folders are supported"):
            build(source, target, 2, "max")
    assert [path.name for path in tmp_path.iterdir()] == ["in.zarr"]


@pytest.mark.parametrize("shape", [(0, 5), (3, 0, 5), (0, 4, 4)])
def test_an_array_without_cells_is_refused(tmp_path, shape):
    zarr.create_array(tmp_path / "in.zarr", shape=shape, chunks=(2,) * len(shape), dtype="uint8")
    with pytest.raises(
        WindowgradError, match=rf"in.zarr: cannot build a pyramid of an empty array of shape {re.escape(str(shape))}"
    ):
        build(tmp_path / "in.zarr", tmp_path / "out.zarr", 1, "max")
    assert not (tmp_path / "out.zarr").exists()


@pytest.mark.parametrize(
    "wrong",
    [
        {"source": None}, {"source": "a\0b"}, {"target": 5}, {"target": ""}, {"levels": "2"}, {"levels": True},
        {"op": None}, {"op": []}, {"axes": 5}, {"memory": []}, {"rebuild": 1},
    ],
    ids=str,
)  # fmt: skip
def test_arguments_of_wrong_kinds_are_refused_and_leave_nothing_behind(tmp_path, wrong):
    source = stored(tmp_path / "in.zarr")
    with pytest.raises(WindowgradError, match=next(iter(wrong))):
        build(**{"source": source, "target": tmp_path / "out.zarr", "levels": 2, "op": "max", **wrong})
    assert not (tmp_path / "out.zarr").exists()


@pytest.mark.parametrize(
    "scales", [[], [{}], [{"datasets": [], "axes": []}], "much", [{"datasets": [{"path": "0"}], "axes": 3}]]
)
def test_wrong_metadata_of_an_image_are_one_sentence(tmp_path, scales):
    zarr.create_group(tmp_path / "in.zarr", attributes={"ome": {"multiscales": scales}})
    stored(tmp_path / "in.zarr" / "0")
    with pytest.raises(KindError, match=r"in.zarr: its OME-Zarr metadata is invalid \(.*; choose one of its arrays \(0\)"):
        build(tmp_path / "in.zarr", tmp_path / "out.zarr", 2, "max")
