"""Stores past the caches: that they are such stores, where they may be, and from how many bytes on outputs are written so."""

import shutil

import numpy as np
import pytest
from numba import types
from numba.extending import intrinsic

from windowgrad.kernels.runtime import last_cache
from windowgrad.kernels.runtime.jit import compiled
from windowgrad.kernels.vector.loops import Emitter
from windowgrad.kernels.vector.ops import address
from windowgrad.kernels.vector.past import LINE, fills_lines, put, settled
from windowgrad.kernels.vector.types import Vec, read


@intrinsic
def copy_line(typing, x, y, past):
    """The first line of x to that of y."""
    v = Vec(x.dtype, LINE * 8 // x.dtype.bitwidth)

    def emit(context, builder, signature, args):
        e = Emitter(context, builder, x.dtype)
        put(builder, read(context, builder, x, args[0], e.int(0), v), e.place((y, args[1]), e.int(0), v), v, args[2])
        return context.get_dummy_value()

    return types.void(x, y, types.boolean), emit


@compiled
def copy(x, y, past):
    copy_line(address(x), address(y), past)
    if past:
        settled()


@compiled
def asked(x, n):
    return fills_lines(address(x), n)


def lines(n, dtype):
    """n lines, and where they begin in memory a line does."""
    memory = np.zeros((n + 1) * LINE, np.uint8)
    begin = -memory.ctypes.data % LINE
    return memory[begin : begin + n * LINE].view(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_line_is_written_whichever_way(dtype):
    for past in (True, False):
        x, y = lines(3, dtype), lines(3, dtype)
        x[:] = np.arange(1, x.size + 1)
        copy(x, y, past)
        one = y.size // 3
        assert (y[:one] == x[:one]).all()
        assert (y[one:] == 0).all()
    code = copy.inspect_llvm(copy.signatures[-1])
    assert "!nontemporal" in code
    assert "fence" in code


def test_rows_fill_lines_where_all_of_them_begin_with_one():
    x = lines(4, np.float32)
    assert asked(x, 16)
    assert asked(x, 32)
    assert asked(x[16:], 16)
    assert not asked(x, 8)
    assert not asked(x, 17)
    assert not asked(x[1:], 16)
    assert asked(lines(4, np.float64), 8)
    assert not asked(lines(4, np.float64), 4)


# --- how large the caches are --------------------------------------------------------------------------------------


def described(folder, cpus):
    """A folder that describes the caches of CPUs as Linux does: {cpu: (kibibytes, CPUs that share it)}."""
    for cpu, (size, shared) in cpus.items():
        for index, (kib, who) in {"index0": (48, str(cpu)), "index3": (size, shared)}.items():
            cache = folder / f"cpu{cpu}" / "cache" / index
            cache.mkdir(parents=True)
            (cache / "size").write_text(f"{kib}K\n")
            (cache / "shared_cpu_list").write_text(f"{who}\n")
    return folder


def test_the_last_caches_of_our_cpus_are_added_once_each(tmp_path):
    cpus = described(tmp_path, {0: (8192, "0-1,4"), 1: (8192, "0-1,4"), 2: (1024, "2"), 4: (8192, "0-1,4")})
    assert list(last_cache.sizes(cpus, {0, 1, 4})) == [8192 << 10]
    assert sorted(last_cache.sizes(cpus, {0, 2, 4})) == [1024 << 10, 8192 << 10]


@pytest.mark.parametrize("broken", ["no folder", "no cache", "no number"])
def test_where_the_system_does_not_say_something_is_assumed(tmp_path, monkeypatch, broken):
    cpus = described(tmp_path / "cpus", dict.fromkeys(range(3), ("large", "0-2") if broken == "no number" else (1024, "0-2")))
    if broken == "no cache":
        shutil.rmtree(cpus / "cpu0" / "cache")
    monkeypatch.setattr(last_cache, "CPUS", tmp_path if broken == "no folder" else cpus)
    monkeypatch.setattr(last_cache.os, "sched_getaffinity", lambda process: {0, 1, 2}, raising=False)
    assert last_cache.last_caches.__wrapped__() == last_cache.UNKNOWN


def test_what_this_machine_says_is_a_size():
    assert last_cache.least_past() == last_cache.LARGER * last_cache.last_caches() >= 1 << 20
