"""ONNX models with mistakes: bytes of the file changed, or fields of the model. Each is refused, or is a network that runs.

A finding is an exception that is not of the library, a message of 5000 characters or more, a warning, a case of more than 5
seconds, or a crash. Models are those of ONNX's own tests, with their inputs.
"""

from __future__ import annotations

import random
import resource
import time
import traceback
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import Message

from support.fuzz_api import MEMORY, folder, memory_in_use
from support.onnx_nodes import Stored, made_of
from windowgrad.errors import WindowgradError
from windowgrad.onnx import load
from windowgrad.onnx.operators import TABLE

LONGEST_MESSAGE, LONGEST_CASE = 5000, 5.0
NUMBERS = (0, 1, -1, 2, 3, 7, 2**31 - 1, 2**31, -(2**31), 2**62, -(2**63), 2**63 - 1)
FLOATS = (0.0, -1.0, 0.5, 1e30, -1e-30, float("inf"), float("nan"))
NAMES = ("", "x", "y", "nobody", "\n", "a" * 3000, "\U0001f600", "../x", "Conv", "If", "SAME_UPPER", "auto_pad", "pads", "{}")
OLD = 9
"""The first versions of the format that know opsets; older ones need none."""


@cache
def models(only: str | None) -> list[Stored]:
    """Those with this operator, or all; opsets that are too old are called new, so that more than this is found out."""
    found = []
    for test in made_of(TABLE):
        if only is None or only in {node.op_type for node in test.model.graph.node}:
            for entry in test.model.opset_import:
                entry.version = max(OLD, entry.version)
            found.append(test)
    return found


def prepare() -> None:
    models(None)
    folder()
    resource.setrlimit(resource.RLIMIT_AS, (memory_in_use() + MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))


# --- mistakes ------------------------------------------------------------------------------------------------------------


def draw(seed: int, number: int, only: str | None) -> tuple[Stored, bytes, list[str]]:
    """(the test, the file with mistakes, what they are)."""
    rng = random.Random(f"{seed}/{number}")
    tests = models(only)
    test = rng.choice(tests)
    model = onnx.ModelProto()
    model.CopyFrom(test.model)
    told = [mutate(rng, model) for _ in range(rng.choice((0, 1, 1, 1, 2, 3)))]
    data = model.SerializeToString()
    if not told or rng.random() < 0.2:
        data, words = damaged(rng, data)
        told.append(words)
    return test, data, told


def damaged(rng: random.Random, data: bytes) -> tuple[bytes, str]:
    changed = bytearray(data)
    start = rng.randrange(len(data))
    match rng.randrange(4):
        case 0:
            for _ in range(rng.choice((1, 1, 2, 8))):
                changed[rng.randrange(len(changed))] = rng.randrange(256)
            words = "bytes changed"
        case 1:
            del changed[start:]
            words = f"cut at {start}"
        case 2:
            del changed[start : start + rng.choice((1, 2, 5, 40))]
            words = f"bytes left out at {start}"
        case _:
            changed[start:start] = data[start : start + rng.choice((1, 3, 30, 300))]
            words = f"bytes repeated at {start}"
    return bytes(changed), words


def mutate(rng: random.Random, model: Any) -> str:
    """One field of one message inside the model, changed; half of the time an attribute, if there is one."""
    found = messages(model, "model")
    attributes = [entry for entry in found if ".attribute[" in entry[1]]
    message, path = rng.choice(attributes if attributes and rng.random() < 0.5 else found)
    fields = message.ListFields()
    if not fields or rng.random() < 0.1:
        name = rng.choice(message.DESCRIPTOR.fields).name
        return set_to(message, name, rng.choice((*NUMBERS, *FLOATS, *NAMES, b"bytes")), path)
    field, value = rng.choice(fields)
    where = f"{path}.{field.name}"
    if hasattr(value, "extend"):
        return change_list(rng, value, where)
    if rng.random() < 0.15:
        message.ClearField(field.name)
        return f"{where} cleared"
    if isinstance(value, Message):
        return f"{where} kept"
    return set_to(message, field.name, other(rng, value), path)


def messages(message: Any, path: str) -> list[tuple[Any, str]]:
    found = [(message, path)]
    for field, value in message.ListFields():
        if isinstance(value, Message):
            found += messages(value, f"{path}.{field.name}")
        elif hasattr(value, "extend") and len(value) and isinstance(value[0], Message):
            for number, entry in enumerate(value):
                found += messages(entry, f"{path}.{field.name}[{number}]")
    return found


def change_list(rng: random.Random, values: Any, where: str) -> str:
    place = rng.randrange(len(values))
    match rng.randrange(3):
        case 0:
            del values[place]
            return f"{where}[{place}] left out"
        case 1:
            values.extend([values[place]])
            return f"{where}[{place}] repeated"
    if isinstance(values[place], Message):
        values.sort(key=lambda _: rng.random())
        return f"{where} in another order"
    values[place] = other(rng, values[place])
    return f"{where}[{place}]={str(values[place])[:40]!r}"


def set_to(message: Any, name: str, value: Any, path: str) -> str:
    """A field that was perhaps not there; one that the value does not fit stays as it was."""
    try:
        setattr(message, name, value)
    except (TypeError, ValueError, AttributeError, OverflowError):
        return f"{path}.{name} kept"
    return f"{path}.{name}={str(value)[:40]!r}"


def other(rng: random.Random, value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        near = value + rng.choice((-1, 1, 2))
        number = near if rng.random() < 0.5 else rng.choice(NUMBERS)
        return number if -(2**31) <= number < 2**31 or abs(value) >= 2**31 else number % 50
    if isinstance(value, float):
        return rng.choice(FLOATS)
    if isinstance(value, bytes):
        return value[: rng.randrange(len(value) + 1)] if rng.random() < 0.5 else rng.choice(NAMES).encode()
    return rng.choice((*NAMES, *TABLE))


# --- what becomes of them ------------------------------------------------------------------------------------------------


def describe(seed: int, number: int, only: str | None) -> str:
    test, data, told = draw(seed, number, only)
    return f"{test.name} ({len(data)} bytes): {'; '.join(told)}"


def check(seed: int, number: int, only: str | None) -> list[str]:
    test, data, _ = draw(seed, number, only)
    path = Path(folder().name) / f"{number}.onnx"
    path.write_bytes(data)
    began = time.monotonic()
    wrong = outcome(path, test)
    path.unlink()
    if (took := time.monotonic() - began) > LONGEST_CASE:
        wrong.append(f"took {took:.1f} s")
    return wrong


def outcome(path: Path, test: Stored) -> list[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            net = load(path)
            arrays = stored_inputs(test) + [np.ones((1, 2, 3, 4), np.float32)] * 3
            net(*arrays[: len(net.inputs)])
    except WindowgradError as error:
        return [f"a message of {len(str(error))} characters"] if len(str(error)) >= LONGEST_MESSAGE else []
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return [f"{type(error).__name__}: {str(error)[:300]} ({Path(where.filename).name}:{where.lineno})"]
    return []


def stored_inputs(test: Stored) -> list[Any]:
    try:
        return test.sets()[0][0]
    except Exception:  # a sequence, which has no array
        return []
