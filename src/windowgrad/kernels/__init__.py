"""The speed: operators over NumPy numbers. For now plain vectorised NumPy that gathers windows by the per-axis tables."""
