"""Pooling of the cells that a mask leaves, by the kernels for all cells.

Forward, float32, one thread, in times of the call without a mask, for 2×2 and 3×3 windows of 64 and 512 planes of 56² and 112²:
maximum 1.4 to 2.0, mean 1.4 to 1.9, p-norm 1.1 to 1.4; minimum 1.5 to 2.9 and smooth maximum 1.5 to 3.5, which copy cells.
Of 28² planes, which without a mask are taken eight at once, means take 2.5 to 3.5 times as long; smooth maxima 1.6 to 6.5.
"""
