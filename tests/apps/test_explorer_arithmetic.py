"""The explorer's script computes what the specification computes, in a real browser: the arithmetic, its words, its limits."""

import re
from random import Random

import pytest

from support.browser import browser
from support.explorer_compare import differences
from support.explorer_draws import OPERATORS, OTHERS
from support.explorer_meaning import case
from support.explorer_script import SOURCE, answers, load

COUNT, FEW = 3500, 300


@pytest.fixture(scope="module")
def cases():
    random = Random(7)
    return [case(random) for _ in range(COUNT)]


@pytest.fixture(scope="module")
def started():
    with browser() as found:
        yield found


@pytest.fixture
def chrome(started):
    """A page with the script alone, of which the browser does not complain."""
    load(started)
    yield started
    assert started.get_log("browser") == []


def parted(chrome, cases):
    """The settings of which the script says something else than the specification, each with what differs."""
    found = answers(chrome, [state for state, _ in cases])
    pairs = zip(cases, found, strict=True)
    return [(names, state) for (state, wanted), said in pairs if (names := differences(wanted, said))]


def test_the_script_computes_what_the_specification_computes(chrome, cases):
    wrong = parted(chrome, cases)
    assert not wrong, f"{len(wrong)} of {COUNT} differ, the first in {wrong[0]}"


def test_the_settings_cover_every_operator_rule_and_error(cases):
    """The comparison is worth what is drawn: all that may go wrong is seen many times."""
    valid = [(state, answer) for state, answer in cases if "error" not in answer]
    errors = {re.sub(r"[-\d.(), ]+", " ", answer["error"]) for _, answer in cases if "error" in answer}
    assert len(valid) > 2400
    assert len(errors) > 20
    for op in OPERATORS + OTHERS:
        assert sum(state["op"] == op for state, _ in valid) > 60, op
    windows = [window for _, answer in valid for window in answer["windows"]]
    assert sum(window["past"] > 0 for window in windows) > 150
    assert sum(not window["flats"] for window in windows) > 1000
    assert sum(len(window.get("winners", ())) > 1 for window in windows) > 300


