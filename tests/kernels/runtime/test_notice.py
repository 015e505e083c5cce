"""Whoever waits at a terminal for kernels to be compiled is told so, once; nobody else is."""

import os
import subprocess
import sys

import pytest

from support.interpreter import fresh
from windowgrad.kernels.runtime import notice

CODE = """
import numpy as np
from windowgrad.kernels.runtime import jit, notice

notice.PATIENCE = {patience}

@jit.helper
def double(v):
    return v + v

@jit.kernel
def first(x):
    return double(x[0])

@jit.kernel
def second(x):
    return double(x[0]) + first(x)

print(first(np.full(1, 3.0)), second(np.full(1, 3.0)))
"""
RESULT = "6.0 12.0\n"


def at_terminal(code, **environment):
    """What the code writes to standard error, which is a terminal."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-W", "error", "-c", code]
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        process = subprocess.Popen(command, env=os.environ | environment, stdout=subprocess.PIPE, stderr=theirs, text=True)
        os.close(theirs)
        assert process.communicate(timeout=120) == (RESULT, None)
        assert process.returncode == 0
        written = b""
        try:
            while part := terminal.read(4096):
                written += part
        except OSError:  # Linux: the other end is closed
            pass
    return written.decode().replace("\r\n", "\n")


@pytest.fixture
def folder(tmp_path):
    return {"WINDOWGRAD_CACHE_DIR": str(tmp_path), "WINDOWGRAD_QUIET": ""}


def test_compiling_that_takes_long_says_so_once_at_a_terminal_and_loading_does_not(folder):
    code = CODE.format(patience=0)
    assert at_terminal(code, **folder) == f"{notice.LINE}\n"
    assert at_terminal(code, **folder) == ""


def test_compiling_that_is_quick_says_nothing(folder):
    assert at_terminal(CODE.format(patience=1e9), **folder) == ""


def test_the_line_can_be_switched_off(folder):
    assert at_terminal(CODE.format(patience=0), **folder | {"WINDOWGRAD_QUIET": "1"}) == ""


def test_nothing_is_written_into_a_pipe(folder):
    assert fresh(CODE.format(patience=0), **folder) == RESULT


@pytest.mark.parametrize("stream", ["None", "object()", "closed"])
def test_a_standard_error_that_is_none_hurts_nobody(folder, stream):
    change = f"import sys, io\nclosed = io.StringIO(); closed.close(); kept, sys.stderr = sys.stderr, {stream}\n"
    assert fresh(change + CODE.format(patience=0) + "sys.stderr = kept\n", **folder) == RESULT


def test_the_time_of_all_kernels_counts(monkeypatch):
    now = iter([0.0, 0.3, 0.3, 1.0, 1.1, 1.3, 1.3])
    monkeypatch.setattr(notice.time, "monotonic", lambda: next(now))
    wait = notice.Wait()
    with wait.compiling():  # from 0.0
        wait.look()  # at 0.3
        assert not wait.told
    assert wait.before == 0.3
    with wait.compiling(), wait.compiling():  # from 1.0: a kernel that calls another one
        wait.look()  # at 1.1
        assert not wait.told
        wait.look()  # at 1.3
        assert wait.told
