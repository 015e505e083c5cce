"""Plugin of pytest: `pytest --windowgrad-conform=torch` runs the checks of `windowgrad conform` as tests.

pytest loads this file in every run where windowgrad is installed. So it imports nothing but pytest before the option is given.
"""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("windowgrad", "conformance to the specification of windowgrad")
    group.addoption(
        "--windowgrad-conform",
        action="append",
        default=[],
        metavar="NAME",
        help="check an implementation: a name such as torch, or module:Class for an adapter of your own; may be repeated. "
        "Without paths on the command line, nothing else is collected.",
    )
    group.addoption("--windowgrad-cases", type=int, default=None, metavar="N", help="how many cases; default: all pairs")
    group.addoption("--windowgrad-seed", type=int, default=0, metavar="N", help="seed of the cases; default: 0")
    group.addoption(
        "--windowgrad-only",
        action="append",
        default=[],
        metavar="WORD",
        help="an operator, a check (such as gradient) or a rule (such as NaN); may be repeated",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--windowgrad-conform"):
        config.addinivalue_line("markers", "windowgrad_conform: a check of windowgrad conform")
        if config.args_source != config.ArgsSource.ARGS:
            config.args = []


@pytest.hookimpl(tryfirst=True)  # so that -k and -m select among them
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--windowgrad-conform"):
        from windowgrad.conform.items import items_of

        items[:0] = items_of(session, config)
