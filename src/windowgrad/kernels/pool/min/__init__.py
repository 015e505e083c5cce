"""Minimum: the kernels of the maximum, with the cells in the reverse order."""
