"""VNN-LIB files: a box of inputs and a description of what must not happen, read exactly.

    (declare-const X_0 Real)  …  (assert (<= X_0 0.5))  …  (assert (or (and (>= Y_1 Y_0)) …))

Every number is read as an exact fraction. The ends of the box become floats, rounded outwards, so the box is never smaller
than the file says. Outputs are linear: sums, differences and products with numbers. Inputs stand alone, compared with a number.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from windowgrad.certify.properties import Inequality, Property, ceiled, floored
from windowgrad.errors import OptionError, show

Array = np.ndarray[Any, Any]

LARGEST = 1 << 28
"""The most characters of a file, also when it was compressed."""
DEEPEST = 100
MOST_CASES = 1 << 16
NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d{1,4})?")
TOKEN = re.compile(r"\s+|;[^\n]*|(?P<token>[()]|[^\s();]+)")


class Question(NamedTuple):
    """One box of inputs, flat, and what is to be proved on it."""

    lo: Array
    hi: Array
    property: Property


class Bound(NamedTuple):
    """X[place] ≤ bound, or ≥."""

    place: int
    is_upper: bool
    bound: Fraction


Case = tuple[Bound | Inequality, ...]
"""Atoms that all hold; an inequality is the opposite of what is said of the output."""


def read(path: str | Path) -> list[Question]:
    """The questions of a file, one per box."""
    return parsed(text_of(Path(path)), str(path))


def text_of(path: Path) -> str:
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
            data = file.read(LARGEST + 1)
    except (OSError, EOFError) as error:
        raise OptionError(f"{path}: cannot be read ({error})") from None
    if len(data) > LARGEST:
        raise OptionError(f"{path}: is larger than {LARGEST >> 20} MiB")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise OptionError(f"{path}: is not a text file") from None


def parsed(text: str, name: str = "property") -> list[Question]:
    """The questions of a text; an error says in which line it is wrong."""
    reader = Reader(name)
    for line, expression in expressions(text, name):
        reader.take(line, expression)
    return reader.questions()


# --- expressions -------------------------------------------------------------------------------------------------


def expressions(text: str, name: str) -> Iterator[tuple[int, Any]]:
    """(line, nested lists of words) of each expression of the file."""
    stack: list[list[Any]] = []
    place, line, began = 0, 1, 1
    while place < len(text):
        match = TOKEN.match(text, place)
        assert match is not None  # the pattern takes every character
        token = match["token"]
        if token == "(":
            began = began if stack else line
            if len(stack) >= DEEPEST:
                raise OptionError(f"{name}, line {line}: nested more than {DEEPEST} deep")
            stack.append([])
        elif token == ")":
            if not stack:
                raise OptionError(f"{name}, line {line}: a ) without its (")
            done = stack.pop()
            if stack:
                stack[-1].append(done)
            else:
                yield began, done
        elif token is not None:
            if not stack:
                raise OptionError(f"{name}, line {line}: {show(token)} outside of parentheses")
            stack[-1].append(token)
        line += text.count("\n", place, match.end())
        place = match.end()
    if stack:
        raise OptionError(f"{name}, line {began}: a ( without its )")


class Reader:
    """The declarations and the assertions so far."""

    def __init__(self, name: str) -> None:
        self.name, self.line = name, 0
        self.counts = {"X": 0, "Y": 0}
        self.ends: dict[tuple[int, bool], Fraction] = {}
        self.cases: list[Case] = [()]

    def wrong(self, what: str) -> OptionError:
        return OptionError(f"{self.name}, line {self.line}: {what}")

    def take(self, line: int, expression: Any) -> None:
        self.line = line
        match expression:
            case ["declare-const" | "declare-fun", str(word), *rest] if rest in (["Real"], [[], "Real"]):
                letter, place = self.variable(word, declared=False)
                if place != self.counts[letter]:
                    raise self.wrong(f"{show(word)}: must be declared after {letter}_{place - 1}")
                self.counts[letter] += 1
            case ["assert", inner]:
                self.require(self.alternatives(inner))
            case ["set-logic" | "set-info" | "check-sat" | "exit", *_]:
                return
            case _:
                raise self.wrong(f"{show(expression)}: must be a declare-const or an assert")

    def variable(self, word: str, declared: bool = True) -> tuple[str, int]:
        letter, _, digits = word.partition("_")
        if letter not in self.counts or not (digits.isascii() and digits.isdigit()) or len(digits) > 9:
            raise self.wrong(f"{show(word)}: must be X_0, X_1, … or Y_0, Y_1, …")
        if declared and int(digits) >= self.counts[letter]:
            raise self.wrong(f"{word}: is not declared")
        return letter, int(digits)

    def require(self, options: list[Case]) -> None:
        """One more assertion: one of these must hold together with one of the cases so far."""
        if len(options) == 1 and all(isinstance(atom, Bound) for atom in options[0]):  # the usual: a side of the box
            for atom in options[0]:
                assert isinstance(atom, Bound)
                tighten(self.ends, atom)
            return
        if len(options) * len(self.cases) > MOST_CASES:
            raise self.wrong(f"more than {MOST_CASES} cases")
        self.cases = [(*case, *option) for case in self.cases for option in options]

    def alternatives(self, expression: Any) -> list[Case]:
        """The disjunction of conjunctions that an expression is."""
        match expression:
            case ["and", *parts]:
                sides = [self.alternatives(part) for part in parts]
                total = 1
                for side in sides:
                    total *= len(side)
                    if total > MOST_CASES:
                        raise self.wrong(f"more than {MOST_CASES} cases")
                return [tuple(atom for case in choice for atom in case) for choice in product(*sides)]
            case ["or", *parts]:
                return [case for part in parts for case in self.alternatives(part)]
            case ["<=" | "<" | ">=" | ">" as sign, left, right]:
                return [(self.atom(left, right) if sign in ("<=", "<") else self.atom(right, left),)]
            case ["=", left, right]:
                return [(self.atom(left, right), self.atom(right, left))]
        raise self.wrong(f"{show(expression)}: must be and, or, <=, <, >=, > or = of two terms")

    def atom(self, small: Any, large: Any) -> Bound | Inequality:
        """small ≤ large: a side of the box; of the output, which must not be so, the opposite: small > large."""
        terms, constant = self.linear(["-", small, large])
        letters = {letter for letter, _ in terms}
        if letters == {"X"} and len(terms) == 1:
            ((_, place), factor) = next(iter(terms.items()))
            return Bound(place, factor > 0, -constant / factor)
        if "X" in letters:
            raise self.wrong("inputs must stand alone, compared with a number")
        return Inequality.of({place: value for (_, place), value in terms.items()}, -constant)

    def linear(self, expression: Any) -> tuple[dict[tuple[str, int], Fraction], Fraction]:
        """(the factors of the variables, the constant) of a linear term."""
        if isinstance(expression, str):
            if NUMBER.fullmatch(expression):
                return {}, Fraction(expression)
            return {self.variable(expression): Fraction(1)}, Fraction(0)
        match expression:
            case ["+" | "-" as sign, *parts] if parts:
                factors = (
                    [1, *([1 if sign == "+" else -1] * (len(parts) - 1))] if len(parts) > 1 else [1 if sign == "+" else -1]
                )
                total: dict[tuple[str, int], Fraction] = {}
                constant = Fraction(0)
                for part, factor in zip(parts, factors, strict=True):
                    terms, number = self.linear(part)
                    constant += factor * number
                    for key, value in terms.items():
                        total[key] = total.get(key, Fraction(0)) + factor * value
                return {key: value for key, value in total.items() if value}, constant
            case ["*", left, right]:
                (first, a), (second, b) = self.linear(left), self.linear(right)
                if first and second:
                    raise self.wrong(f"{show(expression)}: must be linear")
                terms, scale = (first, b) if first else (second, a)
                return {key: value * scale for key, value in terms.items() if scale}, a * b
        raise self.wrong(f"{show(expression)}: must be a number, a variable, or +, - or * of them")

    def questions(self) -> list[Question]:
        """One per box: what the cases with the same box say of the output must not happen."""
        found: dict[tuple[tuple[int, bool, Fraction], ...], list[tuple[Inequality, ...]]] = {}
        for case in self.cases:
            ends = dict(self.ends)
            for atom in case:
                if isinstance(atom, Bound):
                    tighten(ends, atom)
            key = tuple(sorted((place, upper, bound) for (place, upper), bound in ends.items()))
            found.setdefault(key, []).append(tuple(atom for atom in case if isinstance(atom, Inequality)))
        self.line = 0
        return [question for key, unsafe in found.items() if (question := self.question(key, unsafe)) is not None]

    def question(self, key: tuple[tuple[int, bool, Fraction], ...], unsafe: list[tuple[Inequality, ...]]) -> Question | None:
        ends = {(place, upper): bound for place, upper, bound in key}
        lo, hi = np.empty(self.counts["X"]), np.empty(self.counts["X"])
        for place in range(self.counts["X"]):
            for upper, name in ((False, "lower"), (True, "upper")):
                if (place, upper) not in ends:
                    raise OptionError(f"{self.name}: X_{place} has no {name} bound")
            if ends[place, False] > ends[place, True]:
                return None  # an empty box: nothing can happen in it
            lo[place], hi[place] = floored(ends[place, False]), ceiled(ends[place, True])
        return Question(lo, hi, Property(tuple(unsafe)))


def tighten(ends: dict[tuple[int, bool], Fraction], atom: Bound) -> None:
    key = atom.place, atom.is_upper
    old = ends.get(key)
    ends[key] = atom.bound if old is None else min(old, atom.bound) if atom.is_upper else max(old, atom.bound)
