"""A Chromium without a window, and everything it asked the network for or complained about.

`python tests/support/browser.py` says whether there is one; it needs nothing but Python.
"""

from __future__ import annotations

import json
import shutil
import sys
from contextlib import contextmanager
from tempfile import TemporaryDirectory

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
MISSING = "no Chromium or Chrome with its chromedriver on the PATH; `make browser` installs one"


def installed():
    """The browser and its driver, or None if one of them is missing."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    return (program, driver) if program and driver else None


@contextmanager
def browser():
    """A fresh browser with an empty profile. The driver is the one installed: nothing is looked up or fetched."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    program, driver = installed()
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


@contextmanager
def quiet_page(chrome, address, also=None):
    """The page just opened. In the end the browser has complained of nothing, and asked for the page once and for nothing else.

    `also`: what it may ask for too, if the page may be opened again.
    """
    chrome.get("about:blank")
    requests(chrome)
    chrome.get(address)
    yield chrome
    assert chrome.get_log("browser") == []
    asked = [request.partition("#")[0] for request in requests(chrome)]
    assert asked == [address] if also is None else set(asked) - set(also) == {address}


if __name__ == "__main__":
    found = installed()
    print("browser: " + (MISSING if found is None else " and ".join(found)))
    sys.exit(found is None)
