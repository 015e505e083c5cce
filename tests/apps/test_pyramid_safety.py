"""A pyramid never mixes two sources or two states of one, never deletes what is not its own, and is made by one process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
import zarr

from support.small_pyramids import contents, level, stored
from windowgrad.errors import KindError, OptionError
from windowgrad.pyramid import build
from windowgrad.pyramid.build import Pyramid
from windowgrad.pyramid.store import LOCK

PARTIAL = f".zarr.json.{'0' * 32}.windowgrad-partial"


def stopped(monkeypatch, source, target, blocks, **options):
    """A run that is interrupted after some blocks."""
    do, left = Pyramid.do, iter(range(blocks))

    def stopping(self, work):
        if next(left, None) is None:
            raise KeyboardInterrupt
        do(self, work)

    with monkeypatch.context() as patch:
        patch.setattr(Pyramid, "do", stopping)
        with pytest.raises(KeyboardInterrupt):
            build(source, target, 2, "max", **options)


# --- whose pyramid it is -----------------------------------------------------------------------------------------


def test_a_finished_pyramid_of_another_source_with_the_same_name_is_refused(tmp_path):
    first, second = stored(tmp_path / "a" / "in.zarr"), stored(tmp_path / "b" / "in.zarr", seed=1)
    target = tmp_path / "out.zarr"
    build(first, target, 2, "max")
    before = contents(target)
    with pytest.raises(OptionError, match=re.escape(f"it was made from {first.resolve()}, not from {second.resolve()}")):
        build(second, target, 2, "max")
    assert contents(target) == before
    assert build(second, target, 2, "max", rebuild=True)
    assert np.array_equal(level(target, 0), zarr.open(second)[...])
    assert not build(second, target, 2, "max")


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_source_that_changed_after_an_interrupt_is_not_mixed_with_its_old_state(tmp_path, monkeypatch, zarr_format):
    source, target = stored(tmp_path / "in.zarr", zarr_format=zarr_format), tmp_path / "out.zarr"
    stopped(monkeypatch, source, target, 2)
    assert len(contents(target)) > 2
    zarr.open(source, mode="r+")[:4, :4] = 7
    before = contents(target)
    with pytest.raises(OptionError, match=r"in.zarr has changed since it was started"):
        build(source, target, 2, "max")
    assert contents(target) == before
    assert build(source, target, 2, "max", rebuild=True)
    assert np.array_equal(level(target, 0), zarr.open(source)[...])


def test_a_source_that_changed_after_its_pyramid_was_made_is_said_to_have_changed(tmp_path):
    source, target = stored(tmp_path / "in.zarr"), tmp_path / "out.zarr"
    build(source, target, 2, "max")
    array = zarr.open(source, mode="r+")
    array.attrs["note"] = "attributes are not cells"
    assert not build(source, target, 2, "max")
    (source / "c" / "3" / "3").unlink()  # its cells are the fill value now
    with pytest.raises(OptionError, match=r"in.zarr has changed since it was made"):
        build(source, target, 2, "max")


def test_a_change_that_keeps_sizes_and_times_is_found_in_small_arrays(tmp_path):
    source, target = stored(tmp_path / "in.zarr", compressors=None), tmp_path / "out.zarr"
    build(source, target, 2, "max")
    chunk = source / "c" / "2" / "1"
    times = chunk.stat()
    chunk.write_bytes(bytes(16))
    os.utime(chunk, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(OptionError, match="has changed since it was made"):
        build(source, target, 2, "max")


def test_a_source_that_changes_while_it_is_read_is_found_out_and_the_next_run_makes_it_anew(tmp_path, monkeypatch):
    source, target = stored(tmp_path / "in.zarr"), tmp_path / "out.zarr"
    do = Pyramid.do

    def changing(self, work):
        do(self, work)
        zarr.open(source, mode="r+")[...] = 9

    with monkeypatch.context() as patch:
        patch.setattr(Pyramid, "do", changing)
        with pytest.raises(OptionError, match=r"in.zarr: changed while .*out.zarr was being built"):
            build(source, target, 2, "max")
    assert build(source, target, 2, "max")
    assert (level(target, 0) == 9).all()
    assert (level(target, 1) == 9).all()


def test_other_options_are_named(tmp_path):
    source, target = stored(tmp_path / "in.zarr"), tmp_path / "out.zarr"
    build(source, target, 2, "max")
    with pytest.raises(OptionError, match=r"it has op=max, not mean, it has levels=2, not 3"):
        build(source, target, 3, "mean")


def test_a_pyramid_that_lost_chunks_is_finished_again(tmp_path):
    source, target = stored(tmp_path / "in.zarr"), tmp_path / "out.zarr"
    build(source, target, 2, "max")
    whole = contents(target)
    (target / "1" / "c" / "0" / "1").unlink()
    assert build(source, target, 2, "max")
    assert contents(target) == whole


def test_a_mark_of_an_earlier_version_is_refused_or_replaced(tmp_path):
    source, target = stored(tmp_path / "in.zarr"), tmp_path / "out.zarr"
    build(source, target, 2, "max")
    old = {"pyramid": {"source": "in.zarr", "shape": [16, 16], "dtype": "uint8", "op": "max", "axes": "yx", "levels": 2}}
    zarr.open_group(target, mode="r+").attrs["windowgrad"] = {**old, "complete": True}
    with pytest.raises(OptionError, match="made by an earlier version, which did not record its source"):
        build(source, target, 2, "max")
    assert build(source, target, 2, "max", rebuild=True)


# --- what is not ours --------------------------------------------------------------------------------------------


def test_files_of_others_are_never_deleted(tmp_path, monkeypatch):
    source, target = stored(tmp_path / "in.zarr"), tmp_path / "out.zarr"
    stopped(monkeypatch, source, target, 2)
    others = ["notes.partial", "0/thesis.partial", "0/c/0/0.0123456789abcdef.partial", "labels/a/0.windowgrad-partial"]
    for name in others:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_text("mine")
    for name in ("", "1/", "0/c/1/"):
        (target / name / PARTIAL).parent.mkdir(parents=True, exist_ok=True)
        (target / name / PARTIAL).write_text("left by a killed run")
    build(source, target, 2, "max")
    assert all((target / name).read_text() == "mine" for name in others)
    assert not list(target.rglob(PARTIAL))
    assert build(source, target, 2, "max", rebuild=True)
    assert all((target / name).read_text() == "mine" for name in others)


def test_rebuilding_keeps_other_members_and_attributes_of_the_group(tmp_path):
    source, target = stored(tmp_path / "in.zarr"), tmp_path / "out.zarr"
    build(source, target, 3, "max")
    group = zarr.open_group(target, mode="r+")
    group.attrs.update({"mine": 1, "ome": {**group.attrs["ome"], "omero": {"channels": []}}})
    stored(target / "labels", seed=3)
    build(source, target, 2, "mean", rebuild=True)
    group = zarr.open_group(target, mode="r")
    assert (group.attrs["mine"], group.attrs["ome"]["omero"]) == (1, {"channels": []})
    assert sorted(group.array_keys()) == ["0", "1", "labels"]


def test_rebuilding_replaces_only_pyramids_of_this_command(tmp_path):
    source = stored(tmp_path / "in.zarr")
    zarr.create_group(tmp_path / "group.zarr")
    stored(tmp_path / "group.zarr" / "0")
    for target, error in ((tmp_path / "group.zarr", OptionError), (stored(tmp_path / "array.zarr"), KindError)):
        before = contents(target)
        with pytest.raises(error, match="nothing was changed"):
            build(source, target, 2, "max", rebuild=True)
        assert contents(target) == before


def test_a_rebuild_that_is_stopped_while_it_removes_uses_nothing_of_the_old(tmp_path, monkeypatch):
    first, second, target = stored(tmp_path / "a.zarr"), stored(tmp_path / "b.zarr", seed=1), tmp_path / "out.zarr"
    build(first, target, 2, "max")
    with monkeypatch.context() as patch:
        patch.setattr("windowgrad.pyramid.target.remove_array", lambda folder: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            build(second, target, 2, "max", rebuild=True)
    assert build(second, target, 2, "max")
    assert np.array_equal(level(target, 0), zarr.open(second)[...])


# --- two processes, and a killed one -----------------------------------------------------------------------------

CHILD = """
import signal, sys
from windowgrad import cli
from windowgrad.pyramid.build import Pyramid
signal.signal(signal.SIGINT, signal.default_int_handler)
do, asked = Pyramid.do, iter(range(1000))
def waiting(self, work):
    if next(asked) == 2:
        print("working", flush=True)
        sys.stdin.readline()
    do(self, work)
