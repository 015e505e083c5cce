"""Smooth maximum: weights of cells, sums of them over windows, and what the sums become."""
