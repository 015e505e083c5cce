"""Vectors of numbers for kernels: one LLVM vector per value. Nothing here knows of windows."""
