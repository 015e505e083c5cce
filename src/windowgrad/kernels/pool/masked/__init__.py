"""Pooling of the cells that a mask leaves, by the kernels for all cells.

Forward, float32, one thread, in times of the call without a mask, for 2×2 and 3×3 windows of 56² and 112² planes: maximum 1.3
to 1.9, mean 1.4 to 1.9, p-norm 1.2 to 1.4, minimum 1.3 to 1.6, smooth maximum 1.6 to 2.1. Means of 28² planes, which without a
mask are taken eight at once, take three times as long.
"""
