"""Take the pictures of docs/explore.md: the window explorer on a wide screen, and on a telephone in the dark.

python tools/explorer_pictures.py    writes docs/explorer.png and docs/explorer-phone.png; needs Chromium (`make browser`)
"""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from support.browser import browser  # noqa: E402  # it is below the folder just named
from windowgrad.explore.page import html  # noqa: E402  # sorted with the one above


class Picture(NamedTuple):
    name: str
    width: int
    height: int
    theme: str
    hash: str
    top: str = "header"
    """The element at the top of the picture."""


PICTURES = (
    Picture("explorer.png", 1280, 730, "light", "#op=max_pool&size=6x6&kernel=3&stride=2&padding=1&ceil=1&seed=5&at=11"),
    Picture(
        "explorer-phone.png",
        400,
        800,
        "dark",
        "#op=conv&size=5x5&kernel=3&padding=1&weight=1,0,-1,2,0,-2,1,0,-1&seed=8&at=6",
        "#input",
    ),
)


def take(chrome: Any, page: Path, picture: Picture) -> None:
    """Take one picture of the page."""
    screen = {"width": picture.width, "height": picture.height, "deviceScaleFactor": 1, "mobile": picture.width < 800}
    media = [{"name": "prefers-color-scheme", "value": picture.theme}]
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    chrome.get("about:blank")
    chrome.get(page.as_uri() + picture.hash)
    top = f"return document.querySelector('{picture.top}').getBoundingClientRect().top"
    area = {"x": 0, "y": max(0, chrome.execute_script(top) - 12), "width": picture.width, "height": picture.height, "scale": 1}
    taken = chrome.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": area})
    (ROOT / "docs" / picture.name).write_bytes(base64.b64decode(taken["data"]))


def main() -> None:
    with TemporaryDirectory() as folder, browser() as chrome:
        page = Path(folder) / "explorer.html"
        page.write_text(html(), "utf-8")
        for picture in PICTURES:
            take(chrome, page, picture)


if __name__ == "__main__":
    main()
