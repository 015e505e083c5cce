"""Settings of the window explorer, drawn at random as addresses of its page, and what the page answers."""

from __future__ import annotations

import random
from typing import Any

POOLS = ("max_pool", "min_pool", "avg_pool", "smooth_max_pool")
OPS = (
    *POOLS * 3,
    *(f"{kind}_{name}" for kind in ("adaptive", "global") for name in POOLS),
    *("conv", "conv_transpose", "max_unpool") * 3,
)

ASK = """
const state = states.filled(states.read(arguments[0])), facts = JSON.parse(document.getElementById("facts").textContent);
const texts = (cells) => cells && cells.map(states.numbered);
try {
  const answer = windows.answer(state), known = notes.about(facts, state, answer);
  return { ...state, cells: texts(state.cells), weight: texts(state.weight), out: answer.out, values: texts(answer.values),
    programs: code.of(state, answer), features: [...notes.features(state, answer)], group: notes.group(state, answer, null),
    known: known.map((entry) => [entry.name, entry.id]) };
} catch (error) { return { error: error.message }; }"""


def asked(chrome: Any, address: str) -> dict[str, Any]:
    """What the page, opened, computes for an address: the state, the values as text, the programs and the known differences."""
    answer: dict[str, Any] = chrome.execute_script(ASK, address)
    return answer


def addresses(many: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    return [address(rng, OPS[number % len(OPS)]) for number in range(many)]


def address(rng: random.Random, op: str) -> str:
    """One operator with options of all kinds: uneven and large padding, dilation, ceil mode, ties, NaN."""
    strange = op.endswith(("max_pool", "avg_pool")) and rng.random() < 0.3
    rank = 1 if strange else rng.choice((1, 2, 2, 3))
    words = {"op": op, "size": each(rng, rank, 3, 4, 5, 6), "seed": str(rng.randrange(99))}
    if op.startswith("adaptive"):
        words["output_size"] = each(rng, rank, 1, 2, 2, 3, "-")
    elif not op.startswith("global"):
        words |= windows(rng, op, rank)
    if op.startswith("conv") and rng.random() < 0.4:
        words["bias"] = "2.5"
    if op == "conv_transpose" and rng.random() < 0.4:
        words["output_padding"] = each(rng, rank, 0, 1)
    if op.endswith("smooth_max_pool"):
        words["beta"] = rng.choice(("1", "0.5", "-2"))
    elif op.endswith(("max_pool", "min_pool")) and rng.random() < 0.3:
        words["ties"] = rng.choice(("first", "all", "split"))
    if strange:
        words |= {"size": "5", "cells": rng.choice(("1,nan,-inf,-inf,-0", "inf,-inf,2,-inf,-inf"))}
    return "#" + "&".join(f"{name}={value}" for name, value in words.items())


def windows(rng: random.Random, op: str, rank: int) -> dict[str, str]:
    pads = rng.choice(((0,), (0, 1), ("0:1", "1:0", "1:1"), ("2:0", "0:3")))
    found = {"kernel": each(rng, rank, 1, 2, 2, 3), "stride": each(rng, rank, 1, 2, 2, 3), "padding": each(rng, rank, *pads)}
    if op != "max_unpool" and rng.random() < 0.3:
        found["dilation"] = each(rng, rank, 1, 2)
    if op in POOLS and rng.random() < 0.4:
        found["ceil"] = "1"
    if op in ("avg_pool", "smooth_max_pool") and rng.random() < 0.5:
        found["count_include_pad"] = "0"
    if op == "avg_pool" and rng.random() < 0.2:
        found["divisor"] = "3"
    return found


def each(rng: random.Random, rank: int, *choices: Any) -> str:
    """One of the choices for each axis."""
    return "x".join(str(rng.choice(choices)) for _ in range(rank))
