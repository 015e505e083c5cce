"""Convolution, its two gradients, and transposed convolution. `choose` says which kernel computes a call."""
