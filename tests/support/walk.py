"""Which functions a call goes through, by tracing one call: what `docs/architecture.md` shows and a test compares.

`python tests/support/walk.py` prints the tables of that page as they are true today, `--write` puts them into the page.
"""

from __future__ import annotations

import gc
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
SOURCES = ROOT / "src" / "windowgrad"


class Entered(NamedTuple):
    """A function of the package that was called, by the functions around it, outermost first."""

    file: str
    function: str
    within: tuple[tuple[str, str], ...]

    @property
    def step(self) -> tuple[str, str]:
        return self.file, self.function


def traced(call: Callable[[], object]) -> list[Entered]:
    """Every function of the package that the call enters. Numba reports its kernels to a profiler, too."""
    found: list[Entered] = []
    around: list[tuple[FrameType, tuple[str, str]]] = []

    def watch(frame, event, _):
        path = Path(frame.f_code.co_filename)
        if event not in ("call", "return") or not path.is_relative_to(SOURCES):
            return
        if event == "return":
            if around and around[-1][0] is frame:  # not a generator of another call, which ends when it is collected
                around.pop()
            return
        name = frame.f_code.co_qualname.rpartition("<locals>.")[2]
        step = path.relative_to(SOURCES).as_posix(), name
        found.append(Entered(*step, tuple(outer for _, outer in around)))
        around.append((frame, step))

    gc.collect()
    gc.disable()  # what ends when it is collected is no part of the call
    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
        gc.enable()
    return found


def is_kernel(entered: Entered) -> bool:
    """Whether it is compiled by Numba."""
    module = sys.modules.get("windowgrad." + entered.file.removesuffix(".py").replace("/", "."))
    return hasattr(getattr(module, entered.function, None), "py_func")


def spine(entered: list[Entered]) -> list[tuple[str, str]]:
    """The functions on the way to the first kernel, and the kernel."""
    kernel = next(filter(is_kernel, entered), None)
    assert kernel is not None, f"no kernel among {[each.step for each in entered]}"
    return named([*kernel.within, kernel.step])


def steps(entered: list[Entered]) -> list[tuple[str, str]]:
    """The spine, what its functions call, and the function by which each other file is first entered; in order of time."""
    way, files = set(spine(entered)), set()
    shown: dict[tuple[str, str], None] = {}
    for each in entered:
        called = not each.within or each.within[-1] in way
        if named([each.step]) and (each.step in way or called or each.file not in files):
            shown[each.step] = None
        files.add(each.file)
    return list(shown)


def named(found: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Without lambdas and generators."""
    return [(file, function) for file, function in found if "<" not in function]


def walks() -> dict[str, list[tuple[str, str]]]:
    """The calls of the page. Each is traced when its kernels are loaded, with options that were not seen before."""
    import numpy as np
    import torch

    import windowgrad as wg

    def recorded(x, *options):
        tape = wg.Tape()
        return tape, wg.sum(wg.max_pool2d(tape.leaf(x), *options))

    def pooled(x, *options):
        return wg.max_pool2d(torch.from_numpy(x).requires_grad_(), *options).sum()

    small, x = np.zeros((1, 1, 4, 4), np.float32), np.zeros((1, 3, 8, 8), np.float32)
    wg.max_pool2d(small, 2)
    tape, loss = recorded(small, 2)
    tape.backward(loss)
    pooled(small, 2).backward()
    found = {"NumPy": steps(traced(lambda: wg.max_pool2d(x, 3, 2, 1)))}
    tape, loss = recorded(x, 3, 2, 1)
    found["tape"] = spine(traced(lambda: tape.backward(loss)))
    found["torch"] = spine(traced(lambda: pooled(x, 3, 2, 1)))
    result = pooled(x, 3, 2, 1)
    found["torch backward"] = spine(traced(result.backward))
    return found


def in_a_fresh_process() -> dict[str, list[tuple[str, str]]]:
    """The same, where no other call has filled a cache. Numba has left a kernel out, seldom: then once more."""
    command = [sys.executable, __file__, "--json"]
    first = subprocess.run(command, stdout=subprocess.PIPE, check=False, text=True)
    done = first if first.returncode == 0 else subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    printed = done.stdout
    return {name: [(file, function) for file, function in walk] for name, walk in json.loads(printed).items()}


# --- the page ----------------------------------------------------------------------------------------------------


def tables() -> dict[str, list[tuple[str, str, str]]]:
    """What the page says: for each call its steps, as file, function and what it does."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    for name, text in re.findall(r"<!-- walk: (.*?) -->\n(.*?)<!-- end -->", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        found[name] = re.findall(r"^\| \d+ \| `(.*?)` \| `(.*?)` \| (.*?) \|$", text, re.MULTILINE)
    return found


def table(name: str, walk: list[tuple[str, str]]) -> str:
    """A table of the page, with the words that it has for each function; a new one has a question mark."""
    words = {function: does for _, function, does in tables().get(name, [])}
    words |= {f"{file} {function}": does for file, function, does in tables().get(name, [])}
    said = [words.get(f"{file} {function}", words.get(function, "?")) for file, function in walk]
    rows = (f"| {i} | `{step[0]}` | `{step[1]}` | {does} |" for i, (step, does) in enumerate(zip(walk, said, strict=True), 1))
    head = ["| | file in `src/windowgrad` | function | what it does |", "|---|---|---|---|"]
    return "\n".join([f"<!-- walk: {name} -->", *head, *rows, "<!-- end -->"])


def rewrite() -> None:
    """The page with the tables as they are true today."""
    text = PAGE.read_text(encoding="utf-8")
    for name, walk in in_a_fresh_process().items():
        before, mark, rest = text.partition(f"<!-- walk: {name} -->\n")
        text = before + table(name, walk) + rest.partition("<!-- end -->")[2] if mark else text
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if "--json" in sys.argv:
        print(json.dumps(walks()))
    elif "--write" in sys.argv:
        rewrite()
    else:
        print("\n\n".join(table(name, walk) for name, walk in in_a_fresh_process().items()))
