"""Compiled kernels: never used when anything they depend on has changed, and never in the way when they cannot be kept."""

import hashlib
import os
import re
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from numba.core import types
from numba.extending import intrinsic

from windowgrad.kernels.runtime import cache, jit


@jit.helper
def double(v):
    return v + v


def total(x):
    found = 0.0
    for i in range(x.size):
        found += double(x[i])
    return found


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A cache of its own for each test."""
    monkeypatch.setenv("WINDOWGRAD_CACHE_DIR", str(tmp_path / "cache"))
    jit.cache_folder.cache_clear()
    cache.told.clear()
    yield tmp_path / "cache"
    jit.cache_folder.cache_clear()


def files(folder):
    return sorted(folder.glob("kernels-*/*"))


def hits(dispatcher):
    return sum(dispatcher.stats.cache_hits.values())


def compiled():
    """A new dispatcher of `total`, as a new process would have it, after one call."""
    dispatcher = jit.kernel(total)
    assert dispatcher(np.arange(4.0)) == 12
    return dispatcher


DAMAGES = {
    "emptied": lambda content: b"",
    "cut within the checksum": lambda content: content[:20],
    "cut after the checksum": lambda content: content[:32],
    "cut in half": lambda content: content[: len(content) // 2],
    "one byte short": lambda content: content[:-1],
    "a bit turned": lambda content: content[:1000] + bytes([content[1000] ^ 1]) + content[1001:],
    "whole, but something else": lambda content: hashlib.sha256(b"not a kernel").digest() + b"not a kernel",
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_compiled_again_and_replaced(folder, damage):
    assert hits(compiled()) == 0
    (kept,) = files(folder)
    assert hits(compiled()) == 1
    kept.write_bytes(damage(kept.read_bytes()))
    assert hits(compiled()) == 0
    assert files(folder) == [kept]
    assert hits(compiled()) == 1


def refuse(*_):
    raise OSError(30, "Read-only file system")


def warnings_of_three_kernels():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compiled()
        compiled()
        jit.kernel(total)(np.arange(3, dtype=np.float32))
    return [(warning.category, str(warning.message)) for warning in caught]


def test_a_folder_that_cannot_be_made_costs_one_warning_and_no_result(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WINDOWGRAD_CACHE_DIR", str(tmp_path / "file" / "cache"))
    ((kind, message),) = warnings_of_three_kernels()
    assert kind is RuntimeWarning
    assert re.fullmatch(
        "compiled kernels cannot be kept for the next run: Not a directory: .*; WINDOWGRAD_CACHE_DIR can name another folder",
        message,
    )


def test_a_folder_that_cannot_be_written_costs_one_warning_and_no_result(folder, monkeypatch):
    monkeypatch.setattr(os, "replace", refuse)
    ((kind, message),) = warnings_of_three_kernels()
    assert kind is RuntimeWarning
    assert f"Read-only file system: {folder}" in message
    assert not files(folder)


def test_a_read_only_folder_with_the_kernels_in_it_is_used_in_silence(folder, monkeypatch):
    compiled()
    for name in ("replace", "mkdir", "utime"):
        monkeypatch.setattr(os, name, refuse)
    jit.cache_folder.cache_clear()
    assert hits(compiled()) == 1


def test_without_a_home_kernels_are_compiled_and_not_kept(monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("WINDOWGRAD_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert compiled().stats.cache_path is None


@pytest.mark.parametrize("name", ["numba", "llvmlite", "np"])
def test_another_version_or_cpu_has_another_folder(name, monkeypatch):
    before = jit.cache_folder(__name__)
    monkeypatch.setattr(getattr(jit, name), "__version__", "0.0")
    jit.cache_folder.cache_clear()
    other = jit.cache_folder(__name__)
    monkeypatch.setattr(jit, "machine", lambda: ("another",))
    jit.cache_folder.cache_clear()
    assert len({before, other, jit.cache_folder(__name__)}) == 3


def scaled(function, factor):
    @jit.kernel
    def made(x):
        return function(x[0]) * factor

    return made


@jit.helper
def plain(v):
    return v


def emitting(number):
    """A kernel around an intrinsic, which is a function that writes code."""

    @intrinsic
    def emitted(context):
        return types.int64(), lambda context, builder, signature, arguments: context.get_constant(types.int64, number)

    @jit.kernel
    def made(x):
        return emitted()

    return made


def written(function):
    """A kernel written as text, with its helper in globals of its own."""
    space = {"helper": function, "__name__": __name__}
    exec("def made(x):\n    return helper(x[0])", space)
    return jit.kernel(space["made"])


@pytest.mark.parametrize(
    ("make", "values"),
    [
        (scaled, {(plain, 2): 6, (plain, 5): 15, (double, 2): 12}),
        (written, {(plain,): 3, (double,): 6}),
        (emitting, {(7,): 7, (8,): 8}),
    ],
)
def test_kernels_from_one_factory_are_told_apart(folder, make, values):
    x = np.full(1, 3.0)
    assert [make(*given)(x) for given in values] == list(values.values())
    assert len(files(folder)) == len(values)
    again = {given: make(*given) for given in values}
    assert [made(x) for made in again.values()] == list(values.values())
    assert [hits(made) for made in again.values()] == [1] * len(values)


def test_a_kernel_that_calls_itself_is_kept(folder):
    @jit.kernel
    def factorial(n):
        return 1 if n < 2 else n * factorial(n - 1)

    assert factorial(5) == 120
    assert len(files(folder)) == 1


def test_what_only_an_address_names_is_not_kept_and_says_so(folder):
    @jit.kernel
    def apply(function, v):
        return function(v)

    with pytest.warns(RuntimeWarning, match="kernel .*apply cannot be kept for the next run: it depends on something"):
        assert apply(double, 2) == 4
    assert not files(folder)


def test_a_kernel_of_no_module_is_not_kept_and_says_so(folder):
    space = {}
    exec("def made(x):\n    return x", space)
    with pytest.warns(RuntimeWarning, match="kernel made cannot be kept for the next run: it belongs to no module"):
        assert jit.kernel(space["made"])(2) == 2
    assert not files(folder)


def test_folders_of_ours_that_nobody_used_for_a_month_are_removed_and_nothing_else(folder):
    old, recent, mixed = (f"kernels-{digit * 32}" for digit in "abc")
    others = [
        "kernels-of-my-thesis",
        "kernels-",
        f"kernels-{'d' * 31}",
        f"kernels-{'D' * 32}",
        f"my-kernels-{'d' * 32}",
        "notes",
    ]
    files = {old: [f"f-{'0' * 32}.kernel", f".windowgrad-{'0' * 16}.tmp"], mixed: [f"f-{'0' * 32}.kernel", "mine.txt"]}
    for name in (old, recent, mixed, *others):
        (folder / name).mkdir(parents=True)
        for file in files.get(name, ["kept.txt"]):
            (folder / name / file).touch()
        moment = time.time() - (3 if name == recent else 40) * 86400
        os.utime(folder / name, (moment, moment))
    link = folder / f"kernels-{'e' * 32}"
    link.symlink_to(folder / others[0], target_is_directory=True)
    compiled()
    assert {path.name for path in folder.iterdir()} == {recent, mixed, link.name, *others, jit.cache_folder(__name__).name}
    assert [path.name for path in (folder / mixed).iterdir()] == ["mine.txt"]
    assert [path.name for path in (folder / others[0]).iterdir()] == ["kept.txt"]
    os.utime(jit.cache_folder(__name__), (0, 0))
    jit.cache_folder.cache_clear()
    assert jit.cache_folder(__name__).stat().st_mtime > time.time() - 86400  # to look into it is to use it


def test_the_folder_follows_the_custom_of_the_platform(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("WINDOWGRAD_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.user_cache() == tmp_path / "windowgrad"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative, so to be ignored")
    assert cache.user_cache() == Path.home() / ".cache" / "windowgrad"
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache.user_cache() == Path.home() / "Library" / "Caches" / "windowgrad"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert cache.user_cache() == tmp_path / "local" / "windowgrad" / "Cache"


def test_kernels_release_the_gil_divide_like_numpy_and_keep_the_order_of_sums():
    dispatcher = jit.kernel(total)
    assert dispatcher.targetoptions["nogil"]
    assert not dispatcher.targetoptions["fastmath"]
    divide = jit.kernel(lambda a, b: a / b)
    assert divide(1.0, 0.0) == np.inf
    assert np.isnan(divide(0.0, 0.0))


def test_threads_that_call_a_new_kernel_at_once_compile_it_once(folder):
    dispatcher = jit.kernel(total)
    found = []
    callers = [threading.Thread(target=lambda: found.append(dispatcher(np.arange(4.0)))) for _ in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert found == [12] * 8
    assert sum(dispatcher.stats.cache_misses.values()) == 1