Pyramid.do = waiting
sys.argv = ["windowgrad", "pyramid", *sys.argv[1:], "--levels", "2", "--op", "max"]
cli.main()
"""


@pytest.fixture
def child():
    """A run in another process that waits in its third block for a line on its standard input."""
    running = []

    def start(source, target):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen([sys.executable, "-c", CHILD, source, target], text=True, **pipes)
        running.append(process)
        while "working" not in process.stdout.readline():
            assert process.poll() is None
        return process

    yield start
    for process in running:
        process.kill()
        process.communicate()


def test_a_second_process_on_one_output_is_told_so(tmp_path, child):
    source, target = stored(tmp_path / "in.zarr"), tmp_path / "out.zarr"
    process = child(source, target)
    with pytest.raises(OptionError, match=f"out.zarr: process {process.pid} is building this pyramid; wait until it ends"):
        build(source, target, 2, "max")
    process.communicate("go on\n")
    assert process.returncode == 0
    assert not build(source, target, 2, "max")
    assert not (target / LOCK).exists()


@pytest.mark.parametrize("ignored", [False, True])
def test_ctrl_c_leaves_what_the_next_run_goes_on_from(tmp_path, child, ignored):
    """Also where the parent ignores SIGINT, as a background job does: the child takes it up again."""
    source, target = stored(tmp_path / "in.zarr"), tmp_path / "out.zarr"
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if ignored else None
    try:
        process = child(source, target)
    finally:
        if ignored:
            signal.signal(signal.SIGINT, before)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate("go on\n")
    assert (process.returncode, errors.strip()) == (130, "windowgrad: interrupted")
    assert not (target / LOCK).exists()
    assert build(source, target, 2, "max")
    assert np.array_equal(level(target, 0), zarr.open(source)[...])


def test_the_lock_of_a_killed_process_holds_nobody_up(tmp_path, child):
    source, target = stored(tmp_path / "in.zarr"), tmp_path / "out.zarr"
    process = child(source, target)
    process.kill()
    process.communicate()
    assert (target / LOCK).exists()
    assert build(source, target, 2, "max")
    assert not (target / LOCK).exists()


# --- bounded memory ----------------------------------------------------------------------------------------------


def test_the_blocks_of_a_level_are_listed_as_they_are_made(tmp_path, monkeypatch):
    """However many chunks there are, no more of them are known at a time than are worked on."""
    listed, most, guard = [0], [0], threading.Lock()
    work, do = Pyramid.work, Pyramid.do

    def listing(self, level):
        for each in work(self, level):
            with guard:
                listed[0] += 1
            yield each

    def doing(self, each):
        with guard:
            most[0] = max(most[0], listed[0])
            listed[0] -= 1
        do(self, each)

    monkeypatch.setattr(Pyramid, "work", listing)
    monkeypatch.setattr(Pyramid, "do", doing)
    seen = []
    build(
        stored(tmp_path / "in.zarr", shape=(32, 32)), tmp_path / "out.zarr", 1, "max", progress=lambda *told: seen.append(told)
    )
    assert most[0] <= 1 + (os.cpu_count() or 1)
    assert seen[0] == (0, 0, 64)
    assert seen[-1] == (0, 64, 64)
