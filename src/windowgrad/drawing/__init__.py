"""Drawings of windows: which cells an output sees, as text and as SVG."""
