"""Pooling of the cells that a mask leaves, by the kernels for all cells.

Forward, float32, one thread, in times of the call without a mask, for 2×2 and 3×3 windows of 64 and 512 planes of 28² to 112²
(`python benchmarks/windows.py --masks --threads 1`): minimum 0.5 to 1.0, p-norm, which copies cells, 0.9 to 1.6, smooth maximum
1.0 to 1.2, mean and maximum 1.1 to 1.8.
"""
