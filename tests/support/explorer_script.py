"""The explorer's script in a browser: settings in, answers out, without a bit lost on the way."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np

import windowgrad
from support.explorer_draws import State

SOURCE = Path(windowgrad.__file__).parent / "explore" / "windows.js"
PACKED = ("cells", "weight", "cotangent", "bias", "beta")
"""JSON has no NaN and no infinity, so lists of numbers travel as the bytes of doubles."""

RUN = """
const [states] = arguments;
const unpack = (text) => [...new Float64Array(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer)];
const pack = (list) => {
  const bytes = new Uint8Array(Float64Array.from(list).buffer);
  return btoa(String.fromCharCode(...bytes));
};
const packed = (list) => (list === null ? null : pack(typeof list === "number" ? [list] : list));

function read(state) {
  const given = { ...state };
  for (const name of ["cells", "weight", "cotangent"]) if (given[name]) given[name] = unpack(given[name]);
  for (const name of ["bias", "beta"]) if (given[name]) given[name] = unpack(given[name])[0];
  delete given.o;
  return given;
}

function told(state) {
  let answer;
  try {
    answer = windows.answer(read(state));
  } catch (error) {
    return { error: error.message };
  }
  const seen = answer.values.map((_, o) => {
    const { at, places, winners, divisor, value } = answer.window(o);
    const cells = places.filter((place) => place.kind === "cell");
    const count = (kind) => places.filter((place) => place.kind === kind).length;
    return {
      at, winners, divisor,
      value: pack([value]),
      flats: cells.map((place) => place.flat),
      taps: cells.map((place) => place.tap),
      padded: count("padding"),
      past: count("past"),
      shares: pack(cells.map((place) => place.share ?? NaN)),
    };
  });
  const back = Object.fromEntries(Object.entries(answer.back).map(([name, list]) => [name, packed(list)]));
  const { x, weight, bias, beta } = answer.gives(state.o);
  const one = (list) => ({ flats: list.map((each) => each.flat), values: pack(list.map((each) => each.value)) });
  const gives = { x: one(x), weight: weight && one(weight), bias: packed(bias), beta: packed(beta) };
  return { out: answer.out, values: pack(answer.values), indices: answer.indices, formula: answer.formula, seen, back, gives };
}

return states.map(told);
"""


def pack(numbers: Any) -> str:
    return base64.b64encode(np.array(numbers, dtype="<f8").tobytes()).decode()


def unpack(text: str) -> Any:
    return np.frombuffer(base64.b64decode(text), dtype="<f8")


def load(chrome: Any, source: str | None = None) -> None:
    """A page with nothing but the script, as the explorer inlines it."""
    text = SOURCE.read_text("utf-8") if source is None else source
    chrome.get("data:text/html;base64," + base64.b64encode(f"<meta charset=utf-8><script>{text}</script>".encode()).decode())


def answers(chrome: Any, states: list[State], batch: int = 250) -> list[dict[str, Any]]:
    """What the script of the loaded page says to each."""
    found = []
    for first in range(0, len(states), batch):
        sent = [{name: written(name, value) for name, value in state.items()} for state in states[first : first + batch]]
        found += chrome.execute_script(RUN, sent)
    return found


def written(name: str, value: Any) -> Any:
    return pack(value) if name in PACKED and value is not None else value
