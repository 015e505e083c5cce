"""Image pyramids of Zarr arrays that are larger than memory: every level is half as long as the one before it."""

from windowgrad.pyramid.build import build

__all__ = ["build"]
