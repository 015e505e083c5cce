"""The cache of kernels holds code that is executed: none is taken from where another user could have put it."""

from __future__ import annotations

import hashlib
import os
import pickle
import signal
import stat
import subprocess
import sys
import warnings

import numpy as np
import pytest

from support.interpreter import fresh
from windowgrad.kernels.runtime import cache, jit

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="owners and modes are POSIX's")
only_root = pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() != 0, reason="only root can give files away")
SOMEONE = 12345


def total(x):
    return x[2] + x[3] + 1


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    """A cache of its own for each test, in a folder of its own."""
    monkeypatch.setenv("WINDOWGRAD_CACHE_DIR", str(tmp_path / "above" / "cache"))
    jit.cache_folder.cache_clear()
    cache.told.clear()
    yield tmp_path / "above" / "cache"
    jit.cache_folder.cache_clear()


def call():
    """How often a new dispatcher, as a new process would have it, loads its kernel in one call, and what it warns of."""
    dispatcher = jit.kernel(total)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert dispatcher(np.arange(4.0)) == 6
    return sum(dispatcher.stats.cache_hits.values()), [str(warning.message) for warning in caught]


def kept(root):
    (file,) = root.glob("kernels-*/*.kernel")
    return file


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_folders_and_files_are_made_for_their_user_alone(root):
    before = os.umask(0)
    try:
        assert call() == (0, [])
    finally:
        os.umask(before)
    assert [mode(each) for each in (root.parent, root, kept(root).parent, kept(root))] == [0o700, 0o700, 0o700, 0o600]
    assert call() == (1, [])


PLACES = {"the folder of the kernels": 0, "the folder above it": 1, "a folder further up": 2}


@pytest.mark.parametrize("opened", [0o777, 0o770, 0o722, 0o702])
@pytest.mark.parametrize("up", PLACES.values(), ids=PLACES)
def test_a_kernel_is_not_loaded_from_a_folder_that_others_can_write_and_that_is_said_once(root, up, opened):
    call()
    file = kept(root)
    place = file.parents[up]
    place.chmod(opened)
    content = file.read_bytes()
    hits, (warning,) = call()
    assert hits == 0
    assert warning == (
        f"compiled kernels cannot be kept for the next run: other users can write to {place} (mode {opened:04o}, "
        "to be mended by chmod go-w); WINDOWGRAD_CACHE_DIR can name another folder"
    )
    assert call() == (0, [])
    assert file.read_bytes() == content
    place.chmod(0o700)
    assert call() == (1, [])


def test_a_sticky_folder_further_up_is_safe_and_one_that_holds_the_kernels_is_not(root):
    call()
    root.parent.chmod(0o1777)
    assert call() == (1, [])
    root.chmod(0o1777)
    assert call()[0] == 0


@only_root
@pytest.mark.parametrize("up", PLACES.values(), ids=PLACES)
def test_a_kernel_is_not_loaded_from_a_folder_of_another_user(root, up):
    call()
    place = kept(root).parents[up]
    os.chown(place, SOMEONE, -1)
    hits, (warning,) = call()
    assert hits == 0
    assert f"{place} belongs to another user (number {SOMEONE})" in warning
    assert call() == (0, [])


@only_root
def test_a_link_of_another_user_on_the_way_is_not_followed(root, tmp_path, monkeypatch):
    call()
    common = tmp_path / "common"
    common.mkdir()
    common.chmod(0o1777)
    (common / "link").symlink_to(root)
    monkeypatch.setenv("WINDOWGRAD_CACHE_DIR", str(common / "link"))
    jit.cache_folder.cache_clear()
    assert call() == (1, [])  # it is ours
    os.lchown(common / "link", SOMEONE, SOMEONE)
    hits, (warning,) = call()
    assert hits == 0
    assert f"{common / 'link'} belongs to another user" in warning


def test_a_link_through_a_folder_that_others_can_write_is_not_followed(root, tmp_path, monkeypatch):
    call()
    common = tmp_path / "common"
    common.mkdir()
    (common / "second").symlink_to(root)
    (tmp_path / "first").symlink_to("common/../common/second")
    monkeypatch.setenv("WINDOWGRAD_CACHE_DIR", str(tmp_path / "first"))
    jit.cache_folder.cache_clear()
    assert call() == (1, [])
    common.chmod(0o777)
    assert call()[0] == 0


def writable(file):
    file.chmod(0o666)


def linked(file):
    file.rename(file.parent / "elsewhere")
    file.symlink_to("elsewhere")


def given_away(file):
    os.chown(file, SOMEONE, -1)


def a_pipe(file):
    file.unlink()
    os.mkfifo(file, 0o600)


def waited(*_):
    raise TimeoutError("it waits for a writer")


@pytest.mark.parametrize("spoil", [writable, linked, a_pipe, pytest.param(given_away, marks=only_root)])
def test_a_file_that_may_not_be_used_is_compiled_again_and_replaced(root, spoil):
    """None of them is opened in a way that waits."""
    call()
    file = kept(root)
    spoil(file)
    before = signal.signal(signal.SIGALRM, waited)
    signal.alarm(60)
    try:
        assert call() == (0, [])
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert stat.S_ISREG(file.lstat().st_mode)
    assert mode(file) == 0o600
    assert call() == (1, [])


