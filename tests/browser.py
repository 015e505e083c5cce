"""A Chromium without a window, and everything it asked the network for or complained about."""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from tempfile import TemporaryDirectory

import pytest

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,900",
)
BROWSERS = ("chromium", "google-chrome", "chromium-browser", "google-chrome-stable")


@contextmanager
def browser():
    """A fresh browser with an empty profile. The driver is the one installed: nothing is looked up or fetched."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.fail("needs Chromium or Chrome and its driver: on Debian, apt-get install chromium chromium-driver")
    with TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = program
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        chrome = webdriver.Chrome(service=Service(executable_path=driver), options=options)
        try:
            yield chrome
        finally:
            chrome.quit()


def requests(chrome):
    """The addresses asked for since the last question."""
    messages = [json.loads(entry["message"])["message"] for entry in chrome.get_log("performance")]
    return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
