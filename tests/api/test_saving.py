"""Files the library writes for a user: replaced as a whole, and only where a regular file stands or none."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys

import numpy as np
import pytest

import windowgrad as wg
from windowgrad import nn, saving
from windowgrad.conform.report.file import write as write_report
from windowgrad.demo import checkpoint, picture
from windowgrad.demo.digits import digits
from windowgrad.demo.training import Recipe, State, begin

posix = pytest.mark.skipif(sys.platform == "win32", reason="named pipes, modes and signals of POSIX")


def write_picture(path):
    start = begin(Recipe())
    picture.draw(path, Recipe(), State(start.params, start.moments, start.rng, (1.0, 0.5), (0.9,)), digits()[1])


WRITERS = {
    "nn.save": lambda path: nn.save(path, {"b": np.ones(2), "a": np.zeros(3, np.float32)}, extra={"epoch": 3}),
    "checkpoint": lambda path: checkpoint.save(path, Recipe(), begin(Recipe())),
    "report": lambda path: write_report(path, "a report"),
    "picture": write_picture,
}
everywhere = pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)


def a_socket(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


THINGS = {
    "a named pipe": os.mkfifo,
    "a socket": a_socket,
    "a folder": os.mkdir,
}


@posix
@everywhere
@pytest.mark.parametrize("linked", [False, True], ids=["itself", "through a link"])
@pytest.mark.parametrize("what", THINGS)
def test_what_is_not_a_regular_file_is_never_replaced(tmp_path, monkeypatch, write, what, linked):
    monkeypatch.chdir(tmp_path)  # the name of a socket is short
    thing = tmp_path / "thing"
    THINGS[what]("thing")
    path = tmp_path / "link" if linked else thing
    if linked:
        path.symlink_to("thing")
    before, names = os.lstat(thing), sorted(os.listdir())
    with pytest.raises(wg.OptionError) as caught:
        write(path)
    assert str(caught.value) == f"{path}: is {what}; only a regular file can be replaced"
    assert os.lstat(thing) == before
    assert sorted(os.listdir()) == names


@posix
@everywhere
def test_the_permissions_of_the_file_that_is_replaced_are_kept(tmp_path, write):
    path = tmp_path / "file"
    path.write_text("old")
    for mode in (0o600, 0o640, 0o664):
        path.chmod(mode)
        write(path)
        assert stat.S_IMODE(path.stat().st_mode) == mode
        assert path.read_bytes()[:3] != b"old"
    assert os.listdir(tmp_path) == ["file"]


@posix
@everywhere
def test_a_new_file_follows_the_umask_and_a_link_leads_to_its_target(tmp_path, write):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    link = tmp_path / "link"
    link.symlink_to("elsewhere/file")
    before = os.umask(0o027)
    try:
        write(link)
    finally:
        os.umask(before)
    assert link.is_symlink()
    assert stat.S_IMODE((folder / "file").stat().st_mode) == 0o640
    first = (folder / "file").stat().st_ino
    write(link)
    assert link.is_symlink()
    assert (folder / "file").stat().st_ino != first  # replaced, not written into
    assert os.listdir(folder) == ["file"]


@posix
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a file to another user")
@everywhere
def test_the_owner_of_the_file_that_is_replaced_is_kept_where_that_is_allowed(tmp_path, write):
    path = tmp_path / "file"
    path.write_text("old")
    os.chown(path, 12345, 54321)
    path.chmod(0o640)
    write(path)
    found = path.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (12345, 54321, 0o640)


@everywhere
def test_the_same_content_is_the_same_bytes(tmp_path, write):
    path, seen = tmp_path / "file", set()
    for _ in range(5):
        write(path)
        seen.add(path.read_bytes())
    assert len(seen) == 1


@everywhere
def test_a_folder_that_does_not_exist_is_named_by_the_path_that_was_asked_for(tmp_path, write):
    path = tmp_path / "missing" / "file"
    with pytest.raises((OSError, wg.OptionError)) as caught:
        write(path)
    assert str(path) in str(caught.value)
    assert ".tmp" not in str(caught.value)


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError, MemoryError])
@pytest.mark.parametrize("moment", ["fsync", "fchmod", "replace"])
@pytest.mark.parametrize("anonymous", [True, False])
def test_an_interrupt_at_any_moment_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, moment, error, anonymous):
    path = tmp_path / "file"
    path.write_text("old")
    if not anonymous:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    real = getattr(os, moment)

    def interrupted(*arguments):
        monkeypatch.setattr(os, moment, real)
        raise error

    monkeypatch.setattr(os, moment, interrupted)
    with pytest.raises(error), saving.replacing(path) as file:
        file.write(b"new")
    assert os.listdir(tmp_path) == ["file"]
    assert path.read_text() == "old"


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="files without a name are Linux's")
def test_where_a_file_without_a_name_cannot_get_one_the_content_is_copied(tmp_path, monkeypatch):
    def refused(*_, **__):
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o604)
    with saving.replacing(path) as file:
        file.write(b"new" * 100_000)
    assert path.read_bytes() == b"new" * 100_000
    assert stat.S_IMODE(path.stat().st_mode) == 0o604
    assert os.listdir(tmp_path) == ["file"]


KILLED = """
import os, signal, sys
from windowgrad import saving
with saving.replacing(sys.argv[1]) as file:
    file.write(b"half of it")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="files without a name are Linux's")
def test_a_process_killed_while_it_writes_leaves_no_temporary_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    assert subprocess.run([sys.executable, "-c", KILLED, path]).returncode == -signal.SIGKILL
    assert os.listdir(tmp_path) == ["file"]
    assert path.read_text() == "old"


def test_a_name_as_long_as_the_file_system_allows_can_be_written(tmp_path):
    path = tmp_path / ("n" * 255)
    for content in (b"one", b"two"):
        with saving.replacing(path) as file:
            file.write(content)
        assert path.read_bytes() == content