def test_a_folder_in_the_place_of_a_file_costs_one_warning(root):
    call()
    file = kept(root)
    file.unlink()
    file.mkdir()
    hits, (warning,) = call()
    assert hits == 0
    assert "Is a directory" in warning
    assert list(file.parent.iterdir()) == [file]


class Trap:
    """Whoever unpickles it is caught."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return (os.mkdir, (self.path,))


def test_a_pickle_with_a_checksum_that_fits_is_not_run(root, tmp_path):
    call()
    payload = pickle.dumps(Trap(tmp_path / "sprung"))
    kept(root).write_bytes(hashlib.sha256(payload).digest() + payload)
    assert call() == (0, [])
    assert not (tmp_path / "sprung").exists()
    assert call() == (1, [])


def test_the_code_of_another_function_or_of_a_module_never_imported_is_not_used(root):
    call()
    file = kept(root)
    content = file.read_bytes()
    for old, new in ((b"test_cache_safety", b"test_cache_safetx"), (b"5totalB", b"5tatolB")):
        assert old in content
        payload = content[32:].replace(old, new)
        file.write_bytes(hashlib.sha256(payload).digest() + payload)
        assert call() == (0, [])
        assert file.read_bytes() != hashlib.sha256(payload).digest() + payload


def test_where_warnings_are_errors_the_first_call_says_so_and_the_next_is_computed(root):
    root.parent.mkdir()
    root.parent.chmod(0o777)
    dispatcher = jit.kernel(total)
    with pytest.raises(RuntimeWarning, match="other users can write to"):
        dispatcher(np.arange(4.0))
    assert dispatcher(np.arange(4.0)) == 6
    assert jit.kernel(total)(np.arange(4.0)) == 6
    assert not root.exists()


# --- what the variable may say -----------------------------------------------------------------------------------


def test_a_tilde_is_the_home_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WINDOWGRAD_CACHE_DIR", "~/kernels")
    assert cache.user_cache() == tmp_path / "kernels"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WINDOWGRAD_CACHE_DIR", "beside")
    assert cache.user_cache() == tmp_path / "beside"
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    for nothing in ("", " "):
        monkeypatch.setenv("WINDOWGRAD_CACHE_DIR", nothing)
        assert cache.user_cache() == tmp_path / ".cache" / "windowgrad"


def test_the_home_of_a_user_who_does_not_exist_costs_one_warning(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WINDOWGRAD_CACHE_DIR", "~nobody-of-this-name/kernels")
    jit.cache_folder.cache_clear()
    hits, (warning,) = call()
    assert hits == 0
    assert warning.endswith("WINDOWGRAD_CACHE_DIR=~nobody-of-this-name/kernels names a user who does not exist")
    assert call() == (0, [])
    assert not list(tmp_path.iterdir())


def test_a_path_that_cannot_be_costs_one_warning(monkeypatch, tmp_path):
    for path in (tmp_path / ("n" * 300), tmp_path / "loop" / "cache"):
        if not os.path.lexists(tmp_path / "loop"):
            (tmp_path / "loop").symlink_to("loop")
        monkeypatch.setenv("WINDOWGRAD_CACHE_DIR", str(path))
        jit.cache_folder.cache_clear()
        hits, (warning,) = call()
        assert hits == 0
        assert warning.endswith("; WINDOWGRAD_CACHE_DIR can name another folder")
        assert call() == (0, [])


FULL = """
import resource, sys, warnings
import test_cache_safety as t
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
print(t.call()[1])
print(t.call()[1])
"""


def test_a_full_disk_costs_one_warning_and_leaves_nothing(root):
    """A limit on the size of files fails in the same place."""
    first, second = fresh(FULL, PYTHONPATH=os.pathsep.join(sys.path)).splitlines()
    assert "File too large" in first
    assert second == "[]"
    assert not list(root.glob("kernels-*/*"))
    assert not list(root.glob("kernels-*/.*"))


# --- who may write above -----------------------------------------------------------------------------------------

AS_USER = """
import grp, os, pwd, sys
from windowgrad.kernels.runtime import cache
group, user, other = map(int, sys.argv[1:])
os.setgroups([]); os.setgid(group); os.setuid(user)
for mode, owner in ((0o40775, group), (0o40775, other), (0o40777, group), (0o41777, other)):
    found = os.stat_result((mode, 0, 0, 1, user, owner, 0, 0, 0, 0))
    print(cache.is_safe_above("/", found))
"""


@only_root
def test_a_group_of_the_users_own_may_write_further_up_but_no_other_group_and_not_the_world():
    import grp
    import pwd

    groups = {user: grp.getgrgid(user.pw_gid) for user in pwd.getpwall() if user.pw_uid}
    own = [user for user, group in groups.items() if group.gr_name == user.pw_name and not set(group.gr_mem) - {user.pw_name}]
    if not own:
        pytest.skip("no user here has a group of its own")
    command = [sys.executable, "-c", AS_USER, *map(str, (own[0].pw_gid, own[0].pw_uid, SOMEONE))]
    asked = subprocess.run(command, capture_output=True, text=True, check=True)
    assert asked.stdout.split() == ["True", "False", "False", "True"]
