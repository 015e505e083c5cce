"""Which markers a test has, found by what it is made of, so that no test has to remember them.

`slow` alone is written on the test itself: `@pytest.mark.slow`.
"""

from __future__ import annotations

import inspect
import multiprocessing
import os
import subprocess
from collections.abc import Iterator
from functools import cache
from types import CodeType, FunctionType, ModuleType
from typing import Any

from support.paths import TESTS

STARTERS = (subprocess, multiprocessing, os.fork)
FOLLOWED = ("support", "test_", "conftest", "windowgrad.conform")
"""Modules whose functions are looked into: those of the tests, and `conform`, which asks implementations in processes."""


def marks(item: Any) -> Iterator[str]:
    """The markers of a test: `browser` if it opens a page, `processes` if it starts one, `peers` if it compares with others."""
    if "chrome" in item.fixturenames:
        yield "browser"
    fixtures = [found[-1].func for found in item._fixtureinfo.name2fixturedefs.values()]
    if any(map(starts, [item.function, *fixtures])):
        yield "processes"
    place = item.path.relative_to(TESTS)
    if place.parts[0] == "peers" or place.stem.endswith(("_torch", "_implementations")):
        yield "peers"


@cache
def starts(function: Any) -> bool:
    """Whether a function names something that starts a process, by itself or by functions that it names."""
    seen: set[Any] = set()
    left = [function]
    while left:
        found = left.pop()
        if is_starter(found):
            return True
        if isinstance(found, type):
            left += [value for value in vars(found).values() if is_followed(value) and value not in seen]
        elif is_followed(found) and found not in seen:
            left += named(bare(found))
        seen.add(found)
    return False


def is_starter(value: Any) -> bool:
    return any(value is starter for starter in STARTERS)


def is_followed(value: Any) -> bool:
    return isinstance(value, FunctionType | type) and value.__module__.startswith(FOLLOWED)


def bare(function: Any) -> Any:
    """A test without what Hypothesis and others have put around it."""
    function = getattr(getattr(function, "hypothesis", None), "inner_test", function)
    return inspect.unwrap(function)


def named(function: FunctionType) -> list[Any]:
    """What the names in a function stand for: globals, and members of modules among them."""
    names = set(names_of(function.__code__))
    found = [function.__globals__[name] for name in names if name in function.__globals__]
    members = [vars(module).get(name) for module in found if isinstance(module, ModuleType) for name in names]
    return [value for value in (*found, *members) if is_starter(value) or is_followed(value)]


def names_of(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_of(constant)
