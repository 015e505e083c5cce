"""Pooling of the cells that a mask leaves, by the kernels for all cells."""
