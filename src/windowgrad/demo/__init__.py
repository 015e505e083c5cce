"""The demonstration: a small network learns to read digits, and its gradient is checked against exact fractions."""

from windowgrad.demo.show import Options, run

__all__ = ["Options", "run"]
