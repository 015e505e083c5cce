"""The rows of a benchmark in a JSON file: pictures and pages are made of it without measuring again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from report import Row

from windowgrad.saving import replacing

OF_EVERY_ROW = ("name", "group", "rule", "work", "milliseconds", "fastest_peer", "speedup", "over_floor")


@dataclass(frozen=True)
class Run:
    """What one command measured. `work`: what the work of a row counts. `also`: what was measured once, after all rows."""

    title: str
    command: str
    measured_with: dict[str, Any]
    work: str
    rows: list[Row]
    also: dict[str, Any]

    @property
    def peers(self) -> list[str]:
        return list(dict.fromkeys(name for row in self.rows for name in row.peers))


@dataclass(frozen=True)
class Stored:
    """A case as a file has it: enough to name it and to group it, not to measure it again."""

    name: str
    group: str
    rule: str
    others: dict[str, Any]

    def described(self) -> dict[str, Any]:
        return self.others


def write(run: Run, path: Path) -> None:
    """One line per row, so that two runs can be compared line by line."""
    about = {"title": run.title, "command": run.command, "measured_with": run.measured_with, "work": run.work, "also": run.also}
    head = [f"{text(name)}: {text(value)}," for name, value in about.items()]
    rows = ",\n".join(text(record(row)) for row in run.rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write("\n".join(["{", *head, '"rows": [', rows, "]}", ""]).encode())


def text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def record(row: Row) -> dict[str, Any]:
    return {
        "name": row.case.name,
        "group": row.case.group,
        **row.case.described(),
        "work": row.work,
        "milliseconds": {
            allocator: {name: round(seconds * 1e3, 5) for name, seconds in times.items()}
            for allocator, times in row.settings.items()
        },
        "fastest_peer": row.fastest,
        "speedup": {allocator: (ratio := row.over(allocator=allocator)) and round(ratio, 4) for allocator in row.settings},
        "over_floor": round(row.over_floor, 4),
    }


def read(path: Path) -> Run:
    content = json.loads(path.read_text(encoding="utf-8"))
    return Run(**content | {"rows": [row_of(stored) for stored in content["rows"]]})


def row_of(stored: dict[str, Any]) -> Row:
    others = {name: value for name, value in stored.items() if name not in OF_EVERY_ROW or name == "rule"}
    settings = {
        allocator: {name: milliseconds / 1e3 for name, milliseconds in times.items()}
        for allocator, times in stored["milliseconds"].items()
    }
    return Row(Stored(stored["name"], stored["group"], stored["rule"], others), settings, stored["work"])
