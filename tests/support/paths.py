"""Where things are in the project."""

from pathlib import Path

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
DOCS, EXAMPLES, BENCHMARKS = ROOT / "docs", ROOT / "examples", ROOT / "benchmarks"
