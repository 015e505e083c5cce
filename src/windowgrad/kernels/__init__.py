"""The speed: operators over NumPy numbers. Pooling is compiled by Numba; convolution is plain vectorised NumPy for now."""