FAULTS = {
    "the last of equal cells wins": ("(wins(value, best) ? value : best)", "(wins(best, value) ? best : value)"),
    "the first winner is the last": ("equal.slice(0, 1)", "equal.slice(-1)"),
    "the overhang counts as padding": ('isPast ? "past" : "padding"', '"padding"'),
    "NaN loses": ("Number.isNaN(a) && !Number.isNaN(b) :", "!Number.isNaN(a) && Number.isNaN(b) :"),
    "a mean is added backwards": (
        "cells.reduce((sum, cell) => sum + cell.value, 0)",
        "cells.reduceRight((sum, cell) => sum + cell.value, 0)",
    ),
    "a mean keeps the sign of zero": (
        "cells.reduce((sum, cell) => sum + cell.value, 0)",
        "cells.reduce((sum, cell) => sum + cell.value, -0)",
    ),
    "the bias is added last": ("0 + (s.bias ?? 0));", "0) + (s.bias ?? 0);"),
    "a last window that starts past the input stays": ("if (start < lo + n)", "if (start <= lo + n)"),
    "the cells of a transposed window are in the order of taps": (".reverse(); // the first", "; // the first"),
    "an infinite cell is not as great as itself": ("Math.abs(a) === Infinity && a === top", "false"),
    "padded zeros weigh once": ("padded * weigh(0)", "1 * weigh(0)"),
    "the first of several indices is kept": ("flats.slice(-1)", "flats.slice(0, 1)"),
    "ties are not split": ("g / winners.length", "g"),
    "a message says something else": ("must be at least ${least}", "must be ${least} or more"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_on_purpose_is_found(chrome, cases, fault):
    right, wrong = FAULTS[fault]
    source = SOURCE.read_text("utf-8")
    assert source.count(right) == 1
    load(chrome, source.replace(right, wrong))
    assert parted(chrome, cases[:FEW])


# --- words -------------------------------------------------------------------------------------------------------


def told(chrome, what, **state):
    return chrome.execute_script(f"const answer = windows.answer(arguments[0]); return {what}", state)


WORDS = [
    ("max(3, 3, 1) = 3, the first of 2 equal cells", {"op": "max_pool", "cells": [3, 3, 1]}),
    ("max(3, 3, 1) = 3, 2 equal cells", {"op": "global_max_pool", "cells": [3, 3, 1]}),
    ("min(2.5, −1) = −1", {"op": "adaptive_min_pool", "cells": [2.5, -1], "output_size": [1]}),
    ("no cell: 0", {"op": "max_pool", "cells": [3], "kernel_size": [1], "padding": [[1, 0]]}),
    ("(2 − 4 + 0) / 3 ≈ −0.666667", {"op": "avg_pool", "cells": [2, -4], "kernel_size": [3], "padding": [[0, 1]]}),
    (
        "(2 + 4) / 2 = 3",
        {"op": "avg_pool", "cells": [2, 4], "kernel_size": [3], "padding": [[0, 1]], "count_include_pad": False},
    ),
    ("2 / 5 = 0.4", {"op": "avg_pool", "cells": [2], "kernel_size": [1], "divisor_override": 5}),
    ("log(e^(−1·2) + e^(−1·(−3))) / (−1) ≈ −3.00672", {"op": "smooth_max_pool", "cells": [2, -3], "beta": -1}),
    ("0.5 + 1·2 − 3·(−4) = 14.5", {"op": "conv", "cells": [2, -4], "weight": [1, -3], "bias": 0.5}),
    ("1·2 = 2", {"op": "conv_transpose", "cells": [2, -4], "weight": [1, -3]}),
    ("7 from cell (2,), the last of 2 with this index", {"op": "max_unpool", "cells": [5, 6, 7], "indices": [0, 1, 0]}),
    ("5 + 7 = 12", {"op": "max_unpool", "cells": [5, 6, 7], "indices": [0, 1, 0], "duplicates": "add"}),
    ("no cell has this index: 0", {"op": "max_unpool", "cells": [5], "indices": [-1]}),
    ("(1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + … (9 more)) / 20 = 1", {"op": "global_avg_pool", "cells": [1] * 20}),
]


@pytest.mark.parametrize(("words", "state"), WORDS, ids=[words for words, _ in WORDS])
def test_the_words_are_the_arithmetic(chrome, words, state):
    size = [len(state["cells"])]
    assert told(chrome, "answer.window(0).words", **{"size": size, "kernel_size": size, **state}) == words


FORMULAS = [
    ("⌊(5 + 1 + 1 − 1·(3 − 1) − 1) / 2⌋ + 1 = 3", {"op": "max_pool", "padding": [[1, 1]], "kernel_size": [3], "stride": [2]}),
    ("⌈(5 + 0 + 0 − 1·(2 − 1) − 1) / 2⌉ + 1 = 3", {"op": "avg_pool", "kernel_size": [2], "ceil_mode": True}),
    (
        "⌈(5 + 0 + 1 − 1·(1 − 1) − 1) / 5⌉ + 1 = 2, less 1 = 1: "
        "the last window would start at place 5, past the 0 + 5 places of padding and input",
        {"op": "max_pool", "padding": [[0, 1]], "kernel_size": [1], "stride": [5], "ceil_mode": True},
    ),
    ("3 bins: bin i is [⌊i·5/3⌋, ⌈(i + 1)·5/3⌉)", {"op": "adaptive_max_pool", "output_size": [3]}),
    ("5 bins: bin i is [⌊i·5/5⌋, ⌈(i + 1)·5/5⌉)", {"op": "adaptive_max_pool", "output_size": [None]}),
    ("1: all of 5 cells", {"op": "global_avg_pool"}),
    (
        "(5 − 1)·2 + 1·(3 − 1) + 1 + 1 − 1 − 0 = 11",
        {
            "op": "conv_transpose",
            "kernel_size": [3],
            "stride": [2],
            "padding": [[1, 0]],
            "output_padding": [1],
            "weight": [1, 1, 1],
        },
    ),
    ("output_size = 12", {"op": "max_unpool", "kernel_size": [2], "output_size": [12], "indices": [0] * 5}),
]


@pytest.mark.parametrize(("formula", "state"), FORMULAS, ids=[state["op"] for _, state in FORMULAS])
def test_the_formula_of_the_size_has_its_numbers(chrome, formula, state):
    assert told(chrome, "answer.formula", size=[5], cells=[1] * 5, **state) == [formula]


# --- limits ------------------------------------------------------------------------------------------------------

LARGE = [
    ("size=1000000000 on axis 0: too large for the explorer, at most 67108864", {"size": [10**9]}),
    ("67000000 cells: too many for the explorer, at most 65536", {"size": [67_000_000]}),
    ("120000 outputs: too many for the explorer, at most 65536", {"padding": [[60_000, 59_995]], "kernel_size": [1]}),
    (
        "1205000 places in windows: too many for the explorer, at most 262144",
        {"padding": [[1_000, 1_199]], "kernel_size": [1000], "stride": [1]},
    ),
    (
        "67000000 places in windows: too many for the explorer, at most 262144",
        {"padding": [[0, 67_000_000]], "kernel_size": [67_000_000]},
    ),
    ("60000000 outputs: too many for the explorer, at most 65536", {"op": "adaptive_max_pool", "output_size": [60_000_000]}),
    (
        "240000005 outputs: too many for the explorer, at most 65536",
        {"op": "conv_transpose", "stride": [60_000_000], "kernel_size": [5]},
    ),
]


@pytest.mark.parametrize(("message", "state"), LARGE, ids=[message for message, _ in LARGE])
def test_what_is_too_large_is_refused_before_it_is_made(chrome, message, state):
    state = {"op": "max_pool", "size": [5], "cells": [1] * 5, "kernel_size": [2], **state}
    assert answers(chrome, [state]) == [{"error": message}]


WRONG = [
    ("op='mode_pool': not an operator of the explorer", {"op": "mode_pool"}),
    ("op='constructor': not an operator of the explorer", {"op": "constructor"}),
    ("size: must be a list of 1 to 3 integers", {"size": [1, 1, 1, 5]}),
    ("cells: must be a list of 5 numbers", {"cells": [1, 2]}),
    ("cells: must be a list of 5 numbers", {"cells": [1, 2, 3, 4, None]}),
    ("cotangent: must be a list of 2 numbers", {"cotangent": [1]}),
    ("weight: must be a list of 2 numbers", {"op": "conv", "weight": [1, 2, 3]}),
    ("kernel_size: must be a list with one entry per axis", {"kernel_size": 2}),
    ("padding on axis 0: must be a (before, after) pair", {"padding": [1]}),
]


@pytest.mark.parametrize(("message", "state"), WRONG, ids=[message for message, _ in WRONG])
def test_what_the_library_cannot_be_asked_has_words_of_its_own(chrome, message, state):
    state = {"op": "max_pool", "size": [5], "cells": [1] * 5, "kernel_size": [2], **state}
    asked = "try { return windows.answer(arguments[0]).out } catch (error) { return error.message }"
    assert chrome.execute_script(asked, state) == message


def test_an_output_that_does_not_exist_is_refused(chrome):
    asked = """const { window, gives } = windows.answer(arguments[0]);
    return [() => window(2), () => window(-1), () => gives(0.5)].map((ask) => {
      try { return ask() } catch (error) { return error.message }
    })"""
    state = {"op": "max_pool", "size": [4], "cells": [1] * 4, "kernel_size": [2]}
    assert chrome.execute_script(asked, state) == [f"output {o}: must be from 0 to 1" for o in (2, -1, 0.5)]


def test_settings_of_other_operators_are_not_looked_at(chrome):
    """A page keeps them while the operator changes."""
    kept = {"kernel_size": [0], "stride": [0], "padding": [[-1, 0]], "divisor_override": 0, "beta": 0, "ties": "none"}
    kept |= {"indices": [99], "weight": [], "bias": "", "output_padding": [9], "duplicates": "none", "ceil_mode": True}
    assert told(chrome, "answer.values", op="global_avg_pool", size=[2], cells=[1, 3], **kept) == [2]


def test_the_script_defines_one_constant(chrome):
    """It is inlined into a page: nothing else may leak, and nothing of it may be changed."""
    names = "return Object.getOwnPropertyNames(globalThis).filter((name) => !names.includes(name))"
    frame = "const frame = document.body.appendChild(document.createElement('iframe')); "
    frame += "const names = Object.getOwnPropertyNames(frame.contentWindow); "
    assert chrome.execute_script(frame + names) == ["0"]  # the frame itself
    assert chrome.execute_script("return [typeof windows, Object.keys(windows), Object.isFrozen(windows)]") == [
        "object",
        ["answer"],
        True,
    ]
