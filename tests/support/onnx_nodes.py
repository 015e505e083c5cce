"""The data of ONNX's own tests, as its package carries them: models, most of a single node, with inputs and outputs."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import onnx
from onnx import numpy_helper
from onnx.backend.test import loader

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")


@dataclass(frozen=True)
class Stored:
    """One of ONNX's tests: a model, and where its arrays are."""

    name: str
    model: Any
    folder: Path
    rtol: float
    atol: float

    def sets(self) -> list[tuple[list[Any], list[Any]]]:
        """(the inputs of the model, its outputs) of every set of data."""
        known = {tensor.name for tensor in self.model.graph.initializer}
        inputs = [value for value in self.model.graph.input if value.name not in known]
        return [
            (arrays(folder, "input", len(inputs)), arrays(folder, "output", len(self.model.graph.output)))
            for folder in sorted(self.folder.glob("test_data_set_*"))
        ]


def arrays(folder: Path, which: str, count: int) -> list[Any]:
    return [numpy_helper.to_array(onnx.load_tensor(folder / f"{which}_{number}.pb")) for number in range(count)]


@cache
def stored_tests() -> list[Stored]:
    """Every test of the package that has a graph with nodes."""
    found = []
    for kind in KINDS:
        for test in loader.load_model_tests(kind=kind):
            model = onnx.load(Path(test.model_dir) / "model.onnx")
            if model.graph.node:
                found.append(Stored(f"{kind}/{test.name}", model, Path(test.model_dir), test.rtol, test.atol))
    return sorted(found, key=lambda test: test.name)


def operators_of(model: Any) -> set[str]:
    """Names of operators, with their domain if it is not ONNX's."""
    return {f"{node.domain}.{node.op_type}" if node.domain else node.op_type for node in model.graph.node}


def made_of(operators: Container[str]) -> list[Stored]:
    """The tests whose models have no other operators."""
    return [test for test in stored_tests() if all(name in operators for name in operators_of(test.model))]
