"""The demonstration: a small network learns to read digits, and its gradient is held against exact fractions."""

from windowgrad.demo.show import Options, run

__all__ = ["Options", "run"]
