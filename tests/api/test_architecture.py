"""docs/architecture.md is true: the calls that it walks through, by tracing them, and its rooms, by the import contract."""

import re
import tomllib

import pytest

from support.paths import DOCS, ROOT
from support.walk import in_a_fresh_process, table, tables


@pytest.fixture(scope="module")
def walks():
    return in_a_fresh_process()


def test_the_page_walks_through_every_traced_call(walks):
    assert list(tables()) == list(walks)


@pytest.mark.parametrize("name", ["NumPy", "tape", "torch", "torch backward"])
def test_the_steps_of_a_walk_are_those_of_the_call(name, walks):
    shown = [(file, function) for file, function, _ in tables()[name]]
    assert shown == walks[name], f"docs/architecture.md should have this table:\n\n{table(name, walks[name])}\n"


def test_every_step_of_a_walk_is_explained():
    assert not [step for steps in tables().values() for step in steps if step[2] == "?"]


def test_the_rooms_are_those_of_the_import_contract_in_its_order():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if "windowgrad.cli" in contract.get("layers", ()))
    rooms = (DOCS / "architecture.md").read_text(encoding="utf-8").partition("## Rooms")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", rooms, re.MULTILINE) == [layer.removeprefix("windowgrad.") for layer in layers]
