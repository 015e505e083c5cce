"""A small set of rows in which every two levels of any two factors meet at least once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from random import Random
from typing import Any

Row = dict[str, Any]


def pairwise(factors: Mapping[str, Sequence[Any]], possible: Callable[[Row], bool], rng: Random) -> Iterator[Row]:
    """Greedy: each row starts with a pair not yet met, and takes for each factor the level that meets the most of them.

    `possible` judges a row of which some factors are missing; a pair that no row can hold is left out.
    """
    unmet = {
        frozenset([(a, i), (b, j)]) for a, b in combinations(factors, 2) for i in levels(factors, a) for j in levels(factors, b)
    }
    while unmet:
        start = min(unmet, key=sorted)
        unmet.discard(start)
        row = dict(start)
        for name in factors:
            if name not in row:
                open_levels = [i for i in levels(factors, name) if possible(valued(factors, row | {name: i}))]
                if not open_levels:
                    break
                row[name] = max(open_levels, key=lambda i: (gain(unmet, row, name, i), rng.random()))
        else:
            if possible(valued(factors, row)):
                unmet -= {frozenset(pair) for pair in combinations(row.items(), 2)}
                yield valued(factors, row)


def levels(factors: Mapping[str, Sequence[Any]], name: str) -> range:
    return range(len(factors[name]))


def valued(factors: Mapping[str, Sequence[Any]], row: Mapping[str, int]) -> Row:
    return {name: factors[name][i] for name, i in row.items()}


def gain(unmet: set[frozenset[tuple[str, int]]], row: Mapping[str, int], name: str, level: int) -> int:
    """How many unmet pairs a row meets by taking this level."""
    return sum(frozenset([(name, level), other]) in unmet for other in row.items())
