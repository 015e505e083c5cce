"""NaN and infinity are results of small array functions, not warnings, whatever the caller's error state is."""

import threading

import numpy as np
import pytest

import windowgrad as wg
from windowgrad import routes


@pytest.mark.parametrize("state", ["raise", "warn", "ignore"])
def test_the_error_state_of_the_caller_is_neither_used_nor_changed(state):
    with np.errstate(all=state):
        before = np.geterr()
        assert (wg.exp(np.full(3, 1e4)) == np.inf).all()
        assert (wg.add(np.full(3, 1e308), np.full(3, 1e308)) == np.inf).all()
        assert np.isnan(wg.vjp(wg.log, np.array([-1.0]))[0]).all()
        assert np.geterr() == before


def test_calls_within_calls_are_silent():
    def outer(params, x):
        return routes.in_silence(lambda params, y: y * 10, params, x) * 10

    with np.errstate(all="raise"):
        assert routes.in_silence(outer, None, np.array([1e308])) == np.inf
        assert routes.array_in_silence(outer, None, np.array([1e308])[0]).shape == ()


def test_a_call_that_raises_leaves_nothing_behind(monkeypatch):
    monkeypatch.setattr(routes, "SILENT", [])
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), np.errstate(all="raise"):
            routes.in_silence(lambda params, x: 1 // 0, None, np.ones(1))
        with pytest.raises(FloatingPointError), np.errstate(all="raise"):
            np.array([1e308]) * 10
    assert len(routes.SILENT) == 1


def test_many_threads_are_silent_at_once():
    x, wrong = np.full(1 << 13, 1e4), []  # NumPy computes so many without the GIL

    def caller():
        with np.errstate(all="raise"):
            try:
                wrong.extend(0 for _ in range(50) if not (wg.exp(x) == np.inf).all())
            except Exception as error:
                wrong.append(error)

    callers = [threading.Thread(target=caller) for _ in range(8)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join()
    assert not wrong
