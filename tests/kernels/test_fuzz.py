"""The fuzzers find nothing in a short run; they do find faults that are planted. `make fuzz` runs them for longer."""

import json
import subprocess
import sys

import pytest

from support.interpreter import fresh
from support.paths import TESTS


def output(*command):
    """The last lines are the ones that say what was found."""
    done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_operators_touch_nothing_beyond_their_arrays_and_agree_with_the_reference():
    """Guarded memory, two poisons, every operator, rule, dtype and layout, 1 to 7 threads."""
    status, text = output(TESTS / "fuzz.py", "memory", "--seed", 2026, "--cases", 600)
    assert status == 0, text
    assert "memory: 600 cases, 0 findings" in text


def test_the_sums_of_turned_tiles_end_where_their_memory_ends():
    """A vector was read from the last three sums of float64 on: 24 rows of a kept weight, on planes of 13 pixels."""
    status, _ = output(TESTS / "fuzz.py", "memory", "--seed", 20261118, "--case", 1048)
    assert status == 0


def test_every_public_function_gives_a_result_or_an_error_of_the_library():
    status, text = output(TESTS / "fuzz.py", "api", "--seed", 2026, "--cases", 10_000)
    assert status == 0, text
    assert "api: 10000 cases, 0 findings" in text


def test_every_model_with_mistakes_is_refused_or_runs():
    status, text = output(TESTS / "fuzz.py", "models", "--seed", 2026, "--cases", 3000)
    assert status == 0, text
    assert "models: 3000 cases, 0 findings" in text


def test_a_finding_is_repeated_by_the_command_that_it_prints():
    """The same number of the same seed is the same case, in a process of its own as among thousands."""
    for kind in ("memory", "api", "models"):
        described = [output(TESTS / "fuzz.py", kind, "--seed", 5, "--case", 7)[1].splitlines()[1] for _ in range(2)]
        assert described[0] == described[1]


MANY = f"""
import json, os, sys
sys.path.insert(0, {str(TESTS)!r})
from support import fuzz_workers
fuzz_workers.ENOUGH = 5
run = fuzz_workers.Run(lambda number: os._exit(3) if number == 7 else [str(os.getpid())], 23, 2)
print(json.dumps(sorted(run.run())))
"""


def test_all_cases_are_computed_by_processes_of_a_few_each():
    """A process keeps what the library keeps, and its mappings are counted: 2400 convolutions were too many for one."""
    found = json.loads(fresh(MANY))
    assert [number for number, _ in found] == list(range(23))
    assert found[7][1] == "the process ended with status 3"
    by = [said for number, said in found if number != 7]
    assert len(set(by)) == 3 + 3
    assert max(map(by.count, by)) == 5


@pytest.fixture(scope="module")
def planted():
    status, text = output(TESTS / "planted_faults.py")
    assert status == 0, text
    return json.loads(text)


CRASH = "the process was killed by SIGSEGV"


def test_one_cell_outside_guarded_memory_is_a_crash_and_inside_is_not(planted):
    """Arrays of every layout at both ends, what was freed, all scratch, also that of compiled code and of helper threads."""
    assert len(planted["touched"]) == 32
    for name, found in planted["touched"].items():
        assert found == ([CRASH] if name.startswith("outside") else []), name


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        ("reads_past_the_end", CRASH),
        ("reads_before_the_start", CRASH),
        ("leaves_a_cell_unwritten", "result 0: 1 of 12 cells, at (2, 3) nan, not 4.0"),
        ("writes_its_input", "input 0 was written"),
        ("looks_at_threads", "by layout, threads or memory"),
        ("looks_at_the_layout", "by layout, threads or memory"),
        ("looks_at_the_batch", "of a sample by itself"),
        ("raises", "IndexError: out of bounds"),
        ("gives_another_dtype", "result 0: float64(3, 4), not float32(3, 4)"),
    ],
)
def test_a_wrong_kernel_is_found(planted, kernel, said):
    assert any(text.startswith(said) for text in planted["wrong"][kernel])


def test_a_right_kernel_is_not(planted):
    assert planted["wrong"]["is_right"] == []
