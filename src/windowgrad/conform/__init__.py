"""Checks of other implementations against the specification: `windowgrad conform`. `Adapter` is the base for your own."""

from windowgrad.conform.adapter import Adapter, Implementation, arguments, arrays_of, first_reason
from windowgrad.conform.case import Case

__all__ = ["Adapter", "Case", "Implementation", "arguments", "arrays_of", "first_reason"]
