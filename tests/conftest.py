"""What all tests share.

How hard Hypothesis looks: `dev` for a quick answer, `ci` in the test command, `nightly` to leave running.
"""

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

from support import browser
from support.marks import marks

slow_is_fine = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}
settings.register_profile("dev", max_examples=25, **slow_is_fine)
settings.register_profile("ci", max_examples=50, derandomize=True, print_blob=True, **slow_is_fine)
settings.register_profile("nightly", max_examples=5000, **slow_is_fine)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture
def ctrl_c():
    """SIGINT interrupts this process and those it starts, also where the tests were started with SIGINT ignored.

    A background job is, and some systems of continuous integration do so. Every test that sends SIGINT asks for this.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def pytest_itemcollected(item):
    """Markers that follow from what a test does; the examples of pages have none."""
    if isinstance(item, pytest.Function):
        for mark in marks(item):
            item.add_marker(mark)


def pytest_runtest_setup(item):
    """Without a browser its tests are left out, but not in continuous integration, where nothing is."""
    if item.get_closest_marker("browser") and browser.installed() is None:
        (pytest.fail if os.environ.get("CI", "").lower() not in ("", "0", "false") else pytest.skip)(browser.MISSING)


def pytest_terminal_summary(terminalreporter):
    left_out = [report for report in terminalreporter.stats.get("skipped", []) if browser.MISSING in str(report.longrepr)]
    if left_out:
        terminalreporter.section("left out")
        terminalreporter.line(f"{len(left_out)} browser tests were left out: {browser.MISSING}")
